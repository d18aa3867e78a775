"""The one protocol over K runs, and the choice of an engine for a network."""

import copy
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from scyc.config import Part
from scyc.data.feed import Feed
from scyc.registry import nearest
from scyc.train.memory import out_of_memory
from scyc.train.tally import Counts

if TYPE_CHECKING:
    from scyc.train.stacked import Stacked

Tensors = Mapping[str, Tensor]


class Engine(Protocol):
    """K runs in step; every tensor has the run axis first, and names are those of the network's state_dict."""

    name: str
    finite: Tensor  # (runs,) bool: False once a loss, gradient or update was not finite; such a run is frozen
    losses: Tensor  # (runs,) mean training loss of the last step
    pace: int  # steps to ask for at a time: as many as are done before somebody wants to look

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        """Start a cycle: these weights, these masks, fresh optimizer state."""

    def steps_(self, cycle: int, first: int, lrs: Tensor, counts: Counts) -> None:
        """Optimizer steps of every run from step `first` on; lrs is (runs, steps) float64. Each is counted."""

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        """One optimizer step of every run, counted nowhere; lrs is (runs,) float64."""

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
    """The first of the engines that takes the network and pays, from the fastest on; a name other than auto insists."""
    if name not in ENGINES:
        raise nearest("engine", name, ENGINES)
    why = ""
    for candidate in preferred(net, feed.device) if name == "auto" else (name,):
        try:
            slow = slower_stacked(net, optimizer, feed, precision) if (name, candidate) == ("auto", "stacked") else ""
            if not slow:
                return MAKERS[candidate](net, optimizer, feed, precision), why
            why = slow
        except Exception as error:  # vmap refuses networks in many ways; each of them means: one run at a time
            if out_of_memory(error):  # but this one means: fewer runs at a time
                raise
            why = first_line(error)
            if name != "auto":
                raise ValueError(f"this network cannot be {name} ({why}); use --engine single") from error
    raise AssertionError("the single engine takes every network")


def preferred(net: nn.Module, device: torch.device) -> tuple[str, ...]:
    """Convolutions are captured only where asked for: one of their kernels was seen to read where it must not."""
    if device.type == "cuda" and not convolutional(net):
        return ("captured", "stacked", "single")
    return ("stacked", "single")


def convolutional(net: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.conv._ConvNd) for module in net.modules())


def captured(net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> Engine:
    """Replayed CUDA graphs and kernels of our own."""
    if feed.device.type != "cuda" or find_spec("triton") is None:
        raise ValueError("it needs a CUDA device and triton")
    from scyc.train.captured import Captured

    return Captured(stack_of(net, optimizer, feed, precision, kernels=True))


def stacked(net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> Engine:
    """The general road: whatever vmap takes."""
    return stack_of(net, optimizer, feed, precision, kernels=False)


def stack_of(net: nn.Module, optimizer: Part, feed: Feed, precision: str, *, kernels: bool) -> "Stacked":
    from scyc.train.stacked import Stacked

    return Stacked(net, optimizer, feed, precision, kernels=kernels).rehearsed()


def single(net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> Engine:
    """One network after the other."""
    from scyc.train.single import Single

    return Single(net, optimizer, feed, precision)


def slower_stacked(net: nn.Module, optimizer: Part, feed: Feed, precision: str) -> str:
    """Why a stack does not pay, empty where it does: everywhere but with convolutions on the CPU, which are timed."""
    if feed.device.type != "cpu" or not convolutional(net):
        return ""
    if len(feed.row) == 1:
        return "a single run with convolutions on the CPU"
    if torch.are_deterministic_algorithms_enabled():  # a choice by the clock may be another one the next time
        return "convolutions on the CPU"
    few = copy.copy(feed)
    few.row = feed.row[:TIMED]
    together = step_seconds(stacked(net, optimizer, few, precision), net)
    apart = step_seconds(single(net, optimizer, few, precision), net)
    times = f"a step of {TIMED} runs takes {together:.2g} s of the CPU stacked, {apart:.2g} s one by one"
    return times if apart < CLEARLY * together else ""


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


MAKERS = {"captured": captured, "stacked": stacked, "single": single}
ENGINES = ("auto", *MAKERS)
TIMED = 2  # runs: with more, a stack of convolutions only becomes slower, and takes memory
CLEARLY = 0.9  # of the stack's time: where both are alike, the choice must not hang on noise
