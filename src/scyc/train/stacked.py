"""The stack: every parameter has a run axis, and one vmapped step trains all runs."""

import copy
from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from scyc.config import Part
from scyc.data.feed import Feed
from scyc.train.dropout import keyed_
from scyc.train.precision import autocast
from scyc.train.tally import Counts, add_

Tensors = Mapping[str, Tensor]
ALIGNED = 128  # weights: with kernels, every run's begin where memory is read in one piece


class Stacked:
    """K runs in one flat (runs, parameters) tensor; the network sees views of it."""

    name = "stacked"
    pace = 1

    def __init__(self, net: nn.Module, optimizer: Part, feed: Feed, precision: str, *, kernels: bool = False) -> None:
        self.net = self.alone = copy.deepcopy(net)
        self.keys = keyed_(self.net)
        self.net.to(feed.device, feed.dtype)
        if precision == "bf16":
            in_float32_(self.net)
        if kernels:
            from scyc.kernel.layers import replace_

            self.net = replace_(copy.deepcopy(self.net), precision)
        self.optimizer, self.feed, self.precision = optimizer, feed, precision
        runs = len(feed.row)
        template = dict(self.net.named_parameters())
        self.shapes = {name: p.shape for name, p in template.items()}
        self.sizes = [p.numel() for p in template.values()]
        self.pad = -sum(self.sizes) % ALIGNED if kernels else 0
        self.flat = torch.zeros(runs, sum(self.sizes) + self.pad, device=feed.device, dtype=feed.dtype)
        self.kept = torch.ones_like(self.flat, dtype=torch.bool)
        self.buffers = {name: repeated(buffer, runs) for name, buffer in self.net.named_buffers()}
        self.watched: list[str] = []  # buffers that have to stay finite: statistics, not masks of infinities
        self.slots: dict[str, Tensor] = {}
        self.finite = torch.ones(runs, dtype=torch.bool, device=feed.device)
        self.losses = torch.zeros(runs, device=feed.device, dtype=feed.dtype)
        self.predict = vmap(self.run_logits)

    def run_logits(self, params: Tensors, buffers: Tensors, x: Tensor) -> Tensor:
        logits: Tensor = functional_call(self.net, ({**params, **buffers}), (x,))
        return logits.to(self.feed.dtype)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        *pieces, _ = flat.split_with_sizes([*self.sizes, self.pad], 1)
        return {n: p.view(len(p), *shape) for (n, shape), p in zip(self.shapes.items(), pieces, strict=True)}

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        for name, view in self.views(self.flat).items():
            view.copy_(weights[name])
        kept = self.views(self.kept.fill_(True))
        for name, mask in masks.items():
            kept[name].copy_(mask)
        self.flat.masked_fill_(~self.kept, 0.0)
        for name, buffer in self.buffers.items():
            buffer.copy_(weights.get(name, buffer))
        self.watched = [n for n, b in self.buffers.items() if b.is_floating_point() and bool(b.isfinite().all())]
        self.slots = {}

    def loss_and_grads(self, buffers: Tensors, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:  # (runs,), flat
        views = {name: view.detach().requires_grad_() for name, view in self.views(self.flat).items()}
        with autocast(self.precision, self.flat.device):
            losses = per_row(self.predict(views, buffers, x), y).mean(1)
        grads = torch.autograd.grad(losses.sum(), list(views.values()), allow_unused=True, materialize_grads=True)
        pad = self.flat.new_zeros(len(self.flat), self.pad)
        return losses.detach(), torch.cat([*(grad.flatten(1) for grad in grads), pad], 1)

    def steps_(self, cycle: int, first: int, lrs: Tensor, counts: Counts) -> None:
        for step, rates in enumerate(lrs.T, first):
            self.step_(cycle, step, rates)
            add_(counts, self.finite.cpu(), self.losses.cpu(), step + 1)

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        x, y = self.feed.train(cycle, step)
        if not self.net.training:
            self.net.train()
        buffers = {name: buffer.clone() for name, buffer in self.buffers.items()}  # BatchNorm writes into them
        for name in self.keys:
            buffers[name] = self.feed.drop_keys(cycle, step)
        losses, grads = self.loss_and_grads(buffers, x, y)
        update = self.optimizer.make(self.flat, grads, self.slots, lrs.to(self.flat)[:, None])
        self.write_(self.flat - update, buffers, losses)
        self.losses = losses

    def write_(self, new: Tensor, buffers: dict[str, Tensor], losses: Tensor) -> None:
        """Take the step where weights remain and the run is finite; everything else keeps its bits."""
        self.finite &= self.sound(new, buffers, losses)
        alive = self.finite
        if alive.device.type == "cpu" and alive.all():  # no wait for the device where there is none
            self.buffers = buffers
            torch.where(self.kept, new, self.flat, out=self.flat)
            return
        torch.where(self.kept & alive[:, None], new, self.flat, out=self.flat)
        self.buffers = {n: torch.where(along(alive, b), b, self.buffers[n]) for n, b in buffers.items()}

    def sound(self, new: Tensor, buffers: Tensors, losses: Tensor) -> Tensor:  # (runs,) bool
        """Which runs this step leaves finite: infinity and NaN survive a sum, so one number per run tells."""
        watched = [buffers[name].reshape(len(new), -1) for name in self.watched]
        return torch.isfinite(sum((part.sum(1) for part in (*watched, new)), losses))

    @torch.no_grad()
    def evaluate(self, part: str, weights: Tensors | None = None) -> tuple[Tensor, Tensor]:
        given = {**self.views(self.flat), **self.buffers} | dict(weights or {})
        params, buffers = {n: given[n] for n in self.shapes}, {n: given[n] for n in self.buffers}
        self.net.eval()
        sums = torch.zeros(2, len(self.flat), dtype=torch.float64, device=self.flat.device)
        rows = 0
        for x, y in self.feed.rows(part):
            with autocast(self.precision, self.flat.device):
                logits = self.predict(params, buffers, x)
            each = per_row(logits, y).sum(1, dtype=torch.float64)
            sums += torch.stack([each, (logits.argmax(-1) == y).sum(1).double()])
            rows += y.shape[1]
        return sums[0] / rows, sums[1] / rows

    def gradients(self, cycle: int, batches: int | str) -> dict[str, Tensor]:
        self.net.eval()
        total, rows = torch.zeros_like(self.flat), 0
        for x, y in self.feed.scoring(cycle, batches):
            total.add_(self.loss_and_grads(self.buffers, x, y)[1], alpha=y.shape[1])
            rows += y.shape[1]
        return self.views(total / rows)

    def weights(self) -> dict[str, Tensor]:
        named = {**self.views(self.flat), **{n: b for n, b in self.buffers.items() if n not in self.keys}}
        return {name: tensor.clone() for name, tensor in named.items()}

    def state(self) -> dict[str, Tensor]:
        slots = {f"slot.{name}": tensor for name, tensor in self.slots.items()}
        return {name: t.clone() for name, t in {**slots, "finite": self.finite, "losses": self.losses}.items()}

    def restore_(self, state: Tensors) -> None:
        device = self.flat.device
        self.slots = {n.removeprefix("slot."): t.clone().to(device) for n, t in state.items() if n.startswith("slot.")}
        self.finite, self.losses = state["finite"].clone().to(device), state["losses"].clone().to(device)

    def rehearsed(self) -> Self:
        """Itself, once its network went through a training step in the stack, and predicts there as it does alone."""
        runs = len(self.flat)
        self.begin_({name: repeated(t.detach(), runs) for name, t in self.net.state_dict().items()}, {})
        x, y = (rows[:, :4] for rows in self.feed.train(0, 0))
        self.net.eval()
        stacked = self.loss_and_grads(self.buffers, x, y)[0]
        with torch.no_grad():
            plain = cross_entropy(self.alone.eval()(x[0]).to(stacked), y[0])
        if not torch.allclose(stacked[0], plain, rtol=5e-2 if self.precision == "bf16" else 1e-2, atol=1e-3):
            raise ValueError(f"its loss in a stack is {float(stacked[0])}, alone {float(plain)}")
        self.net.train()
        self.loss_and_grads({name: buffer.clone() for name, buffer in self.buffers.items()}, x, y)
        return self


def in_float32_(net: nn.Module) -> None:
    """Normalise in float32 whatever autocast hands over: vmap does not mix the types of values and statistics."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))


def per_row(logits: Tensor, y: Tensor) -> Tensor:  # (runs, rows, classes), (runs, rows) -> (runs, rows)
    return cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(y)


def repeated(tensor: Tensor, runs: int) -> Tensor:
    return tensor.expand(runs, *tensor.shape).clone()


def along(flags: Tensor, tensor: Tensor) -> Tensor:
    return flags.view(-1, *[1] * (tensor.dim() - 1))
