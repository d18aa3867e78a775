"""Which images train, validate and test a run: index tensors into the images of a set, drawn by seed alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

from scyc.draw import permutation

SPLITS = ("paper", "official")


@dataclass(frozen=True)
class Split:
    """Indices into the training images followed by the test images."""

    train: Tensor  # (n,) int64
    validation: Tensor
    test: Tensor


def split(labelled: int, held_out: int, how: str, seed: int, limit: int = 0) -> Split:
    """`paper` pools everything, 60/20/20; `official` keeps the set's own test images, trains on 80 % of the rest."""
    if how == "paper":
        order = permutation(labelled + held_out, "split", seed)
        order = order[:limit] if limit else order
        ends = round(0.6 * len(order)), round(0.8 * len(order))
        return Split(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :])
    if not held_out:
        raise ValueError("split 'official' needs test images of the set's own, and it has none; use split = 'paper'")
    order = permutation(labelled, "split", seed)
    test = torch.arange(labelled, labelled + held_out)
    if limit and limit < labelled:
        order, kept = order[:limit], max(1, round(limit * held_out / labelled))
        test = test[permutation(held_out, "split", seed, 1)[:kept]]
    end = round(0.8 * len(order))
    return Split(order[:end], order[end:], test)
