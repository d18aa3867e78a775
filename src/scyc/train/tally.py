"""What every step adds to the counts of a cycle: its training loss, and in which step a run was finite no more."""

import torch
from torch import Tensor

Counts = dict[str, Tensor]


def fresh(runs: int) -> Counts:  # each (runs,)
    """The counts before the first step of a cycle."""
    return {
        "train_loss": torch.zeros(runs, dtype=torch.float64),  # summed since the last evaluation
        "diverged": torch.full((runs,), -1, dtype=torch.int64),  # the step, or -1
    }


def add_(counts: Counts, finite: Tensor, losses: Tensor, step: int | Tensor) -> None:
    """Count a step; the sum is taken in the order of the steps, so that it does not hang on how many are asked for."""
    counts["train_loss"] += torch.where(finite, losses.double(), 0.0)
    strike_(counts, finite, step)


def strike_(counts: Counts, finite: Tensor, step: int | Tensor) -> None:
    """Note `step` for the runs that were found not to be finite any more."""
    counts["diverged"].copy_(torch.where(finite | (counts["diverged"] >= 0), counts["diverged"], step))
