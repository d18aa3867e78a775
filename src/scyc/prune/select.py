"""The one exact selection that every scope and unit uses, over the run axis of a stack at once."""

from collections.abc import Mapping
from numbers import Real

import torch
from torch import Tensor

from scyc.mask import Masks
from scyc.prune.group import Scope, Unit
from scyc.prune.score import Tensors


def select(
    scores: Tensor,  # (runs, units)
    alive: Tensor,  # (runs, units) bool
    sizes: list[int],  # units of each layer; they sum to the second axis
    amount: float,
) -> tuple[Tensor, Tensor]:  # (runs, units) bool: what goes; (runs,) bool: did the guard act?
    """Exactly round(amount * remaining) of the smallest, ties by index; the last unit of a layer always stays."""
    if torch.isnan(scores).any():
        raise ValueError("a score is NaN: the network or its gradients hold NaN; prune a network that is finite")
    order = scores.argsort(dim=1, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    last = torch.zeros_like(alive)
    for layer_rank, layer_last in zip(
        rank.masked_fill(~alive, -1).split_with_sizes(sizes, 1), last.split_with_sizes(sizes, 1), strict=True
    ):
        if layer_rank.shape[1]:
            layer_last.scatter_(1, layer_rank.argmax(1, keepdim=True), True)
    counts = torch.tensor([[round(amount * int(n))] for n in alive.sum(1)], device=scores.device)
    unguarded = smallest(order, alive, counts)
    gone = smallest(order, alive & ~last, counts)
    return gone, (unguarded != gone).any(1)


def smallest(order: Tensor, candidates: Tensor, counts: Tensor) -> Tensor:
    """The first `counts` candidates of each run in the given order."""
    sorted_candidates = candidates.gather(1, order)
    taken = sorted_candidates & (sorted_candidates.cumsum(1) <= counts)
    return torch.zeros_like(candidates).scatter_(1, order, taken)


@torch.no_grad()
def pruned(
    scores: Tensors,  # each (runs, ...)
    masks: Tensors,  # each (runs, ...)
    *,
    scope: Scope,
    unit: Unit,
    amount: float,
    coupled: Mapping[str, tuple[str, ...]],
) -> tuple[Masks, Tensor]:  # the new masks; (runs,) bool: did the guard act?
    """The masks after one pruning of every run in a stack."""
    if not (isinstance(amount, Real) and 0 < amount < 1):
        raise ValueError(f"amount = {amount!r}: must lie between 0 and 1, the share of the remaining weights to prune")
    made = {name: mask.clone() for name, mask in masks.items()}
    guarded = torch.zeros(len(next(iter(masks.values()))), dtype=torch.bool, device=next(iter(masks.values())).device)
    for group in scope(list(scores)):
        alive = [unit(made[name]) for name in group]
        values = [unit(scores[name]).masked_fill(~a, 0.0).sum(-1) for name, a in zip(group, alive, strict=True)]
        sizes = [value.shape[1] for value in values]
        gone, acted = select(torch.cat(values, 1), torch.cat([a.any(-1) for a in alive], 1), sizes, amount)
        guarded |= acted
        for name, out in zip(group, gone.split_with_sizes(sizes, 1), strict=True):
            if out.shape[1]:
                made[name] = (unit(made[name]) & ~out.unsqueeze(-1)).view_as(made[name])
                made.update({vector: made[vector] & ~out for vector in coupled.get(name, ()) if vector in made})
    return made, guarded
