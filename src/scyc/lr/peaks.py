"""The learning rate's upper bound in a cycle: `(cycle, amount, history) -> lr`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scyc.lr.valid import POSITIVE, real, require, whole

# One row per earlier cycle, as recorded; the last has beside it, as `next`, what is known of the cycle that begins:
# its `steps` where they are known, and what the pruning before it took (`prune.removed`).
History = Sequence[Mapping[str, Any]]


class Unmeasured(ValueError):
    """A peak that needs more history than it was given."""


class Peak(Protocol):
    """The learning rate's upper bound in one cycle."""

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float: ...


@dataclass(frozen=True)
class Fixed:
    """The same peak `lr` in every cycle."""

    lr: float

    def __post_init__(self) -> None:
        require(real(self.lr) and self.lr > 0, "Fixed.lr", self.lr, POSITIVE)

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.lr


@dataclass(frozen=True)
class SCyc:
    """An S-curve over the cycles: `eps` up to cycle `q`, then rising by `delta`, the steeper the larger `beta`."""

    eps: float
    delta: float
    q: float
    beta: float

    def __post_init__(self) -> None:
        checked_curve("SCyc", self.eps, self.delta, self.q, self.beta)

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.eps + self.delta / divisor(cycle, amount, self.q, self.beta)


@dataclass(frozen=True)
class Reversed:
    """S-Cyc mirrored, large first: `eps` + `delta` up to cycle `q`, then falling to `eps`, the steeper with `beta`."""

    eps: float
    delta: float
    q: float
    beta: float

    def __post_init__(self) -> None:
        checked_curve("Reversed", self.eps, self.delta, self.q, self.beta)

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.eps + self.delta * (1 - 1 / divisor(cycle, amount, self.q, self.beta))


def checked_curve(name: str, eps: float, delta: float, q: float, beta: float) -> None:
    checked_rise(name, eps, delta)
    require(real(q) and q >= 0, f"{name}.q", q, "a finite number, 0 or more (suggested: 0 to 3)")
    require(real(beta) and beta > 0, f"{name}.beta", beta, "a number above 0 (suggested: 3 to 6)")


def checked_rise(name: str, eps: float, delta: float) -> None:
    require(real(eps) and eps > 0, f"{name}.eps", eps, POSITIVE)
    require(real(delta) and delta >= 0, f"{name}.delta", delta, "a finite number, 0 or more")


def divisor(cycle: int, amount: float, q: float, beta: float) -> float:
    """1 + r^-beta, by which the S-curve divides its rise."""
    rise = (q - cycle) * growth(amount)  # log of (1-p)^-(m-q)
    if rise <= 0:  # up to cycle q, and where the rise is too small for a float
        return math.inf
    x = beta * (rise + math.log(-math.expm1(-rise)))  # beta log r; r itself would overflow
    return 1 + math.exp(min(-x, 700.0))  # exp(700) is still finite, and zero as a share


def growth(amount: float) -> float:
    """By how much one pruning changes the logarithm of the density."""
    require(real(amount) and 0 < amount < 1, "amount", amount, "a share of the remaining weights, 0 < amount < 1")
    return math.log1p(-amount)


@dataclass(frozen=True)
class Density:
    """`eps` over the density to the power `alpha`, at most `cap`."""

    eps: float
    alpha: float
    cap: float

    def __post_init__(self) -> None:
        require(real(self.eps) and self.eps > 0, "Density.eps", self.eps, POSITIVE)
        require(real(self.alpha) and self.alpha >= 0, "Density.alpha", self.alpha, "a finite number, 0 or more")
        require(real(self.cap) and self.cap >= self.eps, "Density.cap", self.cap, "a finite number, eps or more")

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        rise = -self.alpha * cycle * growth(amount)
        if rise >= math.log(self.cap) - math.log(self.eps):  # so that exp never overflows
            return self.cap
        return min(self.cap, self.eps * math.exp(rise))


@dataclass(frozen=True)
class Step:
    """`eps` up to cycle `q`, then `eps` + `delta`."""

    eps: float
    delta: float
    q: float

    def __post_init__(self) -> None:
        checked_rise("Step", self.eps, self.delta)
        require(real(self.q) and self.q >= 0, "Step.q", self.q, "a finite number, 0 or more")

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.eps + self.delta if cycle > self.q else self.eps


@dataclass(frozen=True)
class Linear:
    """From `eps` straight to `eps` + `delta`, reached after so many `cycles`."""

    eps: float
    delta: float
    cycles: int

    def __post_init__(self) -> None:
        checked_rise("Linear", self.eps, self.delta)
        require(whole(self.cycles, 1), "Linear.cycles", self.cycles, "a whole number of cycles, at least 1")

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.eps + self.delta * min(1.0, cycle / self.cycles)


@dataclass(frozen=True)
class Table:
    """The `peaks` of cycles 0, 1, 2, ...; past the end of the table the last of them."""

    peaks: tuple[float, ...]

    def __post_init__(self) -> None:
        valid = isinstance(self.peaks, tuple) and 0 < len(self.peaks) <= 10**4
        valid = valid and all(real(peak) and peak > 0 for peak in self.peaks)
        require(valid, "Table.peaks", self.peaks, "a tuple of 1 to 10000 peaks, each a finite number above 0")

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        return self.peaks[min(cycle, len(self.peaks) - 1)]


@dataclass(frozen=True)
class ALLR:
    """ALLR: `lr` x (norm that the last pruning took / root of its share), at least its share of steps, at most 1."""

    lr: float

    def __post_init__(self) -> None:
        require(real(self.lr) and self.lr > 0, "ALLR.lr", self.lr, POSITIVE)

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        if cycle == 0:
            return self.lr
        if not history or "next" not in history[-1]:
            raise Unmeasured(f"ALLR in cycle {cycle}: the history does not say what the pruning before it took")
        begun, whole = history[-1]["next"], history[0].get("steps")
        norm, share = begun.get("pruned_norm"), begun.get("pruned_share")
        moved = norm / math.sqrt(share) if norm and share else 0.0
        length = begun.get("steps", whole) / whole if whole else 1.0
        return self.lr * min(1.0, max(moved, length))


PEAKS: dict[str, type] = {
    "fixed": Fixed,
    "scyc": SCyc,
    "reversed": Reversed,
    "density": Density,
    "step": Step,
    "linear": Linear,
    "table": Table,
    "allr": ALLR,
}
