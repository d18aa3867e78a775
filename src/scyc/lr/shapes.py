"""What a cycle's steps are multiplied by: `step -> factor`, without a rate of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from scyc.config import Steps
from scyc.lr.valid import STEPS, real, require, whole

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
        require(real(self.low) and 0 <= self.low < 1, "Cyclical.low", self.low, "a share of the peak, 0 <= low < 1")

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


SHAPES: dict[str, type] = {"constant": Constant, "decay": Decay, "cyclical": Cyclical, "warmup": Warmup}
