"""Peaks side by side: the grid, the best of it, and the feasible region around the best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

MARGIN = 0.005  # accuracy: how far behind the best a feasible peak may be (half a point)
MOST = 1000  # peaks of a grid
HINT = "write FIRST:LAST:STEP (0.002:0.12:0.002) or a list (0.01,0.02,0.05)"


def listed(text: str) -> tuple[float, ...]:
    """`0.002:0.12:0.002` with both ends, or `0.01,0.02,0.05`; in ascending order."""
    try:
        if ":" in text:
            first, last, step = map(Decimal, text.split(":"))
            return stepped(first, last, step)
        return checked([float(part) for part in text.split(",")])
    except (ValueError, ArithmeticError) as error:
        why = f" ({error})" if type(error) is ValueError and "peak" in str(error) else ""
        raise ValueError(f"peaks {text[:60]!r}{why}: {HINT}") from None


def stepped(first: Decimal, last: Decimal, step: Decimal) -> tuple[float, ...]:
    """Every `step` from first to last, in decimal arithmetic: 60 steps of 0.002 end at 0.12 exactly."""
    if not (first.is_finite() and last.is_finite() and step.is_finite() and 0 < first < last and step > 0):
        raise ValueError("peaks need 0 < first < last and a step above 0")
    count = (last - first) // step + 1 if last - first < 10**9 * step else (last - first) / step
    if count > MOST:  # still a Decimal: a whole number of a million digits takes half a minute
        raise ValueError(f"{count:.6g} peaks, at most {MOST} can be searched")
    return checked([float(first + k * step) for k in range(int(count))])


def spread(middle: float, count: int = 15, factor: float = 8.0) -> tuple[float, ...]:
    """`count` peaks from middle / factor to middle * factor, evenly in the logarithm, at three significant digits."""
    exponents = [2 * k / (count - 1) - 1 for k in range(count)]
    return checked([float(f"{middle * factor**exponent:.3g}") for exponent in exponents])


def checked(peaks: Sequence[float]) -> tuple[float, ...]:
    if any(not math.isfinite(peak) or peak <= 0 for peak in peaks):
        raise ValueError("every peak must be a finite number above 0")
    if len(set(peaks)) < len(peaks) or not 2 <= len(peaks) <= MOST:
        raise ValueError(f"a grid has 2 to {MOST} different peaks")
    return tuple(sorted(peaks))


@dataclass(frozen=True)
class Pick:
    """Places in a grid: of its best peak, and of the first and last peak of the feasible region around it."""

    best: int
    low: int
    high: int
    edge: bool  # the best of several is the first or the last: a better one may lie beyond


def picked(means: Sequence[float | None], margin: float = MARGIN) -> Pick | None:
    """The best of ascending peaks by mean accuracy, ties to the smaller; None is a peak with a diverged seed.

    Rounded at the twelfth digit, so that neither a tie nor the margin hangs on how sums of shares are rounded.
    """
    known = {k: round(mean, 12) for k, mean in enumerate(means) if mean is not None}
    if not known:
        return None
    best = max(known, key=lambda k: (known[k], -k))
    near = {k for k, mean in known.items() if round(known[best] - mean, 12) <= margin}
    low = high = best
    while low - 1 in near:
        low -= 1
    while high + 1 in near:
        high += 1
    return Pick(best, low, high, edge=len(means) > 1 and best in (0, len(means) - 1))


def place(peak: float, low: float, high: float) -> str:
    """Where a peak lies relative to a feasible region, whose ends belong to it."""
    return "below" if peak < low else "above" if peak > high else "inside"
