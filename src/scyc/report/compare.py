"""Is a schedule better than the best of the others? Two-sided paired tests over common seeds, Holm over a table."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from scyc.report.rows import Results, Row, mean, std

LEVEL = 0.05
SPREADLESS = 1e-9  # accuracies are multiples of one in the number of images: anything less is rounding


@dataclass(frozen=True)
class Comparison:
    """The challenger minus the best benchmark in one cycle, in accuracy."""

    cycle: int
    density: float
    challenger: str
    benchmark: str  # chosen by mean validation accuracy
    difference: float
    spread: float  # standard deviation of the paired differences
    low: float  # 95 % confidence interval
    high: float
    n: int  # pairs
    missing: int  # pairs lost to divergence
    p: float
    holm: float = math.nan


def compare(
    experiment: Results, challenger: str | None = None, cycles: Collection[int] | None = None
) -> list[Comparison]:
    """One comparison for every cycle but the dense one, or for those of them that are named; corrected over all."""
    label = challenger or experiment.challenger
    others = [name for name in experiment.rows if name != label]
    if label is None or not others:
        return []
    wanted = range(1, experiment.cycles) if cycles is None else sorted(set(cycles) - {0})
    return holm(pairs(experiment, [label], others, wanted))


def pairs(
    experiment: Results, ours: Collection[str], theirs: Collection[str], cycles: Iterable[int]
) -> list[Comparison]:
    """In every cycle the best of ours minus the best of theirs, both chosen by validation; nothing corrected."""
    sides = [(best(experiment.at(cycle, ours)), best(experiment.at(cycle, theirs))) for cycle in cycles]
    return [paired(row, rival) for row, rival in sides if row and rival]


def best(rows: Iterable[Row]) -> Row | None:
    """By mean validation accuracy, ties to the first; one without a run left only where there is no other."""
    return max(rows, key=lambda row: mean(row.validation.values()) if row.n else -1.0, default=None)


def paired(row: Row, rival: Row) -> Comparison:
    seeds = sorted(row.test.keys() & rival.test.keys())
    differences = [row.test[seed] - rival.test[seed] for seed in seeds]
    middle, half = mean(differences), half_width(differences)
    return Comparison(
        cycle=row.cycle,
        density=row.density if row.n else rival.density,
        challenger=row.schedule,
        benchmark=rival.schedule,
        difference=middle,
        spread=std(differences),
        low=middle - half,
        high=middle + half,
        n=len(differences),
        missing=len({*row.diverged, *rival.diverged}),
        p=p_value(differences),
    )


def constant(differences: Sequence[float]) -> bool:
    return max(differences) - min(differences) < SPREADLESS


def half_width(differences: Sequence[float]) -> float:
    """Of the 95 % confidence interval; equal differences other than zero say nothing of their spread."""
    n = len(differences)
    if n < 2 or (constant(differences) and abs(differences[0]) >= SPREADLESS):
        return math.nan
    return float(stats.t.ppf(0.975, n - 1)) * std(differences) / math.sqrt(n)


def p_value(differences: Sequence[float]) -> float:
    """Two-sided paired t-test; of one pair, or of equal differences other than zero, there is none."""
    if len(differences) < 2:
        return math.nan
    if constant(differences):
        return 1.0 if abs(differences[0]) < SPREADLESS else math.nan
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(cells: Sequence[Comparison]) -> list[Comparison]:
    """Holm's step-down correction over the cells that have a p-value."""
    return [replace(cell, holm=p) for cell, p in zip(cells, corrected([cell.p for cell in cells]), strict=True)]


def corrected(ps: Sequence[float]) -> list[float]:
    """Holm's corrected p-values (1979) in the order given; NaN stays, and counts for nothing."""
    order = sorted((k for k, p in enumerate(ps) if not math.isnan(p)), key=lambda k: ps[k])
    found, highest = [math.nan] * len(ps), 0.0
    for place, k in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - place) * ps[k]))
        found[k] = highest
    return found
