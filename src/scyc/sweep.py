"""An experiment in a store: its data, its run ids, its manifest, and the jobs that are left to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scyc.config import digest, plain
from scyc.data import Dataset, read
from scyc.experiment import Experiment
from scyc.run import Run, identified, identity, stack_key
from scyc.store import checkpoint
from scyc.store.files import Integrity
from scyc.store.names import named
from scyc.store.runs import Store


def datasets(experiment: Experiment, roots: tuple[Path, ...], *, trust: bool = False) -> dict[str, Dataset]:
    """Every data set the runs use, read once, by its configuration."""
    sources = {digest(plain(run.data.source)): run.data.source for run in experiment.all}
    return {key: read(source.name, source.fields, roots, trust=trust) for key, source in sources.items()}


def dataset_of(run: Run, found: Mapping[str, Dataset]) -> Dataset:
    return found[digest(plain(run.data.source))]


def identities(experiment: Experiment, found: Mapping[str, Dataset]) -> dict[str, tuple[str, ...]]:
    """The run ids of every schedule, in the order of the seeds."""
    digests = {key: dataset.digest() for key, dataset in found.items()}
    return {
        label: tuple(identity(run, digests[digest(plain(run.data.source))]) for run in runs)
        for label, runs in experiment.runs.items()
    }


def complete(store: Store, id: str) -> bool:
    """Is this run recorded to its end: all its cycles, or the one in which it diverged?"""
    records = store.records(id)
    return bool(records) and (len(records) == store.config(id).get("cycles", Run.cycles) or "diverged" in records[-1])


def diverged(store: Store, id: str) -> bool:
    records = store.records(id)
    return bool(records) and "diverged" in records[-1]


@dataclass(frozen=True)
class Job:
    """Runs to train as one stack, and the checkpoint they go on from (empty: from the start)."""

    runs: Mapping[str, Run]
    source: str = ""
    why_single: str = ""  # why they train one by one, where that is settled

    def parts(self, count: int, source: str = "", why_single: str = "") -> list["Job"]:
        """The same runs in so many jobs of nearly equal size."""
        ids, size = list(self.runs), -(-len(self.runs) // count)
        groups = [ids[i : i + size] for i in range(0, len(ids), size)]
        return [Job({id: self.runs[id] for id in group}, source, why_single or self.why_single) for group in groups]


def register(
    store: Store, experiment: Experiment, ids: Mapping[str, tuple[str, ...]], found: Mapping[str, Dataset]
) -> None:
    """Make the runs and the manifest that finds them; an earlier manifest of this name stays as NAME@SETTINGS."""
    named("experiment", experiment.name)  # before anything is made
    for label, runs in experiment.runs.items():
        for id, run in zip(ids[label], runs, strict=True):
            store.create(id, identified(run, dataset_of(run, found).digest()))
    manifest = {
        "doc": experiment.doc,
        "published": experiment.published,
        "settings": experiment.settings,
        "schedules": [[label, list(names)] for label, names in ids.items()],  # a list: their order is the user's
    }
    if experiment.name in store.experiments():
        former = store.manifest(experiment.name)
        if former["settings"] != experiment.settings:
            store.write_manifest(f"{experiment.name}@{former['settings']}", former)
        else:
            known = dict(former["schedules"])
            manifest["schedules"] = [
                [label, list(dict.fromkeys([*known.get(label, ()), *names]))] for label, names in ids.items()
            ]
        if former == manifest:  # a finished experiment can be asked for again in a folder that is read-only
            return
    store.write_manifest(experiment.name, manifest)


def unfinished(store: Store, experiment: Experiment, ids: Mapping[str, tuple[str, ...]]) -> dict[str, Run]:
    """What is left to train: everything that is not recorded to its end."""
    return {id: run for id, run in by_id(experiment, ids).items() if not complete(store, id)}


def by_id(experiment: Experiment, ids: Mapping[str, tuple[str, ...]]) -> dict[str, Run]:
    """Every run of the experiment; one that several schedules share stands once."""
    return {id: run for label in ids for id, run in zip(ids[label], experiment.runs[label], strict=True)}


@dataclass(frozen=True)
class Saved:
    """A stack's checkpoint as its head describes it, or why none of its generations can be used."""

    stack: str
    head: Mapping[str, Any]
    fault: str = ""


def saved(store: Store) -> list[Saved]:
    """Every stack's checkpoint, the furthest first."""
    found = [one for name in store.stacks() if (one := saved_of(store, name))]
    return sorted(found, key=lambda one: (bool(one.fault), -one.head.get("cycle", 0), -one.head.get("step", 0)))


def saved_of(store: Store, name: str) -> Saved | None:
    folder = store.stack_folder(name)
    try:
        return Saved(name, checkpoint.head(folder, stack=name))
    except Integrity as error:  # its owner may have dropped it just now
        return Saved(name, {}, str(error)) if checkpoint.exists(folder) else None


def jobs(
    found: Sequence[Saved], wanted: Mapping[str, Run], width: int = 0, frozen: Mapping[str, Run] | None = None
) -> list[Job]:
    """Stacks to train: those with checkpoints first, as they were; the others grouped by what stacks.

    A run that diverged (`frozen`) keeps its place: how many runs a stack has may change the last bits of all of them.
    """
    left, made = dict(wanted), []
    for one in found:
        able = {**(frozen or {}), **left}
        runs = {id: able[id] for id in one.head.get("members", ()) if id in able}
        if runs.keys() & left.keys():
            made.append(Job(runs, one.stack))
            left = {id: run for id, run in left.items() if id not in runs}
    groups: dict[str, dict[str, Run]] = {}
    for id, run in left.items():
        groups.setdefault(stack_key(run), {})[id] = run
    for group in groups.values():
        names, size = list(group), width or len(group)
        made += [Job({id: group[id] for id in names[i : i + size]}) for i in range(0, len(names), size)]
    return made
