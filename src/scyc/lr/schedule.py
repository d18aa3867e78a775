"""A peak and a shape together, every rate of a run, and a schedule in plain words."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from scyc.lr.peaks import History, Peak
from scyc.lr.shapes import Shape
from scyc.lr.valid import require, whole


@dataclass(frozen=True)
class Schedule:
    """A peak and a shape."""

    peak: Peak
    shape: Shape

    def lr(self, cycle: int, step: int, amount: float, history: History = ()) -> float:
        """The learning rate at `step` of `cycle`, both counted from 0."""
        require(cycle >= 0, "cycle", cycle, "0 (the dense network) or more")
        require(step >= 0, "step", step, "0 (the first of the cycle) or more")
        return self.peak(cycle, amount, history) * self.shape(step)


def table(schedule: Schedule, cycles: int, steps: int, amount: float = 0.2) -> Tensor:  # (cycles, steps), float64
    """Every learning rate of a run whose peaks need no history."""
    require(whole(cycles, 1), "cycles", cycles, "a whole number, at least 1")
    require(whole(steps, 1), "steps", steps, "a whole number, at least 1")
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
