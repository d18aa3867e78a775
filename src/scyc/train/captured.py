"""A stack on a GPU whose step is recorded once as CUDA graphs and then only replayed: nothing waits for Python.

The step reads weights from one tensor and writes them to another; one graph goes there, one back. All that a step
needs (order, rates, clock) lies in tensors that keep their place.
"""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from scyc.data.augment import draws
from scyc.data.feed import EVALUATED_ROWS
from scyc.draw import key, mixed
from scyc.kernel import images, update
from scyc.kernel.layers import DTYPES
from scyc.train import tally
from scyc.train.precision import autocast
from scyc.train.stacked import Stacked, along, per_row

Tensors = Mapping[str, Tensor]
COLUMNS = 256  # rates on the device at a time
LOOK = 0.2  # seconds between looks at what the device has done
SMALL = 2**14  # weights of a tensor, on average: smaller ones are updated in one piece


class Captured:
    """The engine protocol by replayed graphs around a `Stacked`, which knows the network."""

    name = "captured"

    def __init__(self, stack: Stacked) -> None:
        self.stack, self.feed, self.dtype = stack, stack.feed, DTYPES[stack.precision]
        device, runs = stack.flat.device, len(stack.flat)
        self.flats = (stack.flat, torch.zeros_like(stack.flat))
        self.here = 0
        self.slots = update.fresh_slots(stack.optimizer.name, stack.optimizer.fields, stack.flat)
        self.finite, self.losses = stack.finite, torch.zeros(runs, device=device)
        self.flatten_buffers_()
        self.bad = torch.zeros(runs, dtype=torch.int32, device=device)
        self.counts = {name: count.to(device) for name, count in tally.fresh(runs).items()}
        self.clock = torch.zeros(3, dtype=torch.int64, device=device)  # step, its batch in the epoch, its column
        self.rates = torch.zeros(runs, COLUMNS, device=device)
        self.order = self.feed.index["train"].clone()
        self.keys = torch.zeros(2, len(self.feed.distinct), dtype=torch.int64, device=device)  # augment, dropout
        self.epoch: tuple[int, int] | None = None  # whose order lies there
        self.columns = torch.arange(self.feed.batch, device=device)
        self.mean, self.std = (side.flatten(1).float().contiguous() for side in (self.feed.mean, self.feed.std))
        self.seen = {"flat": torch.zeros_like(stack.flat), "rows": torch.zeros_like(self.order[:, :EVALUATED_ROWS])}
        self.seen_buffers = {name: buffer.clone() for name, buffer in stack.buffers.items()}
        self.sums = torch.zeros(2, runs, dtype=torch.float64, device=device)
        self.pace = 16  # steps between looks
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = [self.recorded(lambda: self.step(0)), self.recorded(lambda: self.step(1))]
        self.look_graph: torch.cuda.CUDAGraph | None = None

    def flatten_buffers_(self) -> None:
        """Lay the buffers of one type side by side, so that a step handles them as one."""
        self.rows: dict[torch.dtype, Tensor] = {}
        groups: dict[torch.dtype, list[str]] = {}
        for name, buffer in self.stack.buffers.items():
            groups.setdefault(buffer.dtype, []).append(name)
        for dtype, names in groups.items():
            self.rows[dtype] = torch.cat([self.stack.buffers[n].reshape(len(self.finite), -1) for n in names], 1)
        self.groups = groups
        self.stack.buffers |= self.named(self.rows)

    def named(self, rows: Mapping[torch.dtype, Tensor]) -> dict[str, Tensor]:
        """Views of the buffers by name."""
        found: dict[str, Tensor] = {}
        for dtype, names in self.groups.items():
            shapes = [self.stack.buffers[name].shape for name in names]
            pieces = rows[dtype].split_with_sizes([shape[1:].numel() for shape in shapes], 1)
            found |= {name: piece.view(shape) for name, piece, shape in zip(names, pieces, shapes, strict=True)}
        return found

    def recorded(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """The graph of some work, done twice before, so that everything it compiles or allocates is there."""
        finite = self.finite.clone()
        self.finite.fill_(False)  # a rehearsal changes no weights
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
            work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            work()
        self.finite.copy_(finite)
        return graph

    def step(self, here: int) -> None:
        """One optimizer step, from tensors that keep their place into tensors that keep their place."""
        stack, feed = self.stack, self.feed
        old, new = self.flats[here], self.flats[1 - here]
        step, place, column = self.clock
        index = self.order.index_select(1, self.columns + place * feed.batch)
        drawn = draws(self.keys[0], step, feed.batch, feed.shape[1] // 8) if feed.augment else None
        x = images.batch(feed.images, index, drawn, feed.row, self.mean, self.std, self.dtype)
        rows = {dtype: row.clone() for dtype, row in self.rows.items()}
        buffers = self.named(rows) | {name: mixed(self.keys[1] + step)[feed.row] for name in stack.keys}
        stack.net.train()
        losses, grads = self.loss_and_grads(old, buffers, x, feed.labels[index][feed.row])
        self.bad.zero_()
        optimizer, rates = stack.optimizer, self.rates.index_select(1, column.view(1))[:, 0].contiguous()
        parts = (old, new, grads, stack.kept, self.slots, rates, self.finite, self.bad, step)
        update.advance_(optimizer.name, optimizer.fields, *parts)
        before = self.finite.clone()
        self.finite.logical_and_(losses.isfinite() & (self.bad == 0) & self.sound(rows))
        update.take_back_(old, new, before, self.finite)
        for dtype, row in rows.items():
            self.rows[dtype].copy_(torch.where(along(self.finite, row), row, self.rows[dtype]))
        self.losses.copy_(losses)
        self.clock.add_(1)
        tally.add_(self.counts, self.finite, self.losses, self.clock[0])

    def loss_and_grads(self, flat: Tensor, buffers: Tensors, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
        stack = self.stack
        views = {name: view.detach().requires_grad_() for name, view in stack.views(flat).items()}
        with autocast(stack.precision, flat.device):
            losses = per_row(stack.predict(views, buffers, x), y).mean(1)
        grads = torch.autograd.grad(losses.sum(), list(views.values()), allow_unused=True, materialize_grads=True)
        together = flat.shape[1] < SMALL * len(grads)
        return losses.detach(), [torch.cat([grad.flatten(1) for grad in grads], 1)] if together else list(grads)

    def sound(self, rows: Mapping[torch.dtype, Tensor]) -> Tensor:  # (runs,) bool
        """Are the statistics finite that were so when the cycle began?"""
        good = torch.ones_like(self.finite)
        for dtype, row in rows.items():
            if dtype.is_floating_point:
                good &= (row.isfinite() | ~self.rows[dtype].isfinite()).all(1)
        return good

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        self.stack.begin_(weights, masks)
        self.stack.slots = self.slots
        for slot in self.slots.values():
            slot.zero_()

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        self.steps_(cycle, step, lrs[:, None], tally.fresh(len(lrs)))

    def steps_(self, cycle: int, first: int, lrs: Tensor, counts: tally.Counts) -> None:
        began, done, count = time.perf_counter(), 0, lrs.shape[1]
        for name, tensor in self.counts.items():
            tensor.copy_(counts[name])
        while done < count:
            epoch, place = divmod(first + done, self.feed.epoch_steps)
            size = min(count - done, COLUMNS, self.feed.epoch_steps - place)
            self.turn_(cycle, epoch)
            self.clock.copy_(torch.tensor([first + done, place, 0]))
            self.rates[:, :size].copy_(lrs[:, done : done + size])
            for _ in range(size):
                self.graphs[self.here].replay()
                self.here = 1 - self.here
            done += size
        self.stack.flat = self.flats[self.here]
        for name, tensor in self.counts.items():
            counts[name].copy_(tensor)  # waits for the device
        self.pace = max(1, min(4096, int(LOOK * count / (time.perf_counter() - began))))

    def turn_(self, cycle: int, epoch: int) -> None:
        if self.epoch != (cycle, epoch):
            self.order.copy_(self.feed.order("order", cycle, epoch))
            keys = [[key(purpose, seed, cycle) for seed in self.feed.distinct] for purpose in ("augment", "dropout")]
            self.keys.copy_(torch.tensor(keys))
            self.epoch = (cycle, epoch)

    @torch.no_grad()
    def evaluate(self, part: str, weights: Tensors | None = None) -> tuple[Tensor, Tensor]:
        self.show_(weights)
        self.sums.zero_()
        rows = self.feed.index[part].shape[1]
        for index in torch.split(self.feed.index[part], EVALUATED_ROWS, 1):
            if index.shape != self.seen["rows"].shape:
                self.look(index)
                continue
            self.seen["rows"].copy_(index)
            if self.look_graph is None:
                self.look_graph = self.recorded_look()
            self.look_graph.replay()
        return self.sums[0] / rows, self.sums[1] / rows

    def recorded_look(self) -> torch.cuda.CUDAGraph:
        sums = self.sums.clone()
        graph = self.recorded(lambda: self.look(self.seen["rows"]))
        self.sums.copy_(sums)
        return graph

    def show_(self, weights: Tensors | None) -> None:
        """Put the weights to evaluate where the graph looks for them."""
        self.seen["flat"].copy_(self.flats[self.here])
        given, views = weights or {}, self.stack.views(self.seen["flat"])
        for name, buffer in self.stack.buffers.items():
            self.seen_buffers[name].copy_(given.get(name, buffer))
        for name, tensor in given.items():
            if name in views:
                views[name].copy_(tensor)

    def look(self, index: Tensor) -> None:
        """Add the losses and right answers of some rows."""
        stack, feed = self.stack, self.feed
        stack.net.eval()
        x = images.batch(feed.images, index, None, feed.row, self.mean, self.std, self.dtype)
        y = feed.labels[index][feed.row]
        with autocast(stack.precision, x.device):
            logits = stack.predict(stack.views(self.seen["flat"]), self.seen_buffers, x)
        self.sums[0] += per_row(logits, y).sum(1, dtype=torch.float64)
        self.sums[1] += (logits.argmax(-1) == y).sum(1)

    def gradients(self, cycle: int, batches: int | str) -> dict[str, Tensor]:
        return self.stack.gradients(cycle, batches)

    def weights(self) -> dict[str, Tensor]:
        return self.stack.weights()

    def state(self) -> dict[str, Tensor]:
        return self.stack.state() | {"losses": self.losses.clone()}

    def restore_(self, state: Tensors) -> None:
        for name, slot in self.slots.items():
            slot.copy_(state.get(f"slot.{name}", torch.zeros_like(slot)))
        self.finite.copy_(state["finite"])
        self.losses.copy_(state["losses"])
