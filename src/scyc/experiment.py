"""An experiment: schedules x seeds over one base configuration, from a preset or a file, with overrides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from scyc.config import ConfigError, digest, override, plain, read, shown
from scyc.paper import published
from scyc.registry import nearest
from scyc.run import SCHEDULE, Run, run_from

KEYS = ("doc", "seeds", "run", "schedules", "published", "oracle")


@dataclass(frozen=True)
class Experiment:
    """Runs by schedule; every schedule has the same seeds, in the same order."""

    name: str
    doc: str
    runs: Mapping[str, tuple[Run, ...]]
    published: str = ""  # the table of the paper it stands beside
    oracle: Mapping[str, Any] = field(default_factory=dict)  # what a search for the best peak tries

    @property
    def all(self) -> list[Run]:
        return [run for runs in self.runs.values() for run in runs]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in next(iter(self.runs.values()))]

    @property
    def settings(self) -> str:
        """Names the configuration, whatever its seeds: the same experiment can be given more of them."""
        bare = {label: {**plain(runs[0]), "seed": 0} for label, runs in self.runs.items()}
        return digest(bare)


def presets() -> dict[str, str]:
    """The bundled experiments with their first lines of documentation."""
    folder = resources.files("scyc") / "presets"
    return {
        path.name.removesuffix(".toml"): read(Path(str(path))).get("doc", "")
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".toml")
    }


def source(name: str) -> dict[str, Any]:
    """The configuration of a preset by name, or of a TOML or JSON file by path."""
    if name.lower().endswith((".toml", ".json")) or "/" in name:
        return read(Path(name))
    bundled = resources.files("scyc") / "presets" / f"{name}.toml"
    if not bundled.is_file():
        raise nearest("preset", name, presets())
    return read(Path(str(bundled)))


def load(
    name: str,
    *,
    seeds: str | None = None,
    overrides: Sequence[str] = (),
    label: str | None = None,
    trust: bool = False,
) -> Experiment:
    """The experiment a preset or file describes after `part.field=value` overrides."""
    config = source(name)
    for assignment in overrides:
        top = assignment.partition("=")[0].split(".")[0].strip()
        config = override(config, assignment if top in KEYS else f"run.{assignment}")
    return experiment(config, label or Path(name).stem, seeds=seeds, trust=trust, where=name)


def experiment(
    config: Mapping[str, Any], name: str, *, seeds: str | None = None, trust: bool = False, where: str = "experiment"
) -> Experiment:
    """Every run of a configuration, checked."""
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"{where}: {nearest('key', key, KEYS)}")
    base, schedules = table(config, "run", where), table(config, "schedules", where)
    numbers = seed_numbers(seeds if seeds is not None else config.get("seeds", 5), where)
    return Experiment(
        name,
        str(config.get("doc", "")),
        {label: runs_of(base, schedules, label, numbers, trust=trust, where=where) for label in schedules},
        printed(config.get("published", ""), where),
        table(config, "oracle", where) if "oracle" in config else {},
    )


def printed(name: Any, where: str) -> str:
    """The name of a table of the paper, or none."""
    if name and str(name) not in published():
        raise ConfigError(f"{where}: published: {nearest('table', str(name), published())}")
    return str(name)


def table(config: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = config.get(key)
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{where}: needs a table [{key}], as in the preset digits (`scyc list presets`)")
    return value


def runs_of(
    base: Mapping[str, Any], schedules: Mapping[str, Any], label: str, seeds: list[int], *, trust: bool, where: str
) -> tuple[Run, ...]:
    if not isinstance(label, str) or not label.isprintable() or not 0 < len(label) <= 100:
        raise ConfigError(f"{where}: schedules: {shown(label)} labels no column; use 1 to 100 printable characters")
    schedule = table(schedules, label, f"{where}: schedules")
    for key in schedule:
        if key not in SCHEDULE:
            raise ConfigError(f"{where}: schedules.{label}: {nearest('key', key, SCHEDULE)}")
    try:
        first = run_from({**base, **schedule, "seed": seeds[0]}, trust=trust)
        return (first, *(run_from({**base, **schedule, "seed": seed}, trust=trust) for seed in seeds[1:]))
    except ConfigError as error:
        raise ConfigError(f"{where}: schedules.{label}: {error}") from None


def seed_numbers(value: Any, where: str) -> list[int]:
    """`5` is seeds 0 to 4; `2-4` is 2, 3, 4; `0,3` is those two."""
    text = str(value)
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        if text.isdecimal() and len(text) < 6:
            numbers = list(range(int(text)))
        elif "-" in text:
            first, last = (int(end) for end in text.split("-"))
            numbers = list(range(first, min(last, first + 10**5) + 1))
        else:
            numbers = [int(number) for number in text.split(",")]
        if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0 or max(numbers) >= 2**31:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"{where}: seeds = {text[:40]!r}: write a number (5), a range (0-4) or a list (0,3)"
        ) from None
    return numbers
