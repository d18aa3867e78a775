"""What a measurement streams, gathered whole: a plain loop over batches with hooks, backward passes and numpy."""

import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scyc.stack import Stack

Values = NDArray[np.float64]


@dataclass
class Gathered:
    """All values of one run."""

    gradients: list[Values] = field(default_factory=list)
    hidden: list[Values] = field(default_factory=list)
    entered: dict[str, list[Values]] = field(default_factory=dict)


def plain(tensor: Tensor) -> Values:
    return tensor.detach().double().flatten().numpy().copy()


def listen_(net: nn.Module, kinds: tuple[type, ...], found: Gathered) -> None:
    for name, module in net.named_modules():
        if isinstance(module, kinds):
            hear = lambda _, inputs, name=name: found.entered.setdefault(name, []).append(plain(inputs[0]))  # noqa: E731
            module.register_forward_pre_hook(hear)
            module.register_forward_hook(lambda _, inputs, output: found.hidden.append(plain(output)))


def network(stack: Stack, k: int) -> nn.Module:
    net = copy.deepcopy(stack.net).to(stack.feed.dtype)
    net.load_state_dict({name: tensor[k] for name, tensor in stack.engine.weights().items()})
    return net


def weighted(net: nn.Module) -> dict[str, nn.Parameter]:
    layers = {name: m for name, m in net.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    return {f"{name}.weight": module.weight for name, module in layers.items()}


def gather(
    stack: Stack, k: int, *, batches: int = 0, surviving: bool = True, kinds: tuple[type, ...] = (nn.ReLU,)
) -> Gathered:
    """Run k of a stack over the first batches of cycle 0, or over its whole training split (0)."""
    found, net = Gathered(), network(stack, k)
    listen_(net, kinds, found)
    net.train(batches > 0)
    data = [stack.feed.train(0, step) for step in range(batches)] or list(stack.feed.rows("train"))
    images = sum(len(y[k]) for _, y in data)
    for x, y in data:
        net.zero_grad() if batches else None
        loss = cross_entropy(net(x[k]), y[k])
        (loss if batches else loss * len(y[k]) / images).backward()  # type: ignore[no-untyped-call]
        if batches:
            found.gradients += taken(stack, k, net, surviving)
    if not batches:
        found.gradients += taken(stack, k, net, surviving)
    return found


def taken(stack: Stack, k: int, net: nn.Module, surviving: bool) -> list[Values]:
    kept = {name: mask[k].flatten().numpy() for name, mask in stack.masks.items()} if surviving else {}
    grads = {name: plain(weight.grad) for name, weight in weighted(net).items() if weight.grad is not None}
    return [grad[kept[name]] if name in kept else grad for name, grad in grads.items()]
