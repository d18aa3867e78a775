"""How an experiment was made: settings beside their defaults, schedules, environment, cost, and what repeats it."""

import dataclasses
import inspect
from collections.abc import Mapping
from html import escape
from typing import Any

from scyc.config import Part, parameters
from scyc.report import repeat
from scyc.report.cost import cost, environments
from scyc.report.document import Section
from scyc.report.formats import csv_text
from scyc.report.listing import flat
from scyc.report.page.block import Chapter
from scyc.report.rows import Results
from scyc.report.toml import inline
from scyc.run import KINDS, SCHEDULE, Run
from scyc.store.runs import Store

NAMED = {"data": "data", "model": "model", "optimizer": "optimizer"}  # kinds whose table stands at the top
IN_PRUNING = ("score", "scope", "unit", "rewind")


def chapter(store: Store, results: Results) -> Chapter:
    manifest = store.manifest(results.name)
    ids = [id for _, group in manifest["schedules"] for id in group]
    present = [id for id in dict.fromkeys(ids) if id in {*store.ids()}]
    spent = cost(store, results, present)
    again = repeat.command(results, manifest["settings"])
    blocks = [
        f'<p class="again">To repeat it: <code>{escape(again)}</code></p>',
        files(results),
        settings(results),
        schedules(results),
        made_in(store, present),
        f'<p class="note">Cost: {escape(spent.words)}.</p>',
    ]
    return Chapter("made", "How it was made", blocks)


def files(results: Results) -> str:
    """What can be saved from here: the experiment's file, and every number of the tables."""
    text = repeat.toml(results)
    return (
        f"<details><summary>{escape(results.name)}.toml</summary><pre><code>{escape(text)}</code></pre></details>"
        f"{saved(f'{results.name}.toml', text, 'the experiment as a file')}"
        f"{saved(f'{results.name}.csv', csv_text(results), 'every number of the tables')}"
    )


def saved(name: str, text: str, words: str) -> str:
    return (
        f'<button type="button" class="get file" data-save="{escape(name)}">{escape(name)}, {words}'
        f"<template>{escape(text)}</template></button> "
    )


def settings(results: Results) -> Section:
    shared = {key: value for key, value in results.config.items() if key not in repeat.OWN}
    digest = results.config["data_digest"]
    given, usual = flat(shared), defaults(shared)
    grid = [["setting", "here", "default"]]
    differing = {key: value for key, value in given.items() if key not in usual or usual[key] != value}
    grid += [[key, text(value), text(usual[key]) if key in usual else "-"] for key, value in differing.items()]
    rest = ", ".join(f"{key} {text(value)}" for key, value in usual.items() if key not in differing)
    notes = (f"At their defaults: {rest}", f"The images are those with the digest {digest}")
    return Section("Settings that differ from the defaults", grid, 1, (0, 1, 2), notes)


def text(value: Any) -> str:
    return value if isinstance(value, str) else inline(value)


def defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The default of every setting, with those of the entries that are named here."""
    found = flat(whole(Run))
    pruning = config.get("pruning", {})
    parts = {name: config.get(name) for name in NAMED} | {f"pruning.{name}": pruning.get(name) for name in IN_PRUNING}
    for path, value in parts.items():
        kind, name = path.rpartition(".")[2], value["name"] if isinstance(value, Mapping) else value
        if name:
            found = {
                key: item for key, item in found.items() if key == f"{path}.name" or not key.startswith(f"{path}.")
            }
            found |= {f"{path}.{key}": item for key, item in fields(kind, str(name)).items()}
    return found


def fields(kind: str, name: str) -> dict[str, Any]:
    """What an entry takes, with defaults; nothing of code that would have to be imported."""
    try:
        taken = parameters(KINDS[kind].find(name), KINDS[kind].arguments)
    except ValueError:
        return {}
    return {key: p.default for key, p in taken.items() if p.default is not inspect.Parameter.empty}


def whole(cls: type) -> dict[str, Any]:
    """Every default of a frozen dataclass, nested as in a file."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if isinstance(value, Part):
            found[field.name] = {"name": value.name, **value.fields}
        elif dataclasses.is_dataclass(value):
            found[field.name] = whole(type(value))
        elif value not in (dataclasses.MISSING, None) and field.name != "seed":
            found[field.name] = value
    return found


def schedules(results: Results) -> Section:
    parts = [name for name in SCHEDULE if any(name in config for config in results.configs.values())]
    grid = [["schedule", *(name.replace("_", " ") for name in parts)]]
    grid += [
        [label, *(text(repeat.named_first(config[name])) if name in config else "-" for name in parts)]
        for label, config in results.configs.items()
    ]
    words = tuple(range(len(grid[0])))
    return Section("Schedules: learning rate = peak of the cycle × shape of the step", grid, 1, words)


def made_in(store: Store, ids: list[str]) -> Section:
    grid = [["environment", "runs"], *([words, str(count)] for words, count in environments(store, ids))]
    return Section("Where it was trained", grid, 1, (0,))
