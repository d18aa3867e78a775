"""Which engine trains a network: the stack where it can, one run at a time where it cannot, and why."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from examples import SMALL, digit_images, finished, small, stack_of
from scyc.data.feed import Feed
from scyc.registry import UnknownName
from scyc.run import Run, run_from
from scyc.train import engine_for


class Own(nn.Module):
    """A user's own network: one hidden layer, and whatever a subclass does in between."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(shape[1] * shape[2], 8), nn.Linear(8, classes)

    def between(self, x: Tensor) -> Tensor:
        return x.relu()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.between(self.first(x.flatten(1))))
        return y


class Branching(Own):
    def between(self, x: Tensor) -> Tensor:
        return x.relu() if x.mean().item() < 1e9 else -x  # a number out of a tensor: vmap has none to give


class Remembering(Own):
    """Gives something else at every call: what a rehearsal compares cannot agree."""

    calls = 0

    def between(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.relu() * self.calls


class Noisy(Own):
    def between(self, x: Tensor) -> Tensor:
        return x.relu() + torch.rand_like(x) if self.training else x.relu()


def own(name: str, **changes: Any) -> Run:
    return run_from({**SMALL, "model": f"{__name__}:{name}", **changes}, trust=True)


def test_auto_stacks_what_can_be_stacked() -> None:
    stack = stack_of([own("Own"), own("Own", seed=1)], engine="auto")
    assert (stack.engine.name, stack.why_single) == ("stacked", "")


@pytest.mark.parametrize(
    ("name", "why"),
    [("Branching", ".item()"), ("Remembering", "its loss in a stack is"), ("Noisy", "random")],
)
def test_auto_trains_one_run_at_a_time_what_vmap_cannot_take_and_says_why(name: str, why: str) -> None:
    stack = stack_of([own(name), own(name, seed=1)], engine="auto")
    assert stack.engine.name == "single"
    assert why in stack.why_single
    assert "\n" not in stack.why_single
    records = finished(stack)
    assert [len(rows) for rows in records] == [3, 3]
    assert records[0][-1]["density"] == pytest.approx(0.64, abs=1e-3)


@pytest.mark.parametrize("name", ["Branching", "Remembering", "Noisy"])
def test_who_insists_on_a_stack_is_told_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match=r"this network cannot be stacked \(.+\); use --engine single") as error:
        stack_of([own(name)], engine="stacked")
    assert "\n" not in str(error.value)


def test_single_is_single_where_it_is_asked_for() -> None:
    stack = stack_of([own("Own")], engine="single")
    assert (stack.engine.name, stack.why_single) == ("single", "")


def test_a_network_that_branches_trains_as_the_one_that_does_not() -> None:
    branching, plain = (stack_of([own(name)], engine="single") for name in ("Branching", "Own"))
    finished(branching)
    finished(plain)
    assert branching.history == plain.history


def test_an_unknown_engine_meets_the_nearest() -> None:
    feed = Feed(digit_images(), [0], batch=8, limit=50)
    with pytest.raises(UnknownName, match="unknown engine 'stakced'; did you mean 'stacked'"):
        engine_for("stakced", nn.Linear(64, 10), small().optimizer, feed, "float32")


# What cannot be trained at all


class NoWeights(nn.Module):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()


def no_module(shape: tuple[int, int, int], classes: int) -> str:
    return "network"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NoWeights", "has no prunable convolution or linear weight"),
        ("no_module", "returned str, not a torch.nn.Module"),
    ],
)
def test_a_model_that_is_no_network_is_said(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        stack_of([own(name)])
    assert f"{__name__}:{name}" in str(error.value)


@pytest.mark.parametrize("engine", ["auto", "single"])
def test_filters_of_a_network_without_convolutions_are_said_before_training(engine: str) -> None:
    with pytest.raises(ValueError, match="unit 'filter' finds nothing to prune"):
        stack_of([own("Own", pruning={"unit": "filter"})], engine=engine)
