"""What repeats an experiment: its file, written again from the store, and the command."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from scyc.experiment import load, presets
from scyc.report.rows import Results
from scyc.report.toml import inline, key
from scyc.run import SCHEDULE

OWN = (*SCHEDULE, "seed", "data_digest")  # of one run, or of the data it was given
PLACED = ("folder", "npz", "safetensors")  # data sets that lie where their owner put them


def toml(results: Results) -> str:
    """The experiment as a file for `scyc run`."""
    shared = {name: value for name, value in results.config.items() if name not in OWN}
    head = [f"doc = {inline(results.doc)}"] if results.doc else []
    head += [f"published = {inline(results.published)}"] if results.published else []
    lines = [*head, f"seeds = {inline(seeds(results.seeds))}", "", "[run]"]
    if shared.get("data", {}).get("name") in PLACED:
        lines.append("# the data lie in a folder of their owner: add path = ... to them")
    lines += [f"{key(name)} = {inline(named_first(value))}" for name, value in shared.items()]
    for label, config in results.configs.items():
        lines += ["", f"[schedules.{key(label)}]"]
        lines += [f"{part} = {inline(named_first(config[part]))}" for part in SCHEDULE if part in config]
    return "\n".join(lines) + "\n"


def named_first(value: Any) -> Any:
    """A part begins with its name."""
    if not isinstance(value, Mapping):
        return value
    inner = {name: named_first(item) for name, item in value.items()}
    return ({"name": inner.pop("name")} if "name" in inner else {}) | inner


def seeds(numbers: Sequence[int]) -> str:
    """As --seeds takes them."""
    first, last = numbers[0], numbers[-1]
    if list(numbers) == list(range(first, last + 1)):
        return f"{first}-{last}"
    return ",".join(map(str, numbers))


def command(results: Results, settings: str) -> str:
    """With the preset of this name where it still means the same, else with the file."""
    words = ["scyc", "run", results.name, "--seeds", seeds(results.seeds)]
    if not (results.name in presets() and same(results.name, settings)):
        words = ["scyc", "run", f"{results.name}.toml"]
    return shlex.join(words)


def same(preset: str, settings: str) -> bool:
    try:
        return load(preset, seeds="1").settings == settings
    except ValueError:
        return False
