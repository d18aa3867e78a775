"""A stack in training: everything of K runs that outlives a step, and its form as one checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from scyc import mask, prune
from scyc.config import Part, digest
from scyc.data import Dataset
from scyc.data.feed import Feed
from scyc.draw import seeded
from scyc.run import Run, effective
from scyc.train import Engine, engine_for, tally
from scyc.train.memory import out_of_memory
from scyc.train.precision import PRECISIONS

Tensors = Mapping[str, Tensor]
Record = dict[str, Any]


@dataclass
class Stack:
    """K runs in step. `runs` have their scale applied; every tensor has the run axis first."""

    ids: tuple[str, ...]
    runs: tuple[Run, ...]
    engine: Engine
    feed: Feed
    net: nn.Module  # the first run's initial network: what is prunable, coupled, exempt
    masks: dict[str, Tensor]
    why_single: str = ""  # why the engine is not the one hoped for
    watched: bool = False  # does somebody look after every single step?
    kept: dict[str, Tensor] = field(default_factory=dict)  # weights at the rewind's snapshot
    best: dict[str, Tensor] = field(default_factory=dict)  # weights at the first minimum of validation loss
    cycle: int = 0
    step: int = 0
    ended: bool = False  # the cycle's records are made
    now: dict[str, Tensor] = field(default_factory=dict)  # per run: see `fresh_counters`
    curve: list[dict[str, Any]] = field(default_factory=list)  # one entry per evaluation of this cycle
    history: list[list[Record]] = field(default_factory=list)  # per run, one record per ended cycle

    @property
    def name(self) -> str:
        return digest(list(self.ids))

    @property
    def run(self) -> Run:
        """Any run speaks for all in what a stack shares: steps, batch, cycles, pruning, data."""
        return self.runs[0]

    @property
    def steps(self) -> int:
        """Of this cycle."""
        return self.run.steps_of(self.cycle)

    @property
    def begun(self) -> dict[str, Tensor]:  # each (runs,)
        """What the pruning before this cycle took."""
        return {name: self.now[name] for name in prune.TAKEN}

    def past(self, k: int) -> list[Record]:
        """The k-th run's history as peaks see it: its earlier cycles, the last beside what is known of this one."""
        rows = [row for row in self.history[k] if row["cycle"] < self.cycle]
        taken = {name: prune.number(values[k]) for name, values in self.begun.items()}
        return [*rows[:-1], rows[-1] | {"next": {"steps": self.steps, **taken}}] if rows else []

    def peak(self, k: int) -> float:
        """The k-th run's, in this cycle."""
        run = self.runs[k]
        return float(run.peak.make()(self.cycle, run.pruning.amount, self.past(k)))

    @property
    def last_cycle(self) -> bool:
        return self.cycle == self.run.cycles - 1


def fresh_counters(runs: int) -> dict[str, Tensor]:  # each (runs,)
    """What is counted within one cycle."""
    return {
        "best_loss": torch.full((runs,), torch.inf, dtype=torch.float64),
        "best_accuracy": torch.zeros(runs, dtype=torch.float64),
        "best_step": torch.zeros(runs, dtype=torch.int64),
        "guarded": torch.zeros(runs, dtype=torch.bool),
        **{name: torch.full((runs,), torch.nan, dtype=torch.float64) for name in prune.TAKEN},  # by the pruning before
        **tally.fresh(runs),
    }


def network(run: Run, shape: tuple[int, int, int], classes: int, purpose: str = "init", cycle: int = 0) -> nn.Module:
    """The network with weights drawn on the CPU by (purpose, seed, cycle)."""
    with seeded(purpose, run.seed, cycle):
        net = built(run.model, shape, classes)
    if not isinstance(net, nn.Module):
        raise ValueError(f"model {run.model.name!r} returned {type(net).__name__}, not a torch.nn.Module")
    return net


def built(model: Part, shape: tuple[int, int, int], classes: int) -> Any:
    """What the model's entry makes; torch has many ways to refuse sizes that no machine has."""
    try:
        return model.make(shape, classes)
    except (RuntimeError, TypeError, OverflowError) as error:
        if out_of_memory(error):
            raise
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"model {model.name!r} cannot be built for images {shape}: {why}; check its fields") from error


def drawn(runs: Sequence[Run], feed: Feed, purpose: str, cycle: int = 0) -> dict[str, Tensor]:
    """Fresh weights of every run; runs of one seed get the same."""
    states = {run.seed: network(run, feed.shape, feed.classes, purpose, cycle).state_dict() for run in runs}
    first = next(iter(states.values()))
    return {name: torch.stack([states[run.seed][name] for run in runs]).to(feed.device) for name in first}


def start(
    ids: Sequence[str], runs: Sequence[Run], dataset: Dataset, *, engine: str = "auto", device: torch.device
) -> Stack:
    """A stack before its first step."""
    resolved = tuple(effective(run) for run in runs)
    run = resolved[0]
    feed = Feed(
        dataset,
        [r.seed for r in resolved],
        batch=run.batch,
        how=run.data.split,
        limit=run.data.limit,
        augment=run.data.augment,
        device=device,
        dtype=PRECISIONS[run.precision],
    )
    net = network(run, feed.shape, feed.classes)
    if not mask.prunable(net):
        raise ValueError(f"model {run.model.name!r} has no prunable convolution or linear weight; nothing to do")
    chosen, why = engine_for(engine, net, run.optimizer, feed, run.precision)
    masks = {
        name: m.expand(len(runs), *m.shape).clone() for name, m in prune.starting(net, run.pruning.unit.name).items()
    }
    stack = Stack(tuple(ids), resolved, chosen, feed, net, {n: m.to(device) for n, m in masks.items()}, why)
    chosen.begin_(drawn(resolved, feed, "init"), stack.masks)
    stack.now = fresh_counters(len(runs))
    stack.history = [[] for _ in runs]
    if run.pruning.rewind.make().snapshot == 0:
        stack.kept = chosen.weights()
    return stack


def head(stack: Stack) -> dict[str, Any]:
    """The part of a checkpoint that is not tensors; it fixes the members."""
    return {
        "stack": stack.name,
        "members": list(stack.ids),
        "cycle": stack.cycle,
        "step": stack.step,
        "ended": stack.ended,
        "engine": stack.engine.name,
        "why_single": stack.why_single,
        "curve": stack.curve,
        "history": stack.history,
    }


def tensors(stack: Stack) -> dict[str, Tensor]:  # each (runs, ...)
    groups = {
        "weights": stack.engine.weights(),
        "engine": {n: t for n, t in stack.engine.state().items() if not (stack.ended and n.startswith("slot."))},
        "mask": stack.masks,
        "kept": stack.kept,
        "best": stack.best,
        "now": stack.now,
    }
    return {f"{group}/{name}": tensor for group, named in groups.items() for name, tensor in named.items()}


def restore_(stack: Stack, head: Mapping[str, Any], saved: Tensors) -> None:
    """Put a started stack where a checkpoint left it, or where it left the stack's members if it had more."""
    rows = [head["members"].index(id) for id in stack.ids]
    groups: dict[str, dict[str, Tensor]] = {}
    for path, tensor in saved.items():
        group, _, name = path.partition("/")
        on = torch.device("cpu") if group == "now" else stack.feed.device
        groups.setdefault(group, {})[name] = tensor[rows].to(on)
    stack.cycle, stack.step, stack.ended = head["cycle"], head["step"], head["ended"]
    stack.why_single = head["why_single"]
    stack.masks, stack.now = groups["mask"], fresh_counters(len(rows)) | groups["now"]  # older ones hold fewer
    stack.kept, stack.best = groups.get("kept", {}), groups.get("best", {})
    stack.history = [head["history"][row] for row in rows]
    stack.curve = [
        {name: value if name == "step" else [value[row] for row in rows] for name, value in entry.items()}
        for entry in head["curve"]
    ]
    stack.engine.begin_(groups["weights"], stack.masks)
    stack.engine.restore_(groups["engine"])
