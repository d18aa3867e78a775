"""The readable reference: one network and one torch optimizer per run; runs share nothing but their batches."""

import copy
import math
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scyc import mask
from scyc.config import Part
from scyc.data.feed import Feed
from scyc.prune import gradients
from scyc.registry import nearest
from scyc.train.dropout import keyed_
from scyc.train.precision import autocast
from scyc.train.tally import Counts, add_

Tensors = Mapping[str, Tensor]
T = TypeVar("T")
IN_CACHE = 100  # images: more at once only evict each other from a processor's caches


def torch_adam(params: Any, *, beta1: float = 0.9, beta2: float = 0.999, **fields: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, betas=(beta1, beta2), **fields)


TORCH: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch_adam,
    "rmsprop": torch.optim.RMSprop,
}


class Single:
    """K ordinary networks; what a stack does to a row, this does to a network."""

    name = "single"
    pace = 1

    def __init__(self, net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> None:
        if optimizer.name not in TORCH:
            raise nearest("torch optimizer", optimizer.name, TORCH)
        self.nets = [copy.deepcopy(net) for _ in feed.row]
        for copied in self.nets:
            self.keys = keyed_(copied)
            copied.to(feed.device, feed.dtype)
        self.optimizer, self.feed, self.precision = optimizer, feed, precision
        self.optimizers: list[torch.optim.Optimizer] = []
        self.watched: list[list[Tensor]] = []  # per run: what has to stay finite
        self.steady: list[bool] = []  # per run: did its last step leave it finite?
        self.before: list[list[tuple[Tensor, Tensor]]] = []  # per run: its tensors, each with room for a copy
        self.finite = torch.ones(len(self.nets), dtype=torch.bool)
        self.losses = torch.zeros(len(self.nets), dtype=feed.dtype)
        threads, at_once = torch.get_num_threads(), abreast(feed.device)
        self.pool = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(threads,))

    def each(self, work: Callable[[int], T], runs: Iterable[int]) -> list[T]:
        """The work of every run; on the CPU as many at once as it has cores: torch computes without Python's lock."""
        return list(map(work, runs) if abreast(self.feed.device) == 1 else self.pool.map(work, runs))

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        self.optimizers, self.watched, self.before = [], [], []
        self.steady = [True] * len(self.nets)
        for k, net in enumerate(self.nets):
            net.load_state_dict({name: tensor[k] for name, tensor in weights.items()})
            statistics = [b for b in net.buffers() if b.is_floating_point() and bool(b.isfinite().all())]
            self.watched.append([*(p.detach() for p in net.parameters()), *statistics])
            self.before.append([(tensor, torch.empty_like(tensor)) for tensor in net.state_dict().values()])
            optimizer = TORCH[self.optimizer.name](net.parameters(), lr=0.0, **self.optimizer.fields)
            optimizer.register_step_post_hook(partial(self.look_, k))  # before the masks hide what is not finite
            mask.attach_(optimizer, net, {name: m[k].to(self.feed.device) for name, m in masks.items()})
            self.optimizers.append(optimizer)

    def steps_(self, cycle: int, first: int, lrs: Tensor, counts: Counts) -> None:
        for step, rates in enumerate(lrs.T, first):
            self.step_(cycle, step, rates)
            add_(counts, self.finite, self.losses.cpu(), step + 1)

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        x, y = self.feed.train(cycle, step)
        alive = self.finite.nonzero()[:, 0].tolist()
        for k in alive if self.keys else ():
            for name in self.keys:
                self.nets[k].get_buffer(name).copy_(self.feed.drop_keys(cycle, step)[k])
        self.finite[alive] = torch.tensor(
            self.each(lambda k: self.step_one_(k, x[k], y[k], float(lrs[k])), alive), dtype=torch.bool
        )

    def step_one_(self, k: int, x: Tensor, y: Tensor, lr: float) -> bool:
        """The plain loop; a step that is not finite is taken back."""
        net, optimizer = self.nets[k].train(), self.optimizers[k]
        self.keep_(k)
        for group in optimizer.param_groups:
            group["lr"] = lr
        with autocast(self.precision, self.feed.device):
            loss = cross_entropy(net(x).to(self.feed.dtype), y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.losses[k] = loss.detach()
        try:
            optimizer.step()
        except RuntimeError as error:
            if "overflow" not in str(error):  # a rate so large that the weights' type has no number for it
                raise
            self.steady[k] = False
        if self.steady[k]:
            return True
        for tensor, room in self.before[k]:
            tensor.copy_(room)
        return False

    def keep_(self, k: int) -> None:
        for tensor, room in self.before[k]:
            room.copy_(tensor)

    def look_(self, k: int, *_: object) -> None:
        self.steady[k] = self.sound(k)

    def sound(self, k: int) -> bool:
        """Infinity and NaN survive a sum, so one number tells of loss, weights and statistics."""
        return math.isfinite(float(sum((tensor.sum() for tensor in self.watched[k]), self.losses[k])))

    def evaluate(self, part: str, weights: Tensors | None = None) -> tuple[Tensor, Tensor]:
        sums, rows = torch.zeros(2, len(self.nets), dtype=torch.float64), 0
        state = weights or self.weights()
        for x, y in self.feed.rows(part):
            found = self.each(lambda k: self.evaluate_one(k, state, x[k], y[k]), range(len(self.nets)))  # noqa: B023
            sums += torch.stack(found, 1)
            rows += y.shape[1]
        return sums[0] / rows, sums[1] / rows

    @torch.no_grad()
    def evaluate_one(self, k: int, weights: Tensors, x: Tensor, y: Tensor) -> Tensor:  # (2,) float64
        """Summed loss and right answers."""
        net = self.nets[k].eval()
        own = dict(net.named_parameters()) | dict(net.named_buffers())  # a tied weight stands once
        state = {name: tensor[k] for name, tensor in weights.items() if name in own}
        with autocast(self.precision, self.feed.device):
            pieces = torch.split(x, IN_CACHE if x.device.type == "cpu" else len(x))
            logits = torch.cat([torch.func.functional_call(net, state, (piece,)) for piece in pieces])
        losses = cross_entropy(logits.to(self.feed.dtype), y, reduction="none")
        return torch.stack([losses.sum(dtype=torch.float64), (logits.argmax(-1) == y).sum().double()]).cpu()

    def gradients(self, cycle: int, batches: int | str) -> dict[str, Tensor]:
        def loss(logits: Tensor, y: Tensor) -> Tensor:
            return cross_entropy(logits.to(self.feed.dtype), y)

        def one(k: int) -> dict[str, Tensor]:
            with autocast(self.precision, self.feed.device):
                return gradients(self.nets[k], ((x[k], y[k]) for x, y in self.feed.scoring(cycle, batches)), loss)

        each = self.each(one, range(len(self.nets)))
        return {name: torch.stack([grads[name] for grads in each]) for name in each[0]}

    def weights(self) -> dict[str, Tensor]:
        states = [net.state_dict() for net in self.nets]
        return {name: torch.stack([state[name] for state in states]) for name in states[0]}

    def state(self) -> dict[str, Tensor]:
        """Optimizer slots by the names of the parameters, which outlive any reordering of them."""
        stacked: dict[str, Tensor] = {"finite": self.finite.clone(), "losses": self.losses.clone()}
        for name, rows in self.slots().items():
            like = next(row for row in rows if row is not None)
            stacked[f"slot.{name}"] = torch.stack([torch.zeros_like(like) if row is None else row for row in rows])
        return stacked

    def slots(self) -> dict[str, list[Tensor | None]]:
        """`parameter:slot` -> one tensor per run, None where a run has not stepped."""
        found: dict[str, list[Tensor | None]] = {}
        for k, (net, optimizer) in enumerate(zip(self.nets, self.optimizers, strict=True)):
            for name, parameter in net.named_parameters():
                for slot, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, Tensor):
                        found.setdefault(f"{name}:{slot}", [None] * len(self.nets))[k] = value.clone()
        return found

    def restore_(self, state: Tensors) -> None:
        self.finite, self.losses = state["finite"].clone(), state["losses"].clone()
        for key, rows in state.items():
            if key.startswith("slot."):
                name, slot = key.removeprefix("slot.").rsplit(":", 1)
                for k, (net, optimizer) in enumerate(zip(self.nets, self.optimizers, strict=True)):
                    optimizer.state[net.get_parameter(name)][slot] = rows[k].clone()


def abreast(device: torch.device) -> int:
    """Runs that can train at once: on the CPU its cores, over the threads that each run takes."""
    if device.type != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // torch.get_num_threads())
