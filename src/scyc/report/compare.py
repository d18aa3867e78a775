"""Is a schedule better than the best of the others? Two-sided paired tests over common seeds, Holm over a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy import stats

from scyc.report.rows import Results, Row, mean, std


@dataclass(frozen=True)
class Comparison:
    """The challenger minus the best benchmark in one cycle, in accuracy."""

    cycle: int
    density: float
    challenger: str
    benchmark: str  # chosen by mean validation accuracy
    difference: float
    low: float  # 95 % confidence interval
    high: float
    n: int  # pairs
    missing: int  # pairs lost to divergence
    p: float
    holm: float = math.nan


def compare(experiment: Results, challenger: str | None = None) -> list[Comparison]:
    """One comparison for every cycle but the dense one, corrected over all of them."""
    label = challenger or experiment.challenger
    others = [name for name in experiment.rows if name != label]
    if label is None or not others:
        return []
    cells = []
    for row in experiment.rows[label][1:]:
        rivals = [experiment.rows[name][row.cycle] for name in others if len(experiment.rows[name]) > row.cycle]
        rivals = [rival for rival in rivals if rival.n]
        if rivals and row.n:
            cells.append(paired(row, max(rivals, key=lambda rival: mean(rival.validation.values()))))
    return holm(cells)


def paired(row: Row, rival: Row) -> Comparison:
    seeds = sorted(row.test.keys() & rival.test.keys())
    differences = [row.test[seed] - rival.test[seed] for seed in seeds]
    middle, spread, n = mean(differences), std(differences), len(differences)
    half = float(stats.t.ppf(0.975, n - 1)) * spread / math.sqrt(n) if n > 1 else math.nan
    missing = len({*row.diverged, *rival.diverged})
    return Comparison(
        row.cycle, row.density, row.schedule, rival.schedule, middle, middle - half, middle + half, n, missing,
        p_value(differences),
    )  # fmt: skip


def p_value(differences: Sequence[float]) -> float:
    """Two-sided paired t-test; equal pairs prove nothing, and of one pair there is no test."""
    if len(differences) < 2:
        return math.nan
    if len(set(differences)) == 1:
        return 1.0 if differences[0] == 0 else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(cells: Sequence[Comparison]) -> list[Comparison]:
    """Holm's step-down correction over the cells that have a p-value."""
    tested = sorted((cell for cell in cells if not math.isnan(cell.p)), key=lambda cell: cell.p)
    corrected: dict[int, float] = {}
    highest = 0.0
    for place, cell in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - place) * cell.p))
        corrected[cell.cycle] = highest
    return [replace(cell, holm=corrected.get(cell.cycle, math.nan)) for cell in cells]
