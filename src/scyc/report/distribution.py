"""What was measured of an experiment's distributions, and how each number changed against cycle 0, over seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scyc.distribution import Settings, rows
from scyc.report.compare import corrected, p_value
from scyc.report.rows import mean, std
from scyc.store.runs import Store

Record = Mapping[str, Any]
Pick = Callable[[Record], float]
NINETY = 2  # the place of the 90 % quantile among the recorded magnitudes
QUANTITIES: dict[str, Pick] = {
    "gradients std": lambda row: float(row["gradients"]["std"]),
    "gradients 90 %": lambda row: float(row["gradients"]["magnitudes"][NINETY]),
    "hidden std": lambda row: float(row["hidden"]["std"]),
    "hidden 90 %": lambda row: float(row["hidden"]["magnitudes"][NINETY]),
    "pre-activation variance": lambda row: float(row["preactivations"]["variance"]),
}


@dataclass(frozen=True)
class Distributions:
    """The rows of an experiment, one way of measuring."""

    name: str
    doc: str
    settings: Settings
    configs: Mapping[str, Mapping[str, Any]]  # by schedule: of its first run
    rows: Mapping[str, Mapping[int, Sequence[Record]]]  # by schedule and seed

    def at(self, label: str, moment: str) -> dict[int, dict[int, Record]]:
        """By cycle and seed."""
        found: dict[int, dict[int, Record]] = {}
        for seed, measured in self.rows[label].items():
            for row in measured:
                if row["moment"] == moment:
                    found.setdefault(row["cycle"], {})[seed] = row
        return dict(sorted(found.items()))

    def lost(self, label: str) -> int:
        """Seeds that diverged."""
        return sum(any(row["moment"] == "diverged" for row in measured) for measured in self.rows[label].values())


def collect(store: Store, name: str, settings: Settings) -> Distributions:
    """An experiment's distributions from its manifest and the journals of its runs."""
    manifest, known = store.manifest(name), set(store.ids())
    schedules = {label: [id for id in ids if id in known] for label, ids in manifest["schedules"]}
    configs = {id: store.config(id) for ids in schedules.values() for id in ids}
    measured = {
        label: {configs[id]["seed"]: found for id in ids if (found := rows(store, id, settings))}
        for label, ids in schedules.items()
    }
    if not any(measured.values()):
        how = f"batches {settings.batches}, weights {settings.weights}"
        raise ValueError(f"{name}: nothing measured with {how}; measure it with `scyc distribution {name}`")
    return Distributions(
        name,
        manifest["doc"],
        settings,
        {label: configs[ids[0]] for label, ids in schedules.items() if measured[label]},
        {label: by_seed for label, by_seed in measured.items() if by_seed},
    )


@dataclass(frozen=True)
class Change:
    """One quantity of one cycle against cycle 0, pair by pair of one seed."""

    quantity: str
    cycle: int
    density: float
    value: float  # mean over seeds
    ratio: float  # geometric mean over seeds
    spread: float  # standard deviation of the ratios
    logs: tuple[float, ...]  # of the ratios, by seed
    missing: int  # seeds that have no such ratio
    p: float  # two-sided t-test of the logarithms against 0
    holm: float = math.nan  # over the cycles

    @property
    def n(self) -> int:
        return len(self.logs)


def changes(distributions: Distributions, label: str, moment: str, quantity: str) -> list[Change]:
    """Every cycle but the dense one, with Holm's correction over them."""
    cycles = distributions.at(label, moment)
    dense = cycles.get(0, {})
    total = len(distributions.rows[label])
    found = [change(quantity, cycle, seeds, dense, total) for cycle, seeds in cycles.items() if cycle > 0]
    holm = corrected([one.p for one in found])
    return [replace(one, holm=p) for one, p in zip(found, holm, strict=True)]


def change(quantity: str, cycle: int, seeds: Mapping[int, Record], dense: Mapping[int, Record], total: int) -> Change:
    """A value of zero has no logarithm: such a seed is missing."""
    pick = QUANTITIES[quantity]
    pairs = [(pick(row), pick(dense[seed])) for seed, row in seeds.items() if seed in dense]
    logs = tuple(math.log(now / before) for now, before in pairs if now > 0 and before > 0)
    return Change(
        quantity,
        cycle,
        mean([row["density"] for row in seeds.values()]),
        mean([pick(row) for row in seeds.values()]),
        math.exp(mean(logs)),
        std([math.exp(log) for log in logs]),
        logs,
        total - len(logs),
        p_value(logs),
    )


def tails(row: Record, kind: str) -> float:
    """The share beyond the thresholds of cycle 0."""
    return float(row[kind]["below"] + row[kind]["above"])
