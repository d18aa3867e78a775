"""Does a value rise with the cycle? Spearman's rank correlation, and one verdict over several of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy import stats

LEVEL = 0.05


@dataclass(frozen=True)
class Trend:
    rho: float  # 0 where all values are equal
    p: float  # two-sided; NaN where there is nothing to test


def trend(cycles: Sequence[int], values: Sequence[float]) -> Trend:
    """Rank correlation; of fewer than three cycles there is none."""
    if len(values) < 3:
        return Trend(math.nan, math.nan)
    if len(set(values)) == 1:
        return Trend(0.0, math.nan)
    found = stats.spearmanr(cycles, values)
    return Trend(float(found.statistic), float(found.pvalue))


def verdict(trends: Iterable[Trend]) -> str:
    """All of them must rise, by Holm's correction over them."""
    found = sorted(trends, key=lambda t: (math.isnan(t.p), t.p))
    if any(math.isnan(t.rho) for t in found):
        return "not tested"
    if any(t.rho <= 0 for t in found):
        return "not reproduced"
    sure = all((len(found) - place) * t.p < LEVEL for place, t in enumerate(found))
    return "reproduced" if sure else "direction only"
