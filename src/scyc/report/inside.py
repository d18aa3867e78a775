"""What happened inside the networks and cycles of a schedule: layers, early stops, curves, each over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scyc.report.rows import Row, mean, std

SHARE = 0.1  # a layer with less than this share of the network's density is near collapse
POINTS = 60  # of a curve, at most


@dataclass(frozen=True)
class Spread:
    """A number over seeds."""

    mean: float
    std: float
    n: int


def spread(values: Iterable[float]) -> Spread:
    values = list(values)
    return Spread(mean(values), std(values), len(values))


@dataclass(frozen=True)
class Layer:
    """One layer in one cycle."""

    name: str
    density: Spread
    guarded: bool  # in some seed the last weight of some layer was kept against its score
    near_collapse: bool


def layers(row: Row) -> list[Layer]:
    """In the order of the network."""
    names = dict.fromkeys(name for record in row.records.values() for name in record["layers"])
    guarded = any(record["guarded"] for record in row.records.values())
    found = [(name, spread(r["layers"][name] for r in row.records.values() if name in r["layers"])) for name in names]
    return [Layer(name, share, guarded, share.mean < SHARE * row.density) for name, share in found]


def early_stop(row: Row) -> Spread:
    """The step with the lowest validation loss."""
    return spread(record["step"] for record in row.records.values())


def curve(row: Row, name: str) -> list[tuple[int, Spread]]:
    """(step, spread over seeds) of one of the recorded curves."""
    values: dict[int, list[float]] = {}
    for record in row.records.values():
        for step, value in zip(record["curve_step"], record[f"curve_{name}"], strict=True):
            if value is not None:
                values.setdefault(step, []).append(value)
    return [(step, spread(values[step])) for step in thinned(sorted(values))]


def thinned(steps: Sequence[int], most: int = POINTS) -> list[int]:
    """At most so many, evenly, the first and the last among them."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(k * (len(steps) - 1) / (most - 1))] for k in range(most)]
