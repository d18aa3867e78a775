"""One measurement: gradients, hidden representations and pre-activations of some runs of a stack, as they stand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from scyc.config import ConfigError, shown
from scyc.distribution.capture import Capture, Heard
from scyc.distribution.moments import Moments, merged, moments
from scyc.distribution.stream import Stream
from scyc.stack import Stack

WEIGHTS = ("surviving", "all")


@dataclass(frozen=True)
class Settings:
    """What is measured, which is no part of any run."""

    batches: int | str = 100  # gradients of so many batches, each by itself; or `all`: the one of the whole split
    weights: str = "surviving"  # whose gradients: of the weights that remain, or of all

    def __post_init__(self) -> None:
        if self.batches != "all" and not (isinstance(self.batches, int) and self.batches >= 1):
            raise ConfigError(f"batches = {shown(self.batches)}; write a number of batches, at least 1, or 'all'")
        if self.weights not in WEIGHTS:
            raise ConfigError(f"weights = {shown(self.weights)}; write 'surviving' or 'all'")


@dataclass(frozen=True)
class Measured:
    """Streams over all batches and layers, for the rows that were measured."""

    gradients: Stream
    hidden: Stream
    entered: dict[str, Moments] = field(default_factory=dict)  # by activation module: of the pre-activations

    @property
    def finite(self) -> Tensor:  # (rows,) bool
        return self.gradients.finite & self.hidden.finite

    def hear_(self, heard: Heard) -> None:
        for name, entered, left in heard:
            self.hidden.add_(left)
            here = moments(entered)
            self.entered[name] = merged(self.entered[name], here) if name in self.entered else here

    def summary(self, k: int, reference: Mapping[str, Any] | None) -> dict[str, Any]:
        """One row's numbers, with the edges and thresholds of the reference, cycle 0's summary (None: its own)."""
        pooled, *others = self.entered.values()
        for part in others:
            pooled = merged(pooled, part)
        return {
            "gradients": self.gradients.summary(k, reference and reference["gradients"]),
            "hidden": self.hidden.summary(k, reference and reference["hidden"]),
            "preactivations": {
                "count": int(pooled.count[k]),
                "mean": float(pooled.mean[k]),
                "variance": float(pooled.variance[k]),
                "layers": {name: float(part.variance[k]) for name, part in self.entered.items()},
            },
        }


def measured(stack: Stack, rows: Tensor, capture: Capture, settings: Settings) -> Measured:  # rows: (n,) run indices
    """What these runs show now; the stack is left as it is."""
    device = stack.feed.device
    result = Measured(Stream(len(rows), device), Stream(len(rows), device))
    groups = survivors(stack, rows, capture) if settings.weights == "surviving" else []
    for gradient, heard in flows(stack, rows, capture, settings.batches):
        result.hear_(heard)
        if gradient is not None and groups:
            for members, places in groups:
                result.gradients.add_(gradient[members].gather(1, places), members)
        elif gradient is not None:
            result.gradients.add_(gradient)
    return result


def survivors(stack: Stack, rows: Tensor, capture: Capture) -> list[tuple[Tensor, Tensor]]:
    """Rows with equally many remaining weights, and where these lie; empty where nothing is pruned yet."""
    sizes = {name: capture.net.get_parameter(name).numel() for name in capture.weights}
    whole = {name: rows.new_ones(len(rows), size, dtype=torch.bool) for name, size in sizes.items()}
    masks = {name: stack.masks[name][rows].flatten(1) for name in sizes if name in stack.masks}
    kept = torch.cat(list({**whole, **masks}.values()), 1)
    counts = kept.sum(1)
    if kept.all():
        return []
    groups = [(counts == count).nonzero()[:, 0] for count in sorted(set(counts.tolist()))]
    return [(members, kept[members].nonzero()[:, 1].view(len(members), -1)) for members in groups]


def flows(stack: Stack, rows: Tensor, capture: Capture, batches: int | str) -> Iterator[tuple[Tensor | None, Heard]]:
    """Gradients, each (rows, weights), and what the activations heard; the same images in every cycle.

    Batches are the first of cycle 0 as training drew them, in training mode; the whole split goes through in
    evaluation mode and without augmentation, and has one gradient.
    """
    state = {name: tensor[rows] for name, tensor in stack.engine.weights().items()}
    if isinstance(batches, int):
        for step in range(batches):
            keys = {name: stack.feed.drop_keys(0, step)[rows] for name in capture.keys}
            x, y = stack.feed.train(0, step)
            yield capture({**state, **keys}, x[rows], y[rows], training=True)
        return
    total, images = torch.zeros(()), 0
    for x, y in stack.feed.rows("train"):
        gradient, heard = capture(state, x[rows], y[rows], training=False)
        total, images = total.to(gradient) + gradient * y.shape[1], images + y.shape[1]
        yield None, heard
    yield total / images, []
