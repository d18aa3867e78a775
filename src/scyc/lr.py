"""The learning rate is peak(cycle) x shape(step): only the peak carries a rate, and a shape is a factor."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from scyc.config import Steps

History = Sequence[Mapping[str, Any]]  # one row per earlier cycle, as recorded
Shape = Callable[[int], float]  # step -> factor
MOST = 10**9  # steps, as in the steps of a cycle


class Peak(Protocol):
    """The learning rate's upper bound in one cycle."""

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float: ...


def _require(valid: bool, place: str, value: object, fix: str) -> None:
    if not valid:
        raise ValueError(f"{place}={value!r} is not valid; use {fix}")


def _real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


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
        _require(_whole(self.steps, 1), "Decay.steps", self.steps, "a whole number of steps, at least 1")

    def __call__(self, step: int) -> float:
        return max(0.0, 1 - step / self.steps)


@dataclass(frozen=True)
class Cyclical:
    """Triangles from `low` (a share of the peak) up to the peak in `half` steps, and back."""

    half: Steps
    low: float = 0.0

    def __post_init__(self) -> None:
        _require(_whole(self.half, 1), "Cyclical.half", self.half, "a whole number of steps, at least 1")
        _require(_real(self.low) and 0 <= self.low < 1, "Cyclical.low", self.low, "a share of the peak, 0 <= low < 1")

    def __call__(self, step: int) -> float:
        height = 1 - abs(step % (2 * self.half) - self.half) / self.half
        return self.low + (1 - self.low) * height


@dataclass(frozen=True)
class Warmup:
    """Up to the peak in `ramp` steps, then ten times lower from each of `drops` on."""

    ramp: Steps
    drops: tuple[Steps, ...] = ()

    def __post_init__(self) -> None:
        _require(_whole(self.ramp, 1), "Warmup.ramp", self.ramp, "a whole number of steps, at least 1")
        valid = isinstance(self.drops, tuple) and len(self.drops) <= 3 and all(_whole(drop, 0) for drop in self.drops)
        _require(valid, "Warmup.drops", self.drops, "a tuple of at most 3 steps, each a whole number >= 0")
        _require(
            list(self.drops) == sorted(self.drops),
            "Warmup.drops",
            self.drops,
            "steps that never decrease, as (20000, 25000)",
        )

    def __call__(self, step: int) -> float:
        return float(min(1.0, (step + 1) / self.ramp) * 10.0 ** -sum(drop <= step for drop in self.drops))


@dataclass(frozen=True)
class Fixed:
    """The same peak `lr` in every cycle."""

    lr: float

    def __post_init__(self) -> None:
        _require(_real(self.lr) and self.lr > 0, "Fixed.lr", self.lr, "a finite number above 0")

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
        _require(_real(self.eps) and self.eps > 0, "SCyc.eps", self.eps, "a finite number above 0")
        _require(_real(self.delta) and self.delta >= 0, "SCyc.delta", self.delta, "a finite number, 0 or more")
        _require(_real(self.q) and self.q >= 0, "SCyc.q", self.q, "a finite number, 0 or more (suggested: 0 to 3)")
        _require(_real(self.beta) and self.beta > 0, "SCyc.beta", self.beta, "a number above 0 (suggested: 3 to 6)")

    def __call__(self, cycle: int, amount: float, history: History = ()) -> float:
        _require(_real(amount) and 0 < amount < 1, "amount", amount, "a share of the remaining weights, 0 < amount < 1")
        rise = (self.q - cycle) * math.log1p(-amount)  # log of (1-p)^-(m-q)
        if rise <= 0:  # up to cycle q, and where the rise is too small for a float
            return self.eps
        x = self.beta * (rise + math.log(-math.expm1(-rise)))  # beta log r; r itself would overflow
        return self.eps + self.delta / (1 + math.exp(min(-x, 700.0)))  # exp(700) is still finite, and zero as a share


SHAPES: dict[str, type] = {"constant": Constant, "decay": Decay, "cyclical": Cyclical, "warmup": Warmup}
PEAKS: dict[str, type] = {"fixed": Fixed, "scyc": SCyc}


@dataclass(frozen=True)
class Schedule:
    """A peak and a shape."""

    peak: Peak
    shape: Shape

    def lr(self, cycle: int, step: int, amount: float, history: History = ()) -> float:
        """The learning rate at `step` of `cycle`, both counted from 0."""
        _require(cycle >= 0, "cycle", cycle, "0 (the dense network) or more")
        _require(step >= 0, "step", step, "0 (the first of the cycle) or more")
        return self.peak(cycle, amount, history) * self.shape(step)


def table(schedule: Schedule, cycles: int, steps: int, amount: float = 0.2) -> Tensor:  # (cycles, steps), float64
    """Every learning rate of a run whose peaks need no history."""
    _require(_whole(cycles, 1), "cycles", cycles, "a whole number, at least 1")
    _require(_whole(steps, 1), "steps", steps, "a whole number, at least 1")
    peaks = torch.tensor([schedule.peak(cycle, amount) for cycle in range(cycles)], dtype=torch.float64)
    return peaks[:, None] * torch.tensor([schedule.shape(step) for step in range(steps)], dtype=torch.float64)


def plain(value: Any) -> Any:
    """A value as JSON knows it, so that saved descriptions compare equal whatever wrote them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__} | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value)  # a numpy float64 is a float too, but not to torch.load(weights_only=True)
    if value is None or isinstance(value, int | str):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)  # a function by its name


class ScheduleLR(LRScheduler):
    """One cycle of a schedule as a torch scheduler; each parameter group's own rate, usually 1.0, multiplies it."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedule: Schedule,
        cycle: int,
        amount: float,
        history: History = (),
        last_epoch: int = -1,
    ) -> None:
        _require(_whole(cycle, 0), "cycle", cycle, "a whole number: 0 (the dense network) or more")
        self.peak = float(schedule.peak(cycle, amount, history))  # once: rows added to history later change nothing
        self.schedule, self.cycle, self.amount = schedule, cycle, float(amount)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        lr = self.peak * float(self.schedule.shape(self.last_epoch))
        return [base * lr for base in self.base_lrs]

    def restart_(self, cycle: int, history: History = ()) -> None:
        """Begin another cycle with the same optimizer."""
        _require(_whole(cycle, 0), "cycle", cycle, "a whole number: 0 (the dense network) or more")
        self.peak, self.cycle = float(self.schedule.peak(cycle, self.amount, history)), cycle
        self.last_epoch = -1
        self._initial_step()  # as torch does when it builds one

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Looked at by `accelerator.prepare`, whose schedulers step once per process, too fast for this one."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            count = torch.distributed.get_world_size()
            _require(
                count == 1,
                "accelerator.prepare(scheduler) with processes",
                count,
                "the scheduler as it is: accelerate would step it once per process; call scheduler.step() yourself "
                "after every optimizer.step() where accelerator.sync_gradients",
            )
        return False

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"schedule": plain(self.schedule)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state of the same schedule; also sets the optimizer's rates, so load order is free."""
        self._check(state_dict)
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "schedule"})
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    def _check(self, state: Mapping[str, Any]) -> None:
        """Refuse the state of another schedule, cycle or amount, or of other parameter groups."""
        own = {"schedule": plain(self.schedule), "cycle": self.cycle, "amount": self.amount}
        for key, value in own.items():
            if state.get(key) != value:
                raise ValueError(f"state has {key} {state.get(key)}, this scheduler {value}; build it with the state's")
        if not math.isclose(state["peak"], self.peak, rel_tol=1e-9):  # libraries differ in the last digit of exp
            raise ValueError(f"state has peak {state['peak']}, this scheduler {self.peak}; pass the same history")
        if len(state["base_lrs"]) != len(self.base_lrs):
            given, known = len(state["base_lrs"]), len(self.base_lrs)
            raise ValueError(
                f"state has {given} parameter groups, this optimizer {known}; build it with the same groups"
            )
