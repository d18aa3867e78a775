"""The one protocol over K runs, and the choice of an engine for a network."""

import copy
import time
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from scyc.config import Part
from scyc.data.feed import Feed
from scyc.registry import nearest
from scyc.train.memory import out_of_memory

Tensors = Mapping[str, Tensor]


class Engine(Protocol):
    """K runs in step; every tensor has the run axis first, and names are those of the network's state_dict."""

    name: str
    finite: Tensor  # (runs,) bool: False once a loss, gradient or update was not finite; such a run is frozen
    losses: Tensor  # (runs,) mean training loss of the last step

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        """Start a cycle: these weights, these masks, fresh optimizer state."""

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        """One optimizer step of every run; lrs is (runs,) float64."""

    def evaluate(self, part: str, weights: Tensors | None = None) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy over a part of the data, each (runs,) float64, at these or the current weights."""

    def gradients(self, cycle: int, batches: int | str) -> dict[str, Tensor]:
        """Gradient of the mean loss over scoring batches, BatchNorm in evaluation mode."""

    def weights(self) -> dict[str, Tensor]:
        """A copy of parameters and buffers."""

    def state(self) -> dict[str, Tensor]:
        """A copy of what a cycle accumulates beside the weights: optimizer slots, the finite flags, the last losses."""

    def restore_(self, state: Tensors) -> None:
        """The inverse of `state`, after `begin_` with the weights."""


def engine_for(
    name: str, net: nn.Module, optimizer: Part, feed: Feed, precision: str
) -> tuple[Engine, str]:  # the engine, and why it is not the one hoped for (empty where it is)
    """`stacked` where the network allows it and it pays, `single` otherwise; `auto` tries, the other names insist."""
    from scyc.train.single import Single
    from scyc.train.stacked import Stacked

    if name not in ENGINES:
        raise nearest("engine", name, ENGINES)
    if name == "single":
        return Single(net, optimizer, feed, precision), ""
    try:
        why = slower_stacked(net, optimizer, feed, precision) if name == "auto" else ""
        if not why:
            return Stacked(net, optimizer, feed, precision).rehearsed(), ""
    except Exception as error:  # vmap refuses networks in many ways; each of them means: one run at a time
        if out_of_memory(error):  # but this one means: fewer runs at a time
            raise
        why = first_line(error)
        if name == "stacked":
            raise ValueError(f"this network cannot be stacked ({why}); use --engine single") from error
    return Single(net, optimizer, feed, precision), why


def slower_stacked(net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> str:
    """Why a stack does not pay, empty where it does: everywhere but with convolutions on the CPU, which are timed."""
    from scyc.train.single import Single
    from scyc.train.stacked import Stacked

    if feed.device.type != "cpu" or not any(isinstance(module, nn.modules.conv._ConvNd) for module in net.modules()):
        return ""
    if len(feed.row) == 1:
        return "a single run with convolutions on the CPU"
    if torch.are_deterministic_algorithms_enabled():  # a choice by the clock may be another one the next time
        return "convolutions on the CPU"
    few = copy.copy(feed)
    few.row = feed.row[:TIMED]
    stacked = step_seconds(Stacked(net, optimizer, few, precision).rehearsed(), net)
    single = step_seconds(Single(net, optimizer, few, precision), net)
    times = f"a step of {TIMED} runs takes {stacked:.2g} s of the CPU stacked, {single:.2g} s one by one"
    return times if single < CLEARLY * stacked else ""


def step_seconds(engine: Engine, net: nn.Module) -> float:
    """The time of the processor, which other processes do not change much; the better of two steps."""
    engine.begin_({name: t.detach().expand(TIMED, *t.shape) for name, t in net.state_dict().items()}, {})
    times = []
    for step in range(2):
        began = time.process_time()
        engine.step_(0, step, torch.zeros(TIMED, dtype=torch.float64))
        times.append(time.process_time() - began)
    return min(times)


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


ENGINES = ("auto", "stacked", "single")
TIMED = 2  # runs: with more, a stack of convolutions only becomes slower, and takes memory
CLEARLY = 0.9  # of the stack's time: where both are alike, the choice must not hang on noise
