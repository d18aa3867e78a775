"""NaN and infinity in the loss or in one gradient, and exploding rates: one run stops in that step, no other does."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import finished, small, stack_of
from scyc.config import Part
from scyc.run import SHAPE, Run
from scyc.stack import Stack

ENGINES = ("stacked", "single")
OPTIMIZERS: dict[str, Any] = {"sgd": {"name": "sgd", "momentum": 0.9}, "adam": "adam"}
WHEN = (1, 2)  # the cycle, and the steps taken in it before the fault
SICK = 1  # the run it happens to, of three
FAULTS = {
    "loss NaN": math.nan,
    "loss infinite": math.inf,
    "gradient NaN": math.nan,
    "gradient infinite": -math.inf,
    "pruned gradient NaN": math.nan,
}


@dataclass(frozen=True)
class Spike:
    """A shape with one factor that explodes, in every cycle but the first."""

    height: float

    def __call__(self, step: int) -> float:
        return self.height if step == WHEN[1] else 1.0


def runs_of(optimizer: str) -> list[Run]:
    lr = 0.03 if optimizer == "sgd" else 0.003
    return [
        small(seed=k, peak={"name": "fixed", "lr": lr}, optimizer=OPTIMIZERS[optimizer], precision="float32")
        for k in range(3)
    ]


def spoiled_(stack: Stack, fault: str) -> None:
    """Let the fault happen to one run in one step: in what its network gives, or in one number of its gradient."""
    value, engine = FAULTS[fault], stack.engine
    now = lambda: (stack.cycle, stack.step) == WHEN  # noqa: E731
    if engine.name == "single":
        spoil_network_(stack, fault, value, now)
        return
    plain = engine.loss_and_grads

    def spoiling(buffers: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        losses, grads = plain(buffers, x, y)
        if now() and len(losses) == 3:
            if fault.startswith("loss"):
                losses[SICK] = value
            else:
                grads[SICK, place(stack, fault)] = value
        return losses, grads

    engine.loss_and_grads = spoiling


def place(stack: Stack, fault: str) -> int:
    """The first weight of the first layer that is left, or that is pruned."""
    left = stack.masks["fc1.weight"][SICK].flatten()
    return int(left.logical_not().nonzero()[0] if fault.startswith("pruned") else left.nonzero()[0])


def spoil_network_(stack: Stack, fault: str, value: float, now: Callable[[], bool]) -> None:
    net = stack.engine.nets[SICK]
    if fault.startswith("loss"):
        net.register_forward_hook(lambda module, x, out: out * value if now() and module.training else out)
        return

    def spoiling(grad: Tensor) -> Tensor:
        grad = grad.clone()
        if now():
            grad.view(-1)[place(stack, fault)] = value
        return grad

    net.get_parameter("fc1.weight").register_hook(spoiling)


def followed(stack: Stack) -> dict[tuple[int, int], dict[str, Tensor]]:
    """Train to the end; the weights after every step, by (cycle, steps taken)."""
    seen: dict[tuple[int, int], dict[str, Tensor]] = {}
    finished(stack, lambda made: seen.update({(made.cycle, made.step): made.engine.weights()}))
    return seen


def assert_stopped(stack: Stack, sane: Stack, seen: Any, expected: Any) -> None:
    """The sick run has what it had before the step, and says which it was; the others are as they are without it."""
    sick = stack.history[SICK][-1]
    assert (sick["cycle"], sick["diverged"]) == (WHEN[0], WHEN[1] + 1)
    assert "test_accuracy" not in sick
    for name, value in stack.engine.weights().items():
        assert torch.equal(value[SICK], expected[WHEN][name][SICK])
        assert torch.isfinite(value[SICK]).all()
    for k in (0, 2):
        assert stack.history[k] == sane.history[k]  # with the hashes of the weights
        assert len(stack.history[k]) == 3
        for when, weights in seen.items():
            assert all(torch.equal(value[k], expected[when][name][k]) for name, value in weights.items())


@pytest.mark.torture
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_stops_in_the_step_that_is_not_finite(engine: str, optimizer: str, fault: str) -> None:
    sane, sick = (stack_of(runs_of(optimizer), engine=engine) for _ in range(2))
    spoiled_(sick, fault)
    expected, seen = followed(sane), followed(sick)
    assert_stopped(sick, sane, seen, expected)


@pytest.mark.torture
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("height", [1e45, math.inf])
def test_a_run_stops_in_the_step_whose_rate_explodes(engine: str, optimizer: str, height: float) -> None:
    runs = runs_of(optimizer)
    sane = stack_of(runs, engine=engine)
    expected = followed(sane)
    spiked = Part("spike", {"height": height}, Spike, SHAPE)
    wild = [runs[0], type(runs[0])(**{**vars(runs[SICK]), "shape": spiked}), runs[2]]
    sick = stack_of(wild, engine=engine)
    seen = followed(sick)
    diverged = sick.history[SICK][-1]
    assert (diverged["cycle"], diverged["diverged"]) == (0, WHEN[1] + 1)
    for name, value in sick.engine.weights().items():
        assert torch.equal(value[SICK], expected[0, WHEN[1]][name][SICK])
    for k in (0, 2):
        assert sick.history[k] == sane.history[k]
        assert all(
            torch.equal(value[k], expected[when][n][k]) for when, named in seen.items() for n, value in named.items()
        )
