"""The one loop: train, measure, record, prune, rewind; once for every engine, score, rewind and schedule."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from scyc import mask, prune
from scyc.config import Part
from scyc.draw import generator
from scyc.prune.score import Tensors
from scyc.run import Run
from scyc.stack import Record, Stack, drawn, fresh_counters
from scyc.store import weights as stored
from scyc.train import tally

Pulse = Callable[[Stack], None]  # called after every step or some; may save the stack, and may raise to stop


def cycles(stack: Stack, pulse: Pulse) -> Iterator[dict[str, Record]]:
    """Train to the end from wherever the stack stands; yields each run's record, by id, at the end of each cycle."""
    while True:
        if not stack.ended:
            train_(stack, pulse)
            end_(stack)
        yield {
            id: rows[-1] for id, rows in zip(stack.ids, stack.history, strict=True) if rows[-1]["cycle"] == stack.cycle
        }
        if stack.last_cycle or not stack.engine.finite.any():
            return
        advance_(stack)


def train_(stack: Stack, pulse: Pulse) -> None:
    """The rest of this cycle's steps."""
    engine, lrs = stack.engine, rates(stack)
    snapshot = stack.run.pruning.rewind.make().snapshot if stack.cycle == 0 else None
    while stack.step < stack.steps:
        stop = next_stop(stack, snapshot)
        engine.steps_(stack.cycle, stack.step, lrs[:, stack.step : stop], stack.now)
        stack.step = stop
        if stack.step == snapshot:
            stack.kept = engine.weights()
        if stack.step % stack.run.evaluations_of(stack.cycle) == 0 or stack.step == stack.steps:
            evaluate_(stack)
        pulse(stack)
        if not engine.finite.any():
            return


def next_stop(stack: Stack, snapshot: int | None) -> int:
    """The step after which something happens, or at which somebody wants to look."""
    step, every = stack.step, stack.run.evaluations_of(stack.cycle)
    stops = [stack.steps, step - step % every + every, step + (1 if stack.watched else stack.engine.pace)]
    return min([*stops, snapshot] if snapshot is not None and snapshot > step else stops)


def rates(stack: Stack) -> Tensor:  # (runs, steps) float64
    """Every learning rate of the cycle."""
    peaks = [stack.peak(k) for k in range(len(stack.runs))]
    factors = torch.stack([factors_of(run, stack.cycle) for run in stack.runs])
    return torch.tensor(peaks, dtype=torch.float64)[:, None] * factors


def factors_of(run: Run, cycle: int) -> Tensor:  # (steps,) float64
    """By what the peak is multiplied at every step of a cycle; the run has its scale applied."""
    shape, first = run.shape_of(cycle)
    return factor_table(shape, first, first + run.steps_of(cycle))


@cache
def factor_table(shape: Part, first: int, end: int) -> Tensor:  # (steps,) float64
    factor = shape.make()
    return torch.tensor([factor(step) for step in range(first, end)], dtype=torch.float64)


def evaluate_(stack: Stack) -> None:
    """One point of the validation curve; where it is the lowest yet, the weights are kept for the report."""
    now, engine = stack.now, stack.engine
    loss, accuracy = (values.cpu() for values in engine.evaluate("validation"))
    engine.finite &= torch.isfinite(loss).to(engine.finite.device)
    tally.strike_(now, engine.finite.cpu(), stack.step)
    since = stack.step - (stack.curve[-1]["step"] if stack.curve else 0)
    train_loss = (now["train_loss"] / since).tolist()
    entry = {"step": stack.step, "loss": loss.tolist(), "accuracy": accuracy.tolist(), "train_loss": train_loss}
    stack.curve.append({name: finite_or_none(values) for name, values in entry.items()})
    now["train_loss"] = torch.zeros_like(now["train_loss"])
    better = (loss < now["best_loss"]) & engine.finite.cpu()
    if not stack.best:
        stack.best = engine.weights()
    elif better.any():
        rows = better.to(stack.feed.device)
        stack.best = {name: chosen(rows, new, stack.best[name]) for name, new in engine.weights().items()}
    now["best_loss"] = torch.where(better, loss, now["best_loss"])
    now["best_accuracy"] = torch.where(better, accuracy, now["best_accuracy"])
    now["best_step"] = now["best_step"].masked_fill(better, stack.step)


def chosen(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)


def finite_or_none(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, list):
        return [finite_or_none(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def end_(stack: Stack) -> None:
    """Touch the test set, for the early stop and for the last step, and make the records."""
    early = stack.engine.evaluate("test", stack.best or None)
    last = stack.engine.evaluate("test")
    for rows, record in zip(stack.history, list(records(stack, early, last)), strict=True):
        if not (rows and "diverged" in rows[-1]):
            rows.append(record)
    stack.ended, stack.best, stack.curve = True, {}, []


def records(stack: Stack, early: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor]) -> Iterator[Record]:
    """What the configuration determines of this cycle, run by run."""
    names, every = mask.prunable(stack.net), mask.weights(stack.net)
    exempt = sum(stack.net.get_parameter(name).numel() for name in every if name not in names)
    state, peaks = states(stack), [float(lr) for lr in rates(stack).amax(1)]
    for k in range(len(stack.runs)):
        kept = {name: int(stack.masks[name][k].sum()) for name in names}
        sizes = {name: stack.masks[name][k].numel() for name in names}
        record: Record = {
            "cycle": stack.cycle,
            "peak": stack.peak(k),
            "highest_lr": peaks[k],
            "density": sum(kept.values()) / sum(sizes.values()),
            "density_all": (sum(kept.values()) + exempt) / (sum(sizes.values()) + exempt),
            "layers": {name: kept[name] / sizes[name] for name in names},
            "guarded": bool(stack.now["guarded"][k]),
            "steps": stack.steps,
            **{name: prune.number(values[k]) for name, values in stack.begun.items()},
            "state": state[k],
        }
        yield {name: finite_or_none(value) for name, value in (record | outcome(stack, k, early, last)).items()}


def outcome(stack: Stack, k: int, early: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor]) -> Record:
    """What one run reached in this cycle; of a diverged one, the step in which it did."""
    now, curve = stack.now, stack.curve
    if now["diverged"][k] >= 0 or not stack.engine.finite[k]:
        return {"diverged": max(int(now["diverged"][k]), 0)}
    return {
        "step": int(now["best_step"][k]),
        "validation_loss": float(now["best_loss"][k]),
        "validation_accuracy": float(now["best_accuracy"][k]),
        "test_loss": float(early[0][k]),
        "test_accuracy": float(early[1][k]),
        "last_validation_loss": curve[-1]["loss"][k],
        "last_validation_accuracy": curve[-1]["accuracy"][k],
        "last_test_loss": float(last[0][k]),
        "last_test_accuracy": float(last[1][k]),
        "curve_step": [entry["step"] for entry in curve],
        "curve_train_loss": [entry["train_loss"][k] for entry in curve],
        "curve_validation_loss": [entry["loss"][k] for entry in curve],
        "curve_validation_accuracy": [entry["accuracy"][k] for entry in curve],
    }


def run_state(stack: Stack, k: int) -> dict[str, Tensor]:
    """One run's last weights under the network's own names, and its masks beside them."""
    weights = {name: tensor[k] for name, tensor in stack.engine.weights().items()}
    return {**weights, **{f"mask/{name}": tensor[k] for name, tensor in stack.masks.items()}}


def states(stack: Stack) -> list[str]:
    """Sha256 of what `run_state` gives as a file: records prove the weights too."""
    return [stored.encode(run_state(stack, k), {"run": id}).sha256() for k, id in enumerate(stack.ids)]


def advance_(stack: Stack) -> None:
    """Prune, rewind, and begin the next cycle."""
    pruning, engine = stack.run.pruning, stack.engine
    stack.cycle, stack.step, stack.ended, stack.now = stack.cycle + 1, 0, False, fresh_counters(len(stack.runs))
    trained = engine.weights()
    scores = scored(stack, trained)
    finite = engine.finite  # a run that is not stays as it is
    couplings = mask.coupled(stack.net) if pruning.unit.name == "filter" else {}
    made, guarded = prune.pruned(
        scores,
        stack.masks,
        scope=pruning.scope.entry,
        unit=pruning.unit.entry,
        amount=pruning.amount,
        coupled=couplings,
    )
    before, stack.masks = stack.masks, {name: chosen(finite, new, stack.masks[name]) for name, new in made.items()}
    taken = prune.removed({name: trained[name] for name in scores}, before, stack.masks)
    stack.now |= {"guarded": guarded.cpu(), **{name: values.cpu() for name, values in taken.items()}}
    fresh = lambda: drawn(stack.runs, stack.feed, "reinit", stack.cycle)  # noqa: E731
    rewound = pruning.rewind.make()(stack.kept, trained, fresh)
    engine.begin_({name: chosen(finite, rewound[name].to(t), t) for name, t in trained.items()}, stack.masks)


class Lazy(Mapping[str, Tensor]):
    """Tensors made when first asked for: most scores need no gradients."""

    def __init__(self, make: Callable[[], Tensors]) -> None:
        self.make = make

    @cached_property
    def made(self) -> Tensors:
        return self.make()

    def row(self, k: int) -> "Lazy":
        """The k-th run's."""
        return Lazy(lambda: {name: tensor[k] for name, tensor in self.items()})

    def __getitem__(self, name: str) -> Tensor:
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)


def scored(stack: Stack, weights: Tensors) -> dict[str, Tensor]:  # each (runs, ...)
    """Every run's scores, from its own generator; those of a run that is not finite any more are zero."""
    names = mask.prunable(stack.net)
    grads = Lazy(lambda: stack.engine.gradients(stack.cycle, stack.run.pruning.score_batches))
    rows = [
        run.pruning.score.entry(
            {name: weights[name][k] for name in names},
            grads.row(k),
            generator("score", run.seed, stack.cycle),
        )
        for k, run in enumerate(stack.runs)
    ]
    scores = {name: torch.stack([row[name] for row in rows]) for name in names}
    sound = torch.stack([~torch.isnan(score.flatten(1)).any(1) for score in scores.values()]).all(0)
    stack.engine.finite &= sound
    return {name: score.nan_to_num(0.0, posinf=torch.inf) for name, score in scores.items()}
