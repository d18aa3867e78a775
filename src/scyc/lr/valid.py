"""What every peak, shape and schedule asks of its numbers, and the one line where they are something else."""

import math
from numbers import Real

MOST = 10**9  # steps, as in the steps of a cycle
POSITIVE = "a finite number above 0"
LOW = "a share of the peak, 0 <= low < 1"
STEPS = "a whole number of steps, at least 1"


def require(valid: bool, place: str, value: object, fix: str) -> None:
    if not valid:
        raise ValueError(f"{place}={value!r} is not valid; use {fix}")


def real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST
