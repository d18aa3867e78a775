"""The numbers of an experiment: per schedule and cycle, over seeds."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scyc.config import Steps, multiplied
from scyc.registry import nearest
from scyc.store.runs import Store

Record = Mapping[str, Any]
NEEDED = ("cycle", "density", "density_all", "peak", "test_accuracy", "validation_accuracy", "diverged")


@dataclass(frozen=True)
class Row:
    """One schedule in one cycle; a seed that diverged has no accuracy and is counted."""

    schedule: str
    cycle: int
    density: float
    density_all: float
    peak: float
    test: Mapping[int, float]  # by seed: test accuracy at the early stop
    validation: Mapping[int, float]  # by seed
    diverged: tuple[int, ...]  # seeds that did not reach the end of this cycle
    records: Mapping[int, Record] = field(default_factory=dict)  # by seed: all that is recorded of this cycle

    @property
    def n(self) -> int:
        return len(self.test)

    @property
    def mean(self) -> float:
        return mean(self.test.values())

    @property
    def std(self) -> float:
        return std(self.test.values())


def mean(values: Any) -> float:
    values = list(values)
    return statistics.fmean(values) if values else math.nan


def std(values: Any) -> float:
    """Sample standard deviation; of a single value there is none."""
    values = list(values)
    return statistics.stdev(values) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Results:
    """What the store knows of an experiment."""

    name: str
    doc: str
    published: str
    rows: Mapping[str, Sequence[Row]]  # by schedule, in the order of the cycles
    configs: Mapping[str, Mapping[str, Any]]  # by schedule: of its first run
    runs: int
    finished: int
    seeds: tuple[int, ...] = ()

    @property
    def cycles(self) -> int:
        return max((rows[-1].cycle + 1 for rows in self.rows.values() if rows), default=0)

    @property
    def config(self) -> Mapping[str, Any]:
        """What the schedules share; a peak and a shape of one of them stand in it too."""
        return next(iter(self.configs.values()))

    @property
    def steps(self) -> int:
        """Of the first cycle, with the scale applied."""
        return steps_of(self.config, 0)

    @property
    def retrained(self) -> int:
        """The steps of each later cycle."""
        return steps_of(self.config, 1)

    def at(self, cycle: int, labels: Iterable[str] | None = None) -> list[Row]:
        """The rows of one cycle, in the order of the schedules."""
        found = (self.row(label, cycle) for label in (self.rows if labels is None else labels))
        return [row for row in found if row]

    def row(self, label: str, cycle: int) -> Row | None:
        """One schedule in one cycle: without numbers where all its runs diverged earlier, None where none got there."""
        rows = self.rows[label]
        if rows and rows[-1].cycle < cycle and {*rows[-1].diverged} >= {*self.seeds}:
            return replace(rows[-1], cycle=cycle, density=math.nan, density_all=math.nan, peak=math.nan)
        return next((row for row in rows if row.cycle == cycle), None)

    @property
    def challenger(self) -> str | None:
        """The schedule under test: the first with an S-Cyc peak."""
        return next((label for label, config in self.configs.items() if config["peak"]["name"] == "scyc"), None)


def collect(store: Store, name: str, *, whole: bool = False) -> Results:
    """An experiment from its manifest and the records of its runs; `whole` ones hold curves and layers too."""
    manifest = store.manifest(name)
    schedules: dict[str, list[str]] = dict(manifest["schedules"])
    known = set(store.ids())
    runs = {id for ids in schedules.values() for id in ids if id in known}
    if not runs:
        raise nearest("run", next(iter(schedules.values()))[0], known)
    records = {
        id: store.records(id) if whole else [needed(record) for record in store.records(id, start="cycle")]
        for id in runs
    }
    configs = {id: store.config(id) for id in runs}
    present = {label: [id for id in ids if id in runs] for label, ids in schedules.items()}
    return Results(
        name,
        manifest["doc"],
        manifest["published"],
        {label: rows(label, ids, records, configs) for label, ids in present.items()},
        {label: configs[ids[0]] for label, ids in present.items() if ids},
        len(runs),
        sum(bool(r) and ("diverged" in r[-1] or len(r) == cycles_of(configs[id])) for id, r in records.items()),
        tuple(sorted({config["seed"] for config in configs.values()})),
    )


def needed(record: Record) -> Record:
    """The few fields that rows are made of: experiments can have hundreds of thousands of records."""
    return {name: record[name] for name in NEEDED if name in record}


def cycles_of(config: Mapping[str, Any]) -> int:
    from scyc.run import Run

    return int(config.get("cycles", Run.cycles))


def steps_of(config: Mapping[str, Any], cycle: int) -> int:
    """The steps of one cycle, with the scale applied."""
    later = config.get("retrain_steps", 0) if cycle else 0
    return int(multiplied(later or config["steps"], Steps, config.get("scale", 1.0)))


def steps_until(config: Mapping[str, Any], cycles: int) -> int:
    """Of so many cycles together."""
    return sum(steps_of(config, cycle) for cycle in range(cycles))


def rows(
    label: str, ids: Sequence[str], records: Mapping[str, Sequence[Record]], configs: Mapping[str, Mapping[str, Any]]
) -> list[Row]:
    by_seed = {configs[id]["seed"]: records[id] for id in ids}
    longest = max(by_seed.values(), key=len, default=[])
    return [row(label, record, by_seed) for record in longest]


def row(label: str, record: Record, by_seed: Mapping[int, Sequence[Record]]) -> Row:
    cycle = record["cycle"]
    here = {seed: records[cycle] for seed, records in by_seed.items() if len(records) > cycle}
    alive = {seed: r for seed, r in here.items() if "diverged" not in r}
    ended = [seed for seed, r in by_seed.items() if r and "diverged" in r[-1] and r[-1]["cycle"] <= cycle]
    return Row(
        label,
        cycle,
        record["density"],
        record["density_all"],
        record["peak"],
        {seed: r["test_accuracy"] for seed, r in alive.items()},
        {seed: r["validation_accuracy"] for seed, r in alive.items()},
        tuple(ended),
        alive,
    )
