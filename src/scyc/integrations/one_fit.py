"""Several cycles inside one fit of a trainer, which keeps its one optimizer: what its callbacks share."""

import copy
import math
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from scyc.lr import Schedule, ScheduleLR
from scyc.mask import unwrapped
from scyc.method import Method
from scyc.pruner import Pruner, Record, storable


class OneFit:
    """Prunes where a cycle's epochs or steps are over, and gives optimizer and schedule a new start."""

    pruner: Pruner
    optimizer: Optimizer
    scheduler: ScheduleLR

    def __init__(
        self, schedule: Schedule, *, cycles: int, epochs: int | None, steps: int | None, method: Method
    ) -> None:
        length = epochs if steps is None else steps
        if (epochs is None) == (steps is None) or not isinstance(length, int) or length < 1:
            raise ValueError(f"epochs={epochs}, steps={steps}: say how long a cycle is with one of them, 1 or more")
        self.schedule, self.cycles, self.epochs, self.steps, self.method = schedule, cycles, epochs, steps, method
        self.records: list[Record] = []
        self.first = math.inf  # the epoch in which this cycle began
        self.outcome: dict[str, Any] = {}  # the latest evaluation
        self.loaded: Mapping[str, Any] | None = None

    def follow_(self, optimizer: Optimizer, scheduler: ScheduleLR | None = None) -> ScheduleLR:
        """The optimizer of this fit as it is before its first step, and the scheduler of its learning rates."""
        self.optimizer = unwrapped(optimizer)
        self.blank = copy.deepcopy(self.optimizer.state_dict()["state"])
        self.scheduler = scheduler or ScheduleLR(self.optimizer, self.schedule, 0, self.method.amount)
        return self.scheduler

    def begin_(self, net: nn.Module) -> None:
        """Stand at the start, or where the loaded state was saved, or where a former fit of this network ended."""
        state = self.loaded or (self.state_dict() if self.knows(net) else None)
        if self.started:
            self.pruner.release_()
        self.pruner = Pruner(net, self.schedule, self.cycles, self.method)
        self.first, self.loaded = math.inf, None
        if state is not None:
            self.pruner.load_state_dict(state["pruner"])
            self.first, self.outcome = state["first"], dict(state["outcome"])
        self.pruner.hold_(self.optimizer)

    @property
    def started(self) -> bool:
        return hasattr(self, "pruner")

    def knows(self, net: nn.Module) -> bool:
        return self.started and self.pruner.net is net

    def over(self, epoch: float) -> bool:
        """Has this cycle been trained?"""
        return self.pruner.step >= self.steps if self.steps else epoch - self.first >= (self.epochs or 0)

    def finished(self, epoch: float) -> bool:
        """Was it the last?"""
        return self.pruner.cycle + 1 >= self.cycles and self.over(epoch)

    def proceed_(self, epoch: float) -> None:
        """At the start of a step: prune, rewind and start anew, if the cycle before is over and there is another."""
        self.first = min(self.first, epoch)  # a second fit may count its epochs from 0 again
        if not self.over(epoch) or self.finished(epoch):
            return
        self.record_()
        self.pruner.advance_()
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": copy.deepcopy(self.blank), "param_groups": groups})
        self.scheduler.restart_(self.pruner.cycle, self.pruner.past)
        self.pruner.hold_(self.optimizer)
        self.first, self.outcome = epoch, {}

    def record_(self) -> None:
        self.records = [record for record in self.records if record.cycle < self.pruner.cycle]
        self.records.append(self.pruner.record_(self.outcome))

    def evaluated_(self, metrics: Mapping[str, Any]) -> None:
        self.outcome = storable(metrics)

    def state_dict(self) -> dict[str, Any]:
        return {"pruner": self.pruner.state_dict(), "first": self.first, "outcome": self.outcome}
