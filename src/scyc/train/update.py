"""Optimizer updates as functions of flat stacks: (params, grads, state, lr) -> what to subtract from the params.

The update is returned instead of applied, so that one `where` writes it: pruned weights are never written, and neither
are those of a run whose update is not finite.
"""

from collections.abc import Callable
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from scyc.registry import Kind

State = dict[str, Tensor]
NotNegative = Annotated[float, Field(ge=0)]
Memory = Annotated[float, Field(ge=0, lt=1)]  # the share that a running mean keeps


def sgd(
    params: Tensor,  # (runs, parameters)
    grads: Tensor,  # (runs, parameters)
    state: State,
    lr: Tensor,  # (runs, 1)
    *,
    momentum: NotNegative = 0.0,
    weight_decay: NotNegative = 0.0,
    nesterov: bool = False,
) -> Tensor:  # (runs, parameters)
    """stochastic gradient descent with momentum and L2 weight decay"""
    if nesterov and not momentum:
        raise ValueError("optimizer.nesterov = true needs a momentum above 0; set optimizer.momentum")
    if weight_decay:
        grads = grads.add(params, alpha=weight_decay)
    if momentum:
        velocity = state.setdefault("velocity", torch.zeros_like(params)).mul_(momentum).add_(grads)
        grads = grads.add(velocity, alpha=momentum) if nesterov else velocity
    return grads * lr


def adam(
    params: Tensor,
    grads: Tensor,
    state: State,
    lr: Tensor,
    *,
    beta1: Memory = 0.9,
    beta2: Memory = 0.999,
    eps: NotNegative = 1e-8,
    weight_decay: NotNegative = 0.0,
) -> Tensor:
    """Adam with L2 weight decay"""
    if weight_decay:
        grads = grads.add(params, alpha=weight_decay)
    steps = state.setdefault("steps", torch.zeros_like(lr, dtype=torch.float64)).add_(1)
    mean = state.setdefault("mean", torch.zeros_like(params)).lerp_(grads, 1 - beta1)
    square = state.setdefault("square", torch.zeros_like(params)).mul_(beta2).addcmul_(grads, grads, value=1 - beta2)
    rate = lr / (1 - beta1**steps)
    root = (1 - beta2**steps).sqrt()
    return mean / (square.sqrt() / root.to(params.dtype) + eps) * rate.to(params.dtype)


def rmsprop(
    params: Tensor,
    grads: Tensor,
    state: State,
    lr: Tensor,
    *,
    alpha: Memory = 0.99,
    eps: NotNegative = 1e-8,
    momentum: NotNegative = 0.0,
    weight_decay: NotNegative = 0.0,
) -> Tensor:
    """RMSProp with L2 weight decay"""
    if weight_decay:
        grads = grads.add(params, alpha=weight_decay)
    square = state.setdefault("square", torch.zeros_like(params)).mul_(alpha).addcmul_(grads, grads, value=1 - alpha)
    update = grads / (square.sqrt() + eps)
    if momentum:
        update = state.setdefault("velocity", torch.zeros_like(params)).mul_(momentum).add_(update)
    return update * lr


Update = Callable[..., Tensor]
OPTIMIZERS: dict[str, Update] = {"sgd": sgd, "adam": adam, "rmsprop": rmsprop}
OPTIMIZER = Kind("optimizer", OPTIMIZERS, arguments=4)
