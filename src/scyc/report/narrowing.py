"""The claims about distributions (1 to 3): each quantity against cycle 0, at the peak and at the end of every cycle."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from scyc.distribution import MOMENTS
from scyc.report.claims import Cell, Verdict, decided, untested
from scyc.report.distribution import Change, Distributions, changes
from scyc.report.rows import mean, std
from scyc.report.trend import Trend, trend

LITTLE = 0.1  # claim 2: a change within this share of cycle 0's value is little
NARROWING = ("gradients std", "gradients 90 %", "hidden std", "hidden 90 %")
VARIANCE = "pre-activation variance"
UNTRAINED = "the rate is highest at the first step, where cycle 0 is untrained and later cycles are not"


@dataclass(frozen=True)
class Finding:
    """A verdict about one schedule at one moment of its cycles."""

    schedule: str
    moment: str
    verdict: Verdict
    trend: Trend  # of the ratio over the cycles, the dense one included; claim 2 has none


def findings(distributions: Distributions) -> list[Finding]:
    return [
        Finding(label, moment, *judged)
        for label in distributions.rows
        for moment in MOMENTS
        for judged in verdicts(distributions, label, moment)
    ]


def verdicts(distributions: Distributions, label: str, moment: str) -> list[tuple[Verdict, Trend]]:
    """Claims 1 and 3 quantity by quantity, corrected over the cycles; claim 2 corrected over the quantities."""
    if untrained(distributions, label, moment):
        return [(untested(claim, UNTRAINED), trend([], [])) for claim in (1, 2, 3)]
    found = {name: changes(distributions, label, moment, name) for name in (*NARROWING, VARIANCE)}
    first = [change for name in NARROWING for change in found[name] if change.cycle == 1]
    little = decided(2, [alike(change) for change in first], f"two one-sided t-tests against ±{LITTLE:.0%} of cycle 0")
    return [
        *(narrower(1, name, found[name]) for name in NARROWING),
        (little, trend([], [])),
        narrower(3, VARIANCE, found[VARIANCE]),
    ]


def untrained(distributions: Distributions, label: str, moment: str) -> bool:
    """Is cycle 0 measured after its very first step?"""
    return any(row["step"] == 1 for row in distributions.at(label, moment).get(0, {}).values())


def narrower(claim: int, name: str, found: Sequence[Change]) -> tuple[Verdict, Trend]:
    """Below cycle 0 in every cycle; claim 1 begins with the second pruning, of the first speaks claim 2."""
    cells = [cell(change, change.p, holds=change.ratio < 1) for change in found if change.cycle > 1 or claim != 1]
    verdict = decided(claim, cells, f"{name} below cycle 0: t-test of the logarithms of the ratios")
    return verdict, trend([0, *(change.cycle for change in found)], [1.0, *(change.ratio for change in found)])


def alike(change: Change) -> Cell:
    """Equivalence: the larger p of both one-sided tests."""
    margin, middle = math.log1p(LITTLE), mean(change.logs)
    error = std(change.logs) / math.sqrt(change.n) if change.n > 1 else math.nan
    p = float(stats.t.sf((margin - abs(middle)) / error, change.n - 1)) if error > 0 else math.nan
    return cell(change, p, holds=abs(middle) < margin)


def cell(change: Change, p: float, *, holds: bool) -> Cell:
    """A ratio as a difference: of logarithms."""
    middle, spread = (mean(change.logs), std(change.logs)) if change.logs else (math.nan, math.nan)
    return Cell(change.cycle, change.density, change.quantity, middle, spread, change.n, change.missing, p, holds=holds)
