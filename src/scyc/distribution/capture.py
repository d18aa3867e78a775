"""What flows through a network: gradients of its weights, and what enters and leaves its activations."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from scyc import mask
from scyc.model import ACTIVATIONS
from scyc.stack import Stack
from scyc.train.dropout import keyed_
from scyc.train.precision import autocast

Tensors = Mapping[str, Tensor]
Heard = list[tuple[str, Tensor, Tensor]]  # per activation its name, what entered and what left, each (runs, values)
Flow = tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]  # loss, and what entered and left each activation


def activations(net: nn.Module) -> tuple[str, ...]:
    """The modules whose outputs are the hidden representations: those named in `net.hidden`, else by their class."""
    declared = getattr(net, "hidden", None)  # may as well be a layer of this name
    if isinstance(declared, list | tuple) and all(isinstance(name, str) for name in declared):
        found = tuple(declared)
    else:
        classes = tuple(kind for kind in ACTIVATIONS.values() if isinstance(kind, type))
        found = tuple(name for name, module in net.named_modules() if isinstance(module, classes))
    unknown = set(found) - {name for name, _ in net.named_modules()}
    if unknown or not found:
        what = f"net.hidden names {min(unknown)!r}, which is no module" if unknown else "no activation module found"
        raise ValueError(f"{what}; set net.hidden to the names of the modules that put out hidden representations")
    return found


class Capture:
    """A copy of a stack's network with ears: nothing that is done here reaches the runs themselves."""

    def __init__(self, stack: Stack) -> None:
        self.feed, self.precision = stack.feed, stack.run.precision
        self.net = copy.deepcopy(stack.net).to(stack.feed.device, stack.feed.dtype)
        self.keys = keyed_(self.net)
        self.weights = mask.weights(self.net)
        self.each = one_by_one(self.one) if stack.engine.name == "single" else vmap(self.one)
        self.heard: list[tuple[str, Tensor, Tensor]] = []
        for name in activations(self.net):
            self.listen_(name, self.net.get_submodule(name))

    def listen_(self, name: str, module: nn.Module) -> None:
        """Copies, since an activation may work in place, and so may what follows it."""
        entered: list[Tensor] = []

        def before(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            entered.append(inputs[0].detach().clone())

        def after(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if not isinstance(output, Tensor):
                raise ValueError(f"module {name!r} puts out {type(output).__name__}; name others in net.hidden")
            self.heard.append((name, entered.pop(), output.detach().clone()))

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)

    def one(self, state: Tensors, x: Tensor, y: Tensor) -> Flow:
        """One run's loss, and what its activations heard."""
        self.heard.clear()
        logits = functional_call(self.net, dict(state), (x,)).to(self.feed.dtype)
        return cross_entropy(logits, y), tuple(h[1] for h in self.heard), tuple(h[2] for h in self.heard)

    def __call__(
        self,
        state: Tensors,  # each (runs, ...), changed where it is a buffer of BatchNorm
        x: Tensor,  # (runs, batch, ...)
        y: Tensor,  # (runs, batch)
        *,
        training: bool,
    ) -> tuple[Tensor, Heard]:  # (runs, weights) of gradients
        """The gradient of each run's mean loss with respect to all its weights, and what its activations heard."""
        self.net.train(training)
        asked = {name: state[name].detach().requires_grad_() for name in self.weights}
        with autocast(self.precision, x.device):
            losses, before, after = self.each({**state, **asked}, x, y)
        grads = torch.autograd.grad(losses.sum(), list(asked.values()), allow_unused=True, materialize_grads=True)
        names = [name for name, *_ in self.heard]
        flows = [(n, b.flatten(1), a.flatten(1)) for n, b, a in zip(names, before, after, strict=True)]
        self.heard.clear()
        return torch.cat([grad.flatten(1) for grad in grads], 1), flows


def one_by_one(one: Callable[[Tensors, Tensor, Tensor], Flow]) -> Callable[[Tensors, Tensor, Tensor], Flow]:
    """What vmap does, by a loop over the runs."""

    def each(state: Tensors, x: Tensor, y: Tensor) -> Flow:
        rows = [one({name: t[k] for name, t in state.items()}, x[k], y[k]) for k in range(len(x))]
        losses, before, after = zip(*rows, strict=True)
        return torch.stack(losses), along_runs(before), along_runs(after)

    return each


def along_runs(rows: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.stack(tensors) for tensors in zip(*rows, strict=True))
