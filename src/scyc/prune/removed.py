"""What one pruning took away, as numbers that peaks may look at."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

TAKEN = ("pruned_share", "pruned_norm")  # as records and rows of history name them


def removed(
    weights: Mapping[str, Tensor],  # trained, each (runs, ...), zero where pruned before
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
) -> dict[str, Tensor]:  # each (runs,) float64
    """Of the weights that were left, the share that went; and the share of their 2-norm that went with them."""
    gone = {name: before[name] & ~after[name] for name in weights}
    share = counted(gone) / counted({name: before[name] for name in weights})
    lost = norm(weight.masked_fill(~gone[name], 0.0) for name, weight in weights.items())  # one copy at a time
    return dict(zip(TAKEN, (share, lost / norm(weights.values())), strict=True))


def counted(masks: Mapping[str, Tensor]) -> Tensor:  # (runs,) float64
    return torch.stack([mask.flatten(1).sum(1) for mask in masks.values()]).sum(0).double()


def norm(weights: Iterable[Tensor]) -> Tensor:  # (runs,) float64
    """The 2-norm of all layers together."""
    each = [torch.linalg.vector_norm(weight.flatten(1), dim=1, dtype=torch.float64) for weight in weights]
    total: Tensor = torch.linalg.vector_norm(torch.stack(each), dim=0)
    return total


def number(value: float | Tensor) -> float | None:
    """At twelve digits: the thirteenth may hang on how many runs were summed at once. None where nothing is known."""
    return float(f"{float(value):.12g}") if math.isfinite(value) else None
