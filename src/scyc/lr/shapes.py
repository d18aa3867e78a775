"""What a cycle's steps are multiplied by: `step -> factor`, without a rate of its own."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scyc.config import Steps
from scyc.lr.valid import LOW, STEPS, real, require, whole

Shape = Callable[[int], float]  # step -> factor


@dataclass(frozen=True)
class Constant:
    """The peak at every step."""

    def __call__(self, step: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Decay:
    """From the peak straight down to zero in `steps` steps."""

    steps: Steps

    def __post_init__(self) -> None:
        require(whole(self.steps, 1), "Decay.steps", self.steps, STEPS)

    def __call__(self, step: int) -> float:
        return max(0.0, 1 - step / self.steps)


@dataclass(frozen=True)
class Cyclical:
    """Triangles from `low` (a share of the peak) up to the peak in `half` steps, and back."""

    half: Steps
    low: float = 0.0

    def __post_init__(self) -> None:
        require(whole(self.half, 1), "Cyclical.half", self.half, STEPS)
        require(real(self.low) and 0 <= self.low < 1, "Cyclical.low", self.low, LOW)

    def __call__(self, step: int) -> float:
        height = 1 - abs(step % (2 * self.half) - self.half) / self.half
        return self.low + (1 - self.low) * height


@dataclass(frozen=True)
class Warmup:
    """Up to the peak in `ramp` steps, then ten times lower from each of `drops` on."""

    ramp: Steps
    drops: tuple[Steps, ...] = ()

    def __post_init__(self) -> None:
        require(whole(self.ramp, 1), "Warmup.ramp", self.ramp, STEPS)
        valid = isinstance(self.drops, tuple) and len(self.drops) <= 3 and all(whole(drop, 0) for drop in self.drops)
        require(valid, "Warmup.drops", self.drops, "a tuple of at most 3 steps, each a whole number >= 0")
        require(
            list(self.drops) == sorted(self.drops),
            "Warmup.drops",
            self.drops,
            "steps that never decrease, as (20000, 25000)",
        )

    def __call__(self, step: int) -> float:
        return float(min(1.0, (step + 1) / self.ramp) * 10.0 ** -sum(drop <= step for drop in self.drops))


@dataclass(frozen=True)
class FT:
    """Fine-tuning (FT): the same `share` of the peak at every step, usually that of the dense run's last step."""

    share: float

    def __post_init__(self) -> None:
        require(real(self.share) and 0 < self.share <= 1, "FT.share", self.share, "a share of the peak, 0 < share <= 1")

    def __call__(self, step: int) -> float:
        return self.share


@dataclass(frozen=True)
class SLR:
    """SLR: of `steps`, a tenth up from `low` (a share of the peak), then x 0.1 at 50 % and 75 % of the rest."""

    steps: Steps
    low: float = 0.01

    def __post_init__(self) -> None:
        require(whole(self.steps, 1), "SLR.steps", self.steps, STEPS)
        require(real(self.low) and 0 <= self.low < 1, "SLR.low", self.low, LOW)

    def __call__(self, step: int) -> float:
        done = 10 * step - self.steps  # in tenths of a step, so that no rounding moves a drop
        if done < 0:
            return self.low + (1 - self.low) * 10 * step / self.steps
        return 10.0 ** -sum(4 * done >= quarters * 9 * self.steps for quarters in (2, 3))


@dataclass(frozen=True)
class LLR:
    """LLR: of `steps`, a tenth straight up from zero, then straight down to zero."""

    steps: Steps

    def __post_init__(self) -> None:
        require(whole(self.steps, 1), "LLR.steps", self.steps, STEPS)

    def __call__(self, step: int) -> float:
        up = 10 * step / self.steps
        return max(0.0, min(up, (1 - step / self.steps) / 0.9, 1.0))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the peak to `low` (a share of the peak) in `steps` steps."""

    steps: Steps
    low: float = 0.0

    def __post_init__(self) -> None:
        require(whole(self.steps, 1), "Cosine.steps", self.steps, STEPS)
        require(real(self.low) and 0 <= self.low < 1, "Cosine.low", self.low, LOW)

    def __call__(self, step: int) -> float:
        return between(1.0, self.low, min(step, self.steps) / self.steps)


@dataclass(frozen=True)
class OneCycle:
    """As torch's OneCycleLR: of `steps`, a share `rise` up from 1/`div`, the rest down to 1/`div`/`final_div`."""

    steps: Steps
    rise: float = 0.3
    div: float = 25.0
    final_div: float = 1e4

    def __post_init__(self) -> None:
        require(whole(self.steps, 1), "OneCycle.steps", self.steps, STEPS)
        require(real(self.rise) and 0 < self.rise < 1, "OneCycle.rise", self.rise, "a share of the steps, 0 < rise < 1")
        for name in ("div", "final_div"):
            value = getattr(self, name)
            require(real(value) and value >= 1, f"OneCycle.{name}", value, "a finite number, 1 or more")

    def __call__(self, step: int) -> float:
        top, end = self.rise * self.steps - 1, self.steps - 1
        first = 1 / self.div
        if step < top:
            return between(first, 1.0, step / top)
        return between(1.0, first / self.final_div, min(1.0, (step - top) / (end - top)))


def between(start: float, end: float, share: float) -> float:
    """From start to end along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


SHAPES: dict[str, type] = {
    "constant": Constant,
    "decay": Decay,
    "cyclical": Cyclical,
    "warmup": Warmup,
    "ft": FT,
    "slr": SLR,
    "llr": LLR,
    "cosine": Cosine,
    "one-cycle": OneCycle,
}
