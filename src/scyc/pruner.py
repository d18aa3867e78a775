"""Iterative pruning beside somebody else's training: where it stands, what holds the weights, and how it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from scyc import across, mask, prune
from scyc.config import part
from scyc.draw import generator, seeded
from scyc.lr import Schedule, ScheduleLR, plain
from scyc.method import Method


@dataclass(frozen=True)
class Record:
    """One cycle, trained: what it was, and what the evaluation after it returned."""

    cycle: int
    peak: float
    density: float  # of the weights that may be pruned
    density_all: float  # of all convolution and linear weights
    layers: dict[str, float]  # the density of each
    guarded: bool  # was the last weight of a layer kept against its score?
    pruned_share: float | None  # of the weights that were left, what the pruning before this cycle took; None: none was
    pruned_norm: float | None  # of their 2-norm
    steps: int
    outcome: Any
    masks: mask.Masks = field(repr=False)

    def row(self) -> dict[str, Any]:
        """As peaks that look at history see it: plain values, the numbers of the outcome beside the others."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("outcome", "masks")}
        named = self.outcome if isinstance(self.outcome, Mapping) else {"outcome": self.outcome}
        outcome: dict[str, Any] = storable(named)
        return values | outcome


class Pruner:
    """Where the iterative pruning of one network stands; whoever trains says which optimizer, and when a cycle ends."""

    def __init__(self, net: nn.Module, schedule: Schedule, cycles: int, method: Method) -> None:
        if not isinstance(cycles, int) or cycles < 1:
            raise ValueError(f"cycles = {cycles!r}; use a whole number of trainings, at least 1")
        self.net, self.schedule, self.cycles, self.method = net, schedule, cycles, method
        self.rewind: prune.Rewind = part(prune.REWIND, method.rewind).make()
        self.masks = prune.starting(net, method.unit, where=method.where)
        self.cycle = self.step = 0
        self.guarded = False
        self.taken: dict[str, float | None] = dict.fromkeys(prune.TAKEN)  # by the pruning before this cycle
        self.history: list[dict[str, Any]] = []
        self.scheduler: ScheduleLR | None = None
        self.handles: list[RemovableHandle] = []
        self.kept: dict[str, Tensor] = {}
        self.keep_()

    # One cycle

    @property
    def peak(self) -> float:
        return float(self.schedule.peak(self.cycle, self.method.amount, self.past))

    @property
    def past(self) -> list[dict[str, Any]]:
        """The history as peaks see it."""
        return past(self.cycle, self.history, self.taken)

    @property
    def layers(self) -> dict[str, float]:
        """The density of every layer that may be pruned."""
        names = [name for name in mask.prunable(self.net) if name in self.masks]
        return {name: mask.density(self.masks, [name]) for name in names}

    @property
    def density(self) -> float:
        return mask.density(self.masks, self.layers)

    def attach_(self, optimizer: Optimizer) -> ScheduleLR:
        """Hold the masks and count the steps of this cycle's optimizer; the scheduler of its learning rates."""
        if self.handles:
            raise ValueError(f"cycle {self.cycle} has its optimizer already; attach one, once in a cycle")
        optimizer = mask.unwrapped(optimizer)
        self.scheduler = ScheduleLR(optimizer, self.schedule, self.cycle, self.method.amount, self.past)
        self.hold_(optimizer)
        return self.scheduler

    def hold_(self, optimizer: Optimizer) -> None:
        self.masks = self.placed(self.masks)  # the network may have moved since it was given
        handle = mask.attach_(optimizer, self.net, self.masks)
        self.handles = [handle, mask.unwrapped(optimizer).register_step_post_hook(self.count_)]

    def count_(self, *_: object) -> None:
        self.step += 1
        self.keep_()

    def keep_(self) -> None:
        """The weights that the rewind returns to, if this is their step."""
        if (self.cycle, self.step) == (0, self.rewind.snapshot):
            self.kept = {name: value.detach().clone() for name, value in tensors(self.net).items()}

    @property
    def stuck(self) -> bool:
        """Has the optimizer gone on while the scheduler, whose rates are to change, was never stepped?"""
        assert self.scheduler is not None
        still = self.scheduler.last_epoch == 0 and self.step > 1
        return still and self.schedule.shape(0) != self.schedule.shape(1)

    def release_(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def record_(self, outcome: Any = None) -> Record:
        """Note this cycle, as trained until now."""
        whole = mask.ones_like(self.net, mask.weights(self.net))
        made = Record(
            cycle=self.cycle,
            peak=self.peak,
            density=self.density,
            density_all=mask.density(whole | {name: self.masks[name] for name in self.layers}),
            layers=self.layers,
            guarded=self.guarded,
            **self.taken,
            steps=self.step,
            outcome=outcome,
            masks=dict(self.masks),
        )
        self.history[self.cycle :] = [made.row()]
        return made

    def placed(self, masks: Mapping[str, Tensor]) -> mask.Masks:
        """Each mask on the device of its parameter."""
        return {name: kept.to(self.net.get_parameter(name).device) for name, kept in masks.items()}

    # To the next

    def advance_(self) -> None:
        """Prune, rewind, and begin the next cycle, which needs an optimizer anew."""
        if self.rewind.snapshot is not None and not self.kept:
            raise ValueError(f"rewind to step {self.rewind.snapshot}: cycle 0 had {self.step} steps; use a smaller k")
        self.release_()
        how, following = self.method, self.cycle + 1
        grads = across.averaged(how.grads(self.net)) if how.grads else None
        before, trained = self.masks, {name: self.net.get_parameter(name).detach().clone() for name in self.layers}
        self.masks, self.guarded = prune.guarded_step(
            self.net,
            self.masks,
            score=how.score,
            scope=how.scope,
            unit=how.unit,
            amount=how.amount,
            grads=grads,
            rng=generator("score", how.seed, following),
        )
        across.agreed(self.masks)
        self.taken = taken(trained, before, self.masks)
        own = tensors(self.net)
        write_(own, self.rewind(self.kept, own, lambda: self.drawn(following)))
        mask.apply_(self.net, self.masks)
        self.cycle, self.step = following, 0

    def drawn(self, cycle: int) -> dict[str, Tensor]:
        assert self.method.fresh is not None
        with seeded("reinit", self.method.seed, cycle):
            return tensors(self.method.fresh())

    # Going on after an interruption

    def state_dict(self) -> dict[str, Any]:
        """Everything but the network's own state, as plain values: `torch.load(weights_only=True)` reads it."""
        return {
            "method": self.method.described(),
            "schedule": plain(self.schedule),
            **{name: getattr(self, name) for name in ("cycle", "step", "guarded")},
            **{name: getattr(self, name).copy() for name in ("history", "masks", "kept", "taken")},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where the state was saved; refuses that of another method or schedule."""
        own = self.state_dict()
        for name in ("method", "schedule"):
            if state.get(name) != own[name]:
                raise ValueError(f"state has {name} {state.get(name)}, this one {own[name]}; use the state's")
        mask.held(self.net, state["masks"])
        self.release_()
        self.cycle, self.step, self.guarded = state["cycle"], state["step"], state["guarded"]
        self.history = [dict(row) for row in state["history"]]
        self.taken = dict.fromkeys(prune.TAKEN) | state.get("taken", {})  # older states have none
        self.masks = self.placed(state["masks"])
        self.kept = {name: value.clone() for name, value in state["kept"].items()}


def past(cycle: int, history: list[dict[str, Any]], taken: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """A row per earlier cycle, the last beside what is known of the one that begins."""
    rows = history[:cycle]
    return [*rows[:-1], rows[-1] | {"next": dict(taken)}] if rows else []


def taken(weights: Mapping[str, Tensor], before: mask.Masks, after: mask.Masks) -> dict[str, float | None]:
    """What the pruning of one network took."""
    own, old, new = ({name: tensors[name][None] for name in weights} for tensors in (weights, before, after))
    return {name: prune.number(value[0]) for name, value in prune.removed(own, old, new).items()}


def tensors(net: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those that are saved; not the other things a module may put into its state."""
    return {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}


@torch.no_grad()
def write_(own: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values into a network's own tensors, which its optimizer holds."""
    if own.keys() != values.keys():
        raise ValueError(f"not the same network: only one of the two has {sorted(own.keys() ^ values.keys())[0]!r}")
    for name, value in own.items():
        value.copy_(values[name])


def storable(value: Any) -> Any:
    """The value in plain types, since states are loaded with weights_only=True."""
    if isinstance(value, Mapping):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    if isinstance(value, Tensor):
        return value.detach().item() if value.numel() == 1 else value.detach().clone()
    if hasattr(value, "item"):  # a number of numpy's
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(
        f"an evaluation returned a {type(value).__name__}; return numbers, tensors, or a dictionary of them"
    )
