"""An optimizer's step of a whole stack in Triton: one pass over weights, gradients, slots and masks.

The new weights go to a second tensor, so that a run whose step is not finite keeps the bits it had.
"""

from collections.abc import Mapping, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
SLOTS = {"sgd": ("velocity",), "adam": ("mean", "square"), "rmsprop": ("square", "velocity")}


@triton.jit
def advance(
    old,
    new,
    grads,
    kept,
    first,  # slots, of the shape of the weights
    second,
    rates,  # (runs,) learning rates
    alive,  # (runs,) was the run finite before?
    bad,  # (runs,) set where a new weight is not finite
    corrections,  # (2,) of Adam's running means, which begin at zero
    offset,  # of this parameter in a run's weights
    size,
    pitch,  # weights of a run
    a,
    b,
    eps,
    decay,
    NAME: tl.constexpr,
    MOMENTUM: tl.constexpr,
    NESTEROV: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    good, where = place < size, run * pitch + offset + place
    weight = tl.load(old + where, mask=good, other=0.0)
    grad = tl.load(grads + run * size + place, mask=good, other=0.0).to(tl.float32) + decay * weight
    rate = tl.load(rates + run)
    if NAME == "sgd":
        step = grad
        if MOMENTUM:
            velocity = a * tl.load(first + where, mask=good, other=0.0) + grad
            tl.store(first + where, velocity, mask=good)
            step = grad + a * velocity if NESTEROV else velocity
        change = step * rate
    elif NAME == "adam":
        mean = tl.load(first + where, mask=good, other=0.0)
        mean += (grad - mean) * (1 - a)
        square = b * tl.load(second + where, mask=good, other=0.0) + (1 - b) * grad * grad
        tl.store(first + where, mean, mask=good)
        tl.store(second + where, square, mask=good)
        change = mean / (tl.sqrt(square) / tl.load(corrections + 1) + eps) * (rate / tl.load(corrections))
    else:
        square = a * tl.load(first + where, mask=good, other=0.0) + (1 - a) * grad * grad
        tl.store(first + where, square, mask=good)
        change = grad / (tl.sqrt(square) + eps)
        if MOMENTUM:
            change += b * tl.load(second + where, mask=good, other=0.0)
            tl.store(second + where, change, mask=good)
        change = change * rate
    changed = weight - change
    if tl.max(tl.where(good & ~(tl.abs(changed) < float("inf")), 1, 0), 0) > 0:
        tl.store(bad + run, 1)
    takes = (tl.load(kept + where, mask=good, other=0) != 0) & (tl.load(alive + run) != 0)
    tl.store(new + where, tl.where(takes, changed, weight), mask=good)


@triton.jit
def take_back(old, new, before, after, size, BLOCK: tl.constexpr):
    """Rows that were finite before and are not any more get the weights they had."""
    run = tl.program_id(1).to(tl.int64)
    if (tl.load(before + run) != 0) & (tl.load(after + run) == 0):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(old + run * size + place, mask=place < size)
        tl.store(new + run * size + place, value, mask=place < size)


def advance_(
    name: str,
    fields: Mapping[str, float],
    old: Tensor,  # (runs, weights)
    new: Tensor,  # (runs, weights), written
    grads: Sequence[Tensor],  # of every parameter, in the order of the weights, each (runs, ...)
    kept: Tensor,  # (runs, weights) bool
    slots: Mapping[str, Tensor],
    rates: Tensor,  # (runs,) float32
    alive: Tensor,  # (runs,) bool
    bad: Tensor,  # (runs,) int32, written
    count: Tensor,  # () int64: steps before this one
) -> None:
    a, b, momentum = numbers(name, fields)
    pair = [slots[slot] for slot in SLOTS[name] if slot in slots] + [old, old]
    corrections = adam_corrections(a, b, count) if name == "adam" else rates
    offset = 0
    for grad in grads:
        size = grad[0].numel()
        advance[(triton.cdiv(size, BLOCK), len(old))](
            old, new, grad.reshape(len(old), size).contiguous(), kept.view(torch.uint8), pair[0], pair[1],
            rates, alive.view(torch.uint8), bad, corrections, offset, size, old.shape[1],
            a, b, float(fields.get("eps", 1e-8)), float(fields.get("weight_decay", 0.0)),
            name, momentum, bool(fields.get("nesterov", False)), BLOCK, num_warps=8,
        )  # fmt: skip
        offset += size


def adam_corrections(beta1: float, beta2: float, count: Tensor) -> Tensor:  # (2,) float32
    steps = count.double() + 1
    return torch.stack([1 - beta1**steps, (1 - beta2**steps).sqrt()]).float()


def numbers(name: str, fields: Mapping[str, float]) -> tuple[float, float, bool]:
    """The optimizer's two constants, and whether it has a momentum."""
    if name == "adam":
        return fields.get("beta1", 0.9), fields.get("beta2", 0.999), False
    momentum = float(fields.get("momentum", 0.0))
    return (momentum, 0.0, momentum > 0) if name == "sgd" else (fields.get("alpha", 0.99), momentum, momentum > 0)


def fresh_slots(name: str, fields: Mapping[str, float], flat: Tensor) -> dict[str, Tensor]:
    """What the optimizer keeps per weight."""
    momentum = numbers(name, fields)[2]
    names = [slot for slot in SLOTS[name] if slot != "velocity" or momentum]
    return {slot: torch.zeros_like(flat) for slot in names}


def take_back_(old: Tensor, new: Tensor, before: Tensor, after: Tensor) -> None:
    runs, size = old.shape
    take_back[(triton.cdiv(size, BLOCK), runs)](
        old, new, before.view(torch.uint8), after.view(torch.uint8), size, BLOCK, num_warps=8
    )
