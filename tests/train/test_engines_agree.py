"""One engine checks the other: `stacked` and `single` in float64, over several cycles of every method."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import TINY_RESNET, colour, each, finished, small, stack_of
from scyc import mask
from scyc.run import Run
from scyc.stack import Stack

ENGINES = ("stacked", "single")
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "momentum": {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-4},
    "nesterov": {"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
    "sgd": {"name": "sgd"},
    "adam": {"name": "adam", "weight_decay": 1e-4},
    "rmsprop": {"name": "rmsprop", "momentum": 0.5, "weight_decay": 1e-4},
}
RATES = {"momentum": 0.05, "nesterov": 0.05, "sgd": 0.3, "adam": 3e-3, "rmsprop": 1e-3}


def pair(runs: Sequence[Run], **options: Any) -> tuple[Stack, Stack]:
    """The same runs, trained to the end by either engine."""
    stacked, single = (stack_of(runs, engine=engine, **options) for engine in ENGINES)
    for stack in (stacked, single):
        finished(stack)
    assert (stacked.engine.name, single.engine.name) == ENGINES
    return stacked, single


def runs_of(optimizer: str, **changes: Any) -> list[Run]:
    """Two seeds, one with a constant schedule, one whose rates rise over cycles and steps."""
    common = {"optimizer": OPTIMIZERS[optimizer], "cycles": 4, **changes}
    peak = RATES[optimizer]
    rising = {
        "peak": {"name": "scyc", "eps": peak / 2, "delta": peak, "q": 0.0, "beta": 3.0},
        "shape": {"name": "warmup", "ramp": 3, "drops": [5]},
    }
    constant = {"peak": {"name": "fixed", "lr": peak}, "shape": "constant"}
    return [small(**common, **rising, seed=0), small(**common, **constant, seed=1)]


def assert_near(one: Any, other: Any, tolerance: float, place: str = "") -> None:
    """Floats within the tolerance, everything else equal."""
    if isinstance(one, Mapping):
        assert one.keys() == other.keys(), place
        for key in one:
            assert_near(one[key], other[key], tolerance, f"{place}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_near(a, b, tolerance, f"{place}.{i}")
    elif isinstance(one, float):
        assert abs(one - other) <= tolerance * max(1.0, abs(other)), f"{place}: {one} and {other}"
    else:
        assert one == other, place


def comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without the hash of its weights, which the last bit changes."""
    return {name: value for name, value in record.items() if name != "state"}


def assert_agree(stacked: Stack, single: Stack, tolerance: float = 1e-10) -> None:
    masks = (stacked.masks, single.masks)
    assert masks[0].keys() == masks[1].keys()
    assert all(torch.equal(masks[0][name], masks[1][name]) for name in masks[0])
    assert_near(each(stacked.history, comparable), each(single.history, comparable), tolerance)


def assert_weights_agree(stacked: Stack, single: Stack, tolerance: float = 1e-10) -> None:
    one, other = stacked.engine.weights(), single.engine.weights()
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=tolerance, atol=tolerance, msg=name)


def trained(stack: Stack) -> None:
    """What was compared was worth comparing: weights moved, were pruned, and differ from run to run."""
    first = next(iter(mask.prunable(stack.net)))
    weights = stack.engine.weights()[first]
    assert len({str(row.tolist()) for row in weights}) == len(weights)
    assert all(rows[-1]["density"] < 0.6 for rows in stack.history)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mlp(optimizer: str) -> None:
    stacked, single = pair(runs_of(optimizer))
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)
    trained(stacked)


@pytest.mark.parametrize("optimizer", ["momentum", "adam", "rmsprop"])
def test_narrow_resnet20_with_batch_norm(optimizer: str) -> None:
    runs = runs_of(optimizer, model=TINY_RESNET, steps=3, cycles=3, eval_every=3)
    stacked, single = pair(runs, dataset=colour())
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)
    assert {t.dtype for t in stacked.engine.weights().values()} == {torch.float64, torch.int64}  # batches are counted


def test_mlp_with_batch_norm() -> None:
    stacked, single = pair(runs_of("momentum", model={"name": "mlp", "widths": [8, 6], "bn": True}))
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_mlp_with_batch_norm_under_adam_by_its_training_losses(optimizer: str) -> None:
    """A bias before BatchNorm has a gradient that is zero up to rounding, and these optimizers divide it by its own
    size: its course is arbitrary, and with it what evaluation mode sees. Training mode subtracts it again."""
    stacked, single = pair(runs_of(optimizer, model={"name": "mlp", "widths": [8, 6], "bn": True}))
    losses = [each(stack.history, lambda record: record["curve_train_loss"]) for stack in (stacked, single)]
    assert_near(losses[0], losses[1], 1e-8)
    assert all(torch.equal(stacked.masks[name], single.masks[name]) for name in stacked.masks)
    for name, one in stacked.engine.weights().items():
        if name.endswith("weight"):
            torch.testing.assert_close(one, single.engine.weights()[name], rtol=0, atol=1e-8, msg=name)


@pytest.mark.parametrize("activation", ["gelu", "prelu"])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_narrow_vit(optimizer: str, activation: str) -> None:
    model = {"name": "vit", "width": 0.05, "depth": 2, "dropout": 0.1, "activation": activation}
    stacked, single = pair(runs_of(optimizer, model=model, pruning={"amount": 0.3}))
    assert_agree(stacked, single, 1e-9)
    one, other = stacked.engine.weights(), single.engine.weights()
    for name in one:
        if not name.endswith("key.bias"):  # softmax takes it out again: its gradient is zero up to rounding
            torch.testing.assert_close(one[name], other[name], rtol=1e-8, atol=1e-8, msg=name)
    assert not stacked.masks["block1.attention.attend.query.weight"].all()


METHODS: dict[str, dict[str, Any]] = {
    "layer gradient": {"score": "gradient", "scope": "layer", "score_batches": 3},
    "gradient of all": {"score": "gradient", "score_batches": "all", "amount": 0.5},
    "random, drawn anew": {"score": "random", "rewind": "reinit"},
    "imp": {"rewind": "init"},
    "rewind to a step": {"rewind": {"name": "step", "k": 4}, "scope": "layer"},
    "guarded": {"amount": 0.97},
}


@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str) -> None:
    stacked, single = pair(runs_of("momentum", pruning={"amount": 0.3, **METHODS[method]}))
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)
    assert any(each(stacked.history, lambda record: record["guarded"])) == (method == "guarded")


@pytest.mark.parametrize("score", ["magnitude", "gradient"])
def test_filters(score: str) -> None:
    pruning = {"unit": "filter", "scope": "layer", "score": score, "amount": 0.5}
    runs = runs_of("momentum", model=TINY_RESNET, steps=3, cycles=3, eval_every=3, pruning=pruning)
    stacked, single = pair(runs, dataset=colour())
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)
    assert {"stem.bn.weight", "stem.bn.bias"} <= stacked.masks.keys()
    assert not all(m.all() for name, m in stacked.masks.items() if name.endswith("bn1.bias"))


def test_dropout_is_drawn_alike() -> None:
    model = {"name": "mlp", "widths": [20, 12], "dropout": 0.4}
    stacked, single = pair(runs_of("momentum", model=model))
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)
    without, _ = pair(runs_of("momentum", model={"name": "mlp", "widths": [20, 12]}))
    assert without.history[0][0]["curve_train_loss"] != stacked.history[0][0]["curve_train_loss"]


def test_augmentation_is_drawn_alike() -> None:
    data = {"name": "digits", "augment": True}
    stacked, single = pair(runs_of("momentum", data=data), dataset=colour())
    assert_agree(stacked, single)
    assert_weights_agree(stacked, single)


def positive_zero(weights: Tensor) -> bool:
    return not weights.view(torch.int64).any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimizer", ["nesterov", "adam", "rmsprop"])
def test_pruned_weights_are_positive_zero_after_every_step(engine: str, optimizer: str) -> None:
    looked = []

    def look(stack: Stack) -> None:
        weights = stack.engine.weights()
        pruned = [weights[name][~m] for name, m in stack.masks.items()]
        assert all(positive_zero(values) for values in pruned)
        looked.append(sum(map(len, pruned)))

    stack = stack_of(runs_of(optimizer), engine=engine)
    finished(stack, look)
    assert looked[:6] == [0] * 6
    assert len(set(looked)) == 4  # more of them in every cycle
    assert len(looked) == 4 * 6


def test_engines_measure_the_same_gradients() -> None:
    stacked, single = (stack_of([small(seed=0), small(seed=3)], engine=engine) for engine in ENGINES)
    for batches in (2, "all"):
        one, other = (stack.engine.gradients(1, batches) for stack in (stacked, single))
        assert list(one) == list(other)
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-10, atol=1e-12)
        assert one["fc.weight"].any()
