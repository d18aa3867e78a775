"""Learning rates by search on validation accuracy: S-Cyc's four numbers in the paper's stages, or a benchmark's one.

S-Cyc: epsilon by grid on the dense network; delta by grid at the target density, which the network reaches pruned
with the peak epsilon, the schedule as far as it is tuned by then; then q and beta (`refine`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scyc.config import ConfigError, Part, part
from scyc.data import Dataset
from scyc.experiment import Experiment
from scyc.question import Question, validated, words
from scyc.refine import Refinement
from scyc.registry import nearest
from scyc.run import PEAK, SHAPE, Run, identified
from scyc.search import Search
from scyc.stack import Record
from scyc.store.runs import Store
from scyc.study import write_manifest
from scyc.suggest import Tuning, best_of
from scyc.training import Control, Options

FEWEST = 5  # tunings that the three stages need
Peaks = Callable[[int, Sequence[float]], tuple[float, ...]]


@dataclass(frozen=True)
class Stages:
    """How many tunings of the three stages: a third each for epsilon and delta, the rest for q and beta."""

    eps: int
    delta: int
    pairs: int


def stages(trials: int) -> Stages:
    if trials < FEWEST:
        raise ValueError(f"--trials {trials}: the three stages need at least {FEWEST} tunings")
    grid = max(2, round(0.3 * trials))
    return Stages(grid, grid, trials - 2 * grid)


def listed_deltas(text: str) -> tuple[float, ...]:
    """`0,0.02,0.04`: zero is allowed, for a peak that never rises."""
    try:
        values = sorted(float(word) for word in text.split(","))
        if len(set(values)) < max(2, len(values)) or not 0 <= values[0] <= values[-1] < float("inf"):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"--delta {text[:60]!r}: write at least two different numbers, 0 or more, as 0,0.02,0.04"
        ) from None
    return tuple(values)


def dense(runs: Sequence[Run], peaks: Sequence[float], data_digest: str) -> Question:
    """The best peak of the dense network."""
    grid = tuple(peaks)
    return asked(runs, 1, {"peaks": list(grid)}, lambda cycle, picks: grid, data_digest)


def climb(
    runs: Sequence[Run], eps: Sequence[float], delta: Sequence[float] | int, target: int, data_digest: str
) -> Question:
    """Epsilon on the dense network, then delta in cycle `target`; `delta` lists its values, or says how many to try."""

    def grid(cycle: int, picks: Sequence[float]) -> tuple[float, ...]:
        if cycle == 0:
            return tuple(eps)
        return tuple(picks[0] + rise for rise in (rises(picks[0], delta) if cycle == target else [0.0]))

    searched = {"eps": list(eps), "delta": delta if isinstance(delta, int) else list(delta)}
    return asked(runs, target + 1, searched, grid, data_digest)


def asked(runs: Sequence[Run], cycles: int, searched: Mapping[str, Any], grid: Peaks, data_digest: str) -> Question:
    short = tuple(replace(run, cycles=cycles) for run in runs)
    named = {"peak": {"name": "tune", **searched}, "seed": [run.seed for run in runs]}
    return Question(short, grid, identified(short[0], data_digest) | named, validated)


def rises(eps: float, delta: Sequence[float] | int) -> Sequence[float]:
    """The deltas to try: those given, or so many from none upwards, in halves of epsilon."""
    return [round(eps * k / 2, 12) for k in range(delta)] if isinstance(delta, int) else delta


def benchmark(experiment: Experiment, name: str) -> tuple[str, tuple[Run, ...]]:
    """The schedule of this label, else the first of this shape, else the shape alone where it needs no fields."""
    shapes = {runs[0].shape.name: label for label, runs in reversed(list(experiment.runs.items()))}
    label = name if name in experiment.runs else shapes.get(name)
    if label is not None:
        return label, experiment.runs[label]
    if name not in SHAPE.names():
        raise nearest("schedule or shape", name, [*experiment.runs, *SHAPE.names()])
    try:
        shape = part(SHAPE, name)
    except ConfigError as error:
        raise ValueError(f"--schedule {name}: {experiment.name} has none of this shape ({error}); add one") from None
    return name, tuple(replace(run, shape=shape) for run in next(iter(experiment.runs.values())))


def target_cycle(runs: Sequence[Run], given: int | None) -> int:
    """Where delta is tuned: the last cycle, unless another is named."""
    last = runs[0].cycles - 1
    target = last if given is None else given
    if not 1 <= target <= last:
        raise ValueError(
            f"delta is tuned at cycle {target}, and the pruned cycles are 1 to {last}; set --target, --cycles"
        )
    return target


@dataclass(frozen=True)
class Tuned:
    """What the three stages found, and what they tried."""

    dense: Record
    pruned: Record  # of the target cycle
    pairs: tuple[Tuning, ...]
    studies: Mapping[str, str]  # stage -> id in the store

    @property
    def eps(self) -> float:
        return float(self.dense["peak"])

    @property
    def delta(self) -> float:
        return round(float(self.pruned["peak"]) - self.eps, 12)

    @property
    def peak(self) -> Part:
        best = best_of(self.pairs)
        return part(PEAK, {"name": "scyc", "eps": self.eps, "delta": self.delta, "q": best.q, "beta": best.beta})


class NoPeakLeft(ValueError):
    """With every peak of a grid some seed diverged."""


def ended(records: list[Record]) -> list[Record]:
    """The records of a search that came to its end."""
    if "diverged" in records[-1]:
        raise NoPeakLeft(f"cycle {records[-1]['cycle']}: {words(records[-1])}")
    return records


def tune(store: Store, question: Question, pairs: int, dataset: Dataset, options: Options, control: Control) -> Tuned:
    """All three stages, from wherever they were left."""
    records = ended(Search(store, question, dataset, options, control).run())
    found = Tuned(records[0], records[-1], (), {"eps and delta": question.id})
    refinement = Refinement(store, question.runs, found.eps, found.delta, pairs, dataset, options, control)
    tunings = tuple(refinement.run())
    return replace(found, pairs=tunings, studies={**found.studies, "q and beta": refinement.id})


def register(store: Store, name: str, doc: str, studies: Mapping[str, str]) -> None:
    """The manifest that finds a tuning's studies."""
    schedules = [[stage, [id]] for stage, id in studies.items()]
    settings = next(iter(studies.values()))
    write_manifest(
        store, name, {"doc": doc, "published": "", "settings": settings, "schedules": schedules, "tune": True}
    )
