"""A schedule as a torch scheduler."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from scyc.lr.peaks import History
from scyc.lr.schedule import Schedule, plain
from scyc.lr.valid import require, whole


class ScheduleLR(LRScheduler):
    """One cycle of a schedule as a torch scheduler; each parameter group's own rate, usually 1.0, multiplies it."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedule: Schedule,
        cycle: int,
        amount: float,
        history: History = (),
        last_epoch: int = -1,
    ) -> None:
        require(whole(cycle, 0), "cycle", cycle, "a whole number: 0 (the dense network) or more")
        self.peak = float(schedule.peak(cycle, amount, history))  # once: rows added to history later change nothing
        self.schedule, self.cycle, self.amount = schedule, cycle, float(amount)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        lr = self.peak * float(self.schedule.shape(self.last_epoch))
        return [base * lr for base in self.base_lrs]

    def restart_(self, cycle: int, history: History = ()) -> None:
        """Begin another cycle with the same optimizer."""
        require(whole(cycle, 0), "cycle", cycle, "a whole number: 0 (the dense network) or more")
        self.peak, self.cycle = float(self.schedule.peak(cycle, self.amount, history)), cycle
        self.last_epoch = -1
        self._initial_step()  # as torch does when it builds one

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Looked at by `accelerator.prepare`, whose schedulers step once per process, too fast for this one."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            count = torch.distributed.get_world_size()
            require(
                count == 1,
                "accelerator.prepare(scheduler) with processes",
                count,
                "the scheduler as it is: accelerate would step it once per process; call scheduler.step() yourself "
                "after every optimizer.step() where accelerator.sync_gradients",
            )
        return False

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"schedule": plain(self.schedule)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state of the same schedule; also sets the optimizer's rates, so load order is free."""
        self._check(state_dict)
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "schedule"})
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    def _check(self, state: Mapping[str, Any]) -> None:
        """Refuse the state of another schedule, cycle or amount, or of other parameter groups."""
        own = {"schedule": plain(self.schedule), "cycle": self.cycle, "amount": self.amount}
        for key, value in own.items():
            if state.get(key) != value:
                raise ValueError(f"state has {key} {state.get(key)}, this scheduler {value}; build it with the state's")
        if not math.isclose(state["peak"], self.peak, rel_tol=1e-9):  # libraries differ in the last digit of exp
            raise ValueError(f"state has peak {state['peak']}, this scheduler {self.peak}; pass the same history")
        if len(state["base_lrs"]) != len(self.base_lrs):
            given, known = len(state["base_lrs"]), len(self.base_lrs)
            raise ValueError(
                f"state has {given} parameter groups, this optimizer {known}; build it with the same groups"
            )
