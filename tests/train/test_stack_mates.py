"""A run does not depend on who trains beside it."""

from typing import Any

import pytest
import torch
from test_engines_agree import assert_near, comparable

from examples import colour, each, finished, nothing, small, stack_of
from scyc.cycle import cycles
from scyc.stack import Record, Stack

CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam": {"optimizer": "adam"},
    "dropout, batch norm, augmentation": {
        "model": {"name": "mlp", "widths": [9], "bn": True, "dropout": 0.3},
        "data": {"name": "digits", "augment": True},
    },
    "random": {"pruning": {"score": "random", "rewind": "reinit"}},
    "gradient": {"pruning": {"score": "gradient", "scope": "layer"}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_alone_is_the_run_among_five(case: str) -> None:
    rates = {3: 0.02, 0: 0.005, 7: 0.01, 9: 0.001, 1: 0.003}
    runs = [small(seed=seed, peak={"name": "fixed", "lr": lr}, **CASES[case]) for seed, lr in rates.items()]
    together = stack_of(runs, colour())
    finished(together)
    for k in (0, 2):
        alone = stack_of([runs[k]], colour())
        finished(alone)
        assert_near(each([together.history[k]], comparable), each(alone.history, comparable), 1e-12)
        assert all(torch.equal(alone.masks[name][0], m[k]) for name, m in together.masks.items())
        for name, value in alone.engine.weights().items():
            torch.testing.assert_close(value[0], together.engine.weights()[name][k], rtol=1e-12, atol=1e-12, msg=name)


def test_runs_that_differ_in_nothing_are_equal_bit_by_bit() -> None:
    """Three times the same run beside another one: rows of a stack do not touch each other."""
    runs = [small(), small(seed=5), small(), small()]
    stack = stack_of(runs)
    finished(stack)
    for value in stack.engine.weights().values():
        assert torch.equal(value[0], value[2])
        assert torch.equal(value[0], value[3])
    assert comparable(stack.history[0][-1]) == comparable(stack.history[3][-1])


# Divergence

WILD = {"name": "fixed", "lr": 1e30}
TAME = {"name": "fixed", "lr": 0.03}


def trained(engine: str, *peaks: dict[str, Any], **changes: Any) -> Stack:
    runs = [small(seed=k, peak=peak, precision="float32", **changes) for k, peak in enumerate(peaks)]
    return stack_of(runs, engine=engine)


@pytest.mark.parametrize("engine", ["stacked", "single"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_run_that_diverges_is_frozen_and_touches_nobody(engine: str, optimizer: str) -> None:
    with_wild = trained(engine, TAME, WILD, TAME, optimizer=optimizer)
    seen: list[torch.Tensor] = []
    records = finished(with_wild, lambda stack: seen.append(stack.engine.finite.clone()))
    step = records[1][0]["diverged"]
    assert len(records[1]) == 1  # nothing of later cycles
    assert 1 <= step < 6
    assert [bool(finite[1]) for finite in seen[:6]] == [k < step - 1 for k in range(6)]
    assert "test_loss" not in records[1][0]
    assert not with_wild.engine.finite[1]
    assert all(torch.isfinite(value[1]).all() for value in with_wild.engine.weights().values())
    all_tame = trained(engine, TAME, TAME, TAME, optimizer=optimizer)
    finished(all_tame)
    for k in (0, 2):
        assert len(records[k]) == 3
        assert records[k] == all_tame.history[k]  # the hashes of the weights too
        for name, value in with_wild.engine.weights().items():
            assert torch.equal(value[k], all_tame.engine.weights()[name][k])


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_a_frozen_run_keeps_the_bits_it_had(engine: str) -> None:
    weights: list[dict[str, torch.Tensor]] = []
    stack = trained(engine, WILD, TAME, model={"name": "mlp", "widths": [8], "bn": True})
    records = finished(stack, lambda stack: weights.append(stack.engine.weights()))
    frozen = records[0][0]["diverged"]
    assert 2 <= frozen < 6
    for later in weights[frozen - 1 : 6]:
        assert all(torch.equal(value[0], weights[frozen - 2][name][0]) for name, value in later.items())
        assert any(not torch.equal(value[1], weights[frozen - 2][name][1]) for name, value in later.items())


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_a_stack_of_which_all_runs_diverged_ends(engine: str) -> None:
    stack = trained(engine, WILD, WILD)
    pulses: list[int] = []
    yielded: list[dict[str, Record]] = list(cycles(stack, lambda stack: pulses.append(stack.step)))
    assert len(yielded) == 1
    assert [rows[0].keys() & {"diverged", "step"} for rows in stack.history] == [{"diverged"}, {"diverged"}]
    assert len(pulses) == max(rows[0]["diverged"] for rows in stack.history) < 6


def test_both_engines_see_the_same_step_diverge() -> None:
    first, other = (trained(engine, WILD, TAME) for engine in ("stacked", "single"))
    for stack in (first, other):
        list(cycles(stack, nothing))
    assert first.history[0][0]["diverged"] == other.history[0][0]["diverged"]
