"""On the CPU a stack of convolutions can be slower than its runs one by one: `auto` times both."""

import pytest
import torch
from torch import Tensor

from examples import colour, finished, small, stack_of
from scyc.run import Run
from scyc.stack import head
from scyc.train import engine
from scyc.train.precision import repeating

TINY = {"name": "resnet20", "width": 0.125}


def conv_runs(count: int, **changes: object) -> list[Run]:
    return [small(model=TINY, data="cifar10", cycles=1, seed=seed, **changes) for seed in range(count)]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds that either engine is said to take."""
    seconds = {"stacked": 1.0, "single": 1.0}
    monkeypatch.setattr(engine, "step_seconds", lambda found, net: seconds[found.name])
    return seconds


def test_the_faster_one_trains_and_both_times_are_said(timed: dict[str, float]) -> None:
    timed["single"] = 0.25
    stack = stack_of(conv_runs(3), colour(), engine="auto")
    assert stack.engine.name == "single"
    assert stack.why_single == "a step of 2 runs takes 1 s of the CPU stacked, 0.25 s one by one"
    assert head(stack)["engine"] == "single"
    assert head(stack)["why_single"] == stack.why_single


@pytest.mark.parametrize("single", [0.95, 1.0, 2.0])
def test_a_stack_stays_one_unless_it_is_clearly_slower(timed: dict[str, float], single: float) -> None:
    timed["single"] = single
    stack = stack_of(conv_runs(2), colour(), engine="auto")
    assert (stack.engine.name, stack.why_single) == ("stacked", "")


@pytest.mark.parametrize("name", ["stacked", "single"])
def test_who_names_an_engine_gets_it_untimed(timed: dict[str, float], name: str) -> None:
    timed.clear()  # a look at it would raise
    stack = stack_of(conv_runs(2), colour(), engine=name)
    assert (stack.engine.name, stack.why_single) == (name, "")


def test_networks_without_convolutions_are_not_timed(timed: dict[str, float]) -> None:
    timed.clear()
    assert stack_of([small(), small(seed=1)], engine="auto").engine.name == "stacked"


def test_one_run_with_convolutions_is_no_stack(timed: dict[str, float]) -> None:
    timed.clear()
    stack = stack_of(conv_runs(1), colour(), engine="auto")
    assert (stack.engine.name, stack.why_single) == ("single", "a single run with convolutions on the CPU")


def test_bits_that_repeat_do_not_hang_on_the_clock(timed: dict[str, float]) -> None:
    timed.clear()
    with repeating(True):
        stack = stack_of(conv_runs(2), colour(), engine="auto")
    assert (stack.engine.name, stack.why_single) == ("single", "convolutions on the CPU")


def test_timing_leaves_no_trace() -> None:
    """Whatever was timed, the run that trains is the one that would have trained untimed."""
    chosen = stack_of(conv_runs(2), colour(), engine="auto")
    named = stack_of(conv_runs(2), colour(), engine=chosen.engine.name)
    assert finished(chosen) == finished(named)


def test_two_steps_of_each_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 10.0, 13.0])
    monkeypatch.setattr(engine.time, "process_time", lambda: next(clock))
    stepped: list[tuple[int, int, list[float]]] = []

    class Stepping:
        def begin_(self, weights: dict[str, Tensor], masks: dict[str, Tensor]) -> None:
            assert {len(tensor) for tensor in weights.values()} == {2}

        def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
            stepped.append((cycle, step, lrs.tolist()))

    assert engine.step_seconds(Stepping(), torch.nn.Linear(2, 2)) == 3.0  # type: ignore[arg-type]
    assert stepped == [(0, 0, [0.0, 0.0]), (0, 1, [0.0, 0.0])]
