"""The one-call form: iterative pruning around any function that trains."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from torch import nn
from torch.optim import Optimizer

from scyc import draw, mask
from scyc.lr import Schedule, ScheduleLR
from scyc.method import Choices, Method
from scyc.pruner import Pruner, Record, tensors, write_


@dataclass(frozen=True)
class Cycle:
    """What `train` is given: one cycle of one network."""

    net: nn.Module
    number: int  # prunings until now
    step: int  # steps done already: more than 0 only where an interrupted cycle goes on
    density: float
    peak: float
    masks: mask.Masks = field(repr=False)
    pruner: Pruner = field(repr=False)

    def attach_(self, optimizer: Optimizer) -> ScheduleLR:
        """Keep pruned weights at zero under this cycle's optimizer; step what it returns after every optimizer step."""
        return self.pruner.attach_(optimizer)


class Cycles(Iterator[Record]):
    """Trains a cycle whenever the next record is asked for; between two of them it can be saved and loaded."""

    def __init__(
        self, pruner: Pruner, train: Callable[[Cycle], object], evaluate: Callable[[nn.Module], Any] | None
    ) -> None:
        self.pruner, self.train, self.evaluate = pruner, train, evaluate

    def __next__(self) -> Record:
        pruner = self.pruner
        if self.ended:
            if pruner.cycle + 1 >= pruner.cycles:
                raise StopIteration
            pruner.advance_()
        self.train_()
        return pruner.record_(self.evaluate(pruner.net) if self.evaluate else None)

    @property
    def ended(self) -> bool:
        """Is the cycle where it stands trained and recorded?"""
        return len(self.pruner.history) > self.pruner.cycle

    def train_(self) -> None:
        pruner = self.pruner
        pruner.release_()  # where a training was interrupted
        masks = dict(pruner.masks)
        self.train(Cycle(pruner.net, pruner.cycle, pruner.step, pruner.density, pruner.peak, masks, pruner))
        if not pruner.handles:
            raise ValueError(f"train attached no optimizer in cycle {pruner.cycle}; call cycle.attach_(optimizer)")
        if pruner.stuck:
            raise ValueError(f"the learning rate of cycle {pruner.cycle} stood still; call scheduler.step() every step")
        pruner.release_()

    def state_dict(self) -> dict[str, Any]:
        """All of it, the network and torch's random stream too; `torch.load(weights_only=True)` reads it."""
        return {"pruner": self.pruner.state_dict(), "net": tensors(self.pruner.net), "random": draw.stream()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was saved, with the same bits as if nothing had happened."""
        self.pruner.load_state_dict(state["pruner"])
        write_(tensors(self.pruner.net), state["net"])
        draw.set_stream_(state["random"])


def prune_iteratively(
    net: nn.Module,
    *,
    train: Callable[[Cycle], object],
    evaluate: Callable[[nn.Module], Any] | None = None,
    schedule: Schedule,
    cycles: int = 25,
    **choices: Unpack[Choices],
) -> Cycles:
    """Train, prune, rewind, train again: yields a record at the end of each of `cycles` trainings.

    `train(cycle)` trains `cycle.net` with an optimizer that it attaches: `scheduler = cycle.attach_(optimizer)`. What
    `evaluate(net)` returns is in the record. The other keywords are the fields of `scyc.Method`.
    """
    return Cycles(Pruner(net, schedule, cycles=cycles, method=Method(**choices)), train, evaluate)
