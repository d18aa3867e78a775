"""A run against the loop a user would write: torch.optim, masks attached, a torch scheduler; no engine, no stack."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from examples import TINY_RESNET, colour, finished, small, stack_of
from scyc import draw, mask, prune
from scyc.data import Dataset
from scyc.data.feed import Feed
from scyc.lr import ScheduleLR
from scyc.run import Run

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=1.0, weight_decay=1e-4),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1.0, weight_decay=1e-4),
}
FIELDS = {
    "sgd": {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-4},
    "adam": {"name": "adam", "weight_decay": 1e-4},
    "rmsprop": {"name": "rmsprop", "weight_decay": 1e-4},
}
PEAKS = {"sgd": 0.05, "adam": 3e-3, "rmsprop": 1e-3}


def measured(net: nn.Module, feed: Feed, part: str) -> tuple[float, float]:
    """Mean loss and accuracy over all images at once."""
    with torch.no_grad():
        x, y = (torch.cat(pieces, 1)[0] for pieces in zip(*feed.rows(part), strict=True))
        logits = net.eval()(x)
    return float(cross_entropy(logits, y)), float((logits.argmax(1) == y).double().mean())


def cycle_of(net: nn.Module, run: Run, feed: Feed, cycle: int, masks: mask.Masks) -> dict[str, Any]:
    """One training, and what its record should say."""
    optimizer = OPTIMIZERS[run.optimizer.name](net.parameters())
    scheduler = ScheduleLR(optimizer, run.schedule, cycle=cycle, amount=run.pruning.amount)
    mask.attach_(optimizer, net, masks)
    best: dict[str, Any] = {"loss": float("inf")}
    losses: list[float] = []
    rates, curve = [], []
    for step in range(run.steps):
        x, y = (tensor[0] for tensor in feed.train(cycle, step))
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = cross_entropy(net.train()(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if (step + 1) % run.evaluations_of(0) == 0 or step + 1 == run.steps:
            validation, accuracy = measured(net, feed, "validation")
            curve.append((step + 1, validation, accuracy, sum(losses) / len(losses)))
            losses.clear()
            if validation < best["loss"]:
                best = {"loss": validation, "step": step + 1, "accuracy": accuracy}
                best["test"] = measured(net, feed, "test")
    last = measured(net, feed, "test")
    return {
        "cycle": cycle,
        "highest_lr": max(rates),
        "step": best["step"],
        "validation_loss": best["loss"],
        "validation_accuracy": best["accuracy"],
        "test_loss": best["test"][0],
        "test_accuracy": best["test"][1],
        "last_validation_loss": curve[-1][1],
        "last_validation_accuracy": curve[-1][2],
        "last_test_loss": last[0],
        "last_test_accuracy": last[1],
        "density": mask.density(masks),
        "curve_step": [point[0] for point in curve],
        "curve_validation_loss": [point[1] for point in curve],
        "curve_validation_accuracy": [point[2] for point in curve],
        "curve_train_loss": [point[3] for point in curve],
    }


def by_hand(run: Run, dataset: Dataset) -> Iterator[tuple[dict[str, Any], dict[str, Tensor], mask.Masks]]:
    """Cycle after cycle: the record, the last weights, the masks."""
    feed = Feed(dataset, [run.seed], batch=run.batch, augment=run.data.augment, dtype=torch.float64)
    with draw.seeded("init", run.seed, 0):
        net = run.model.make(feed.shape, feed.classes)
    net.to(torch.float64)
    initial = {name: value.clone() for name, value in net.state_dict().items()}
    masks = mask.ones_like(net)
    for cycle in range(run.cycles):
        if cycle:
            scoring = ((x[0], y[0]) for x, y in feed.scoring(cycle, run.pruning.score_batches))
            grads = prune.gradients(net, scoring, cross_entropy)
            score, scope, amount = run.pruning.score.name, run.pruning.scope.name, run.pruning.amount
            masks = prune.step(net, masks, score=score, scope=scope, amount=amount, grads=grads)
            if run.pruning.rewind.name == "init":
                net.load_state_dict(initial)
        yield cycle_of(net, run, feed, cycle, masks), net.state_dict(), masks


CASES: dict[str, dict[str, Any]] = {
    "global magnitude": {},
    "layer gradient": {"pruning": {"score": "gradient", "scope": "layer", "amount": 0.3, "score_batches": 2}},
    "imp": {"pruning": {"rewind": "init", "amount": 0.4}},
    "adam": {"optimizer": FIELDS["adam"]},
    "rmsprop": {"optimizer": FIELDS["rmsprop"]},
    "resnet20": {"model": TINY_RESNET, "data": {"name": "digits", "augment": True}, "cycles": 2},
}


@pytest.mark.parametrize("engine", ["stacked", "single"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_what_the_plain_loop_gives(case: str, engine: str) -> None:
    optimizer = {"adam": "adam", "rmsprop": "rmsprop"}.get(case, "sgd")
    peak = {"name": "scyc", "eps": PEAKS[optimizer], "delta": PEAKS[optimizer], "q": 0.0, "beta": 3.0}
    shape = {"name": "warmup", "ramp": 3, "drops": [5]}
    run = small(**{"seed": 4, "peak": peak, "shape": shape, "optimizer": FIELDS["sgd"], **CASES[case]})
    dataset = colour()
    stack = stack_of([run, replace(run, seed=5)], dataset, engine)
    records = finished(stack)[0]
    assert len(records) == run.cycles
    cycles = list(by_hand(run, dataset))
    for record, (expected, _, _) in zip(records, cycles, strict=True):
        assert {name: record[name] for name in expected} == {
            name: value if isinstance(value, int) else pytest.approx(value, rel=1e-10, abs=1e-10)
            for name, value in expected.items()
        }
        assert record["peak"] == run.schedule.peak(record["cycle"], run.pruning.amount)
    _, weights, masks = cycles[-1]
    assert all(torch.equal(stack.masks[name][0], m) for name, m in masks.items())
    for name, value in stack.engine.weights().items():
        torch.testing.assert_close(value[0], weights[name], rtol=1e-10, atol=1e-10, msg=name)
