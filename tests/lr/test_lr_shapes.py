"""The rival schedules of retraining against values computed by hand, and torch's schedulers where those define them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from scyc import lr
from scyc.config import scaled

untyped: Any = lr  # called as by a user without a type checker


def row(shape: lr.Shape, steps: int) -> list[float]:
    return [shape(step) for step in range(steps)]


def torchs(make: Callable[[SGD], LRScheduler], steps: int) -> list[float]:
    """The rates of a scheduler of torch's whose peak is 1."""
    owner = SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(owner)
    owner.step()
    seen = []
    for step in range(steps):
        seen.append(float(owner.param_groups[0]["lr"]))
        if step + 1 < steps:  # OneCycleLR refuses the step after its last
            scheduler.step()
    return seen


def test_ft_is_a_share_of_the_peak() -> None:
    assert row(lr.FT(0.01), 5) == [0.01] * 5
    dense = lr.Schedule(lr.Fixed(0.1), lr.Warmup(10, (50, 75)))
    retraining = lr.Schedule(lr.Fixed(0.1), lr.FT(0.01))
    assert retraining.lr(3, 0, 0.2) == pytest.approx(dense.lr(0, 99, 0.2), rel=1e-12) == pytest.approx(0.001)


def test_slr_warms_up_and_drops_twice() -> None:
    """Of 40 steps 4 warm up from 0.2; the other 36 drop after 18 (step 22) and after 27 (step 31)."""
    expected = [0.2, 0.4, 0.6, 0.8, *[1.0] * 18, *[0.1] * 9, *[0.01] * 9]
    assert row(lr.SLR(40, low=0.2), 40) == pytest.approx(expected, rel=1e-12)
    assert row(lr.SLR(40, low=0.2), 60)[40:] == pytest.approx([0.01] * 20)


def test_slr_of_a_length_that_no_quarter_divides() -> None:
    """Of 10 steps one warms up; half of the other nine end at 5.5, three quarters at 7.75."""
    assert row(lr.SLR(10), 10) == pytest.approx([0.01, 1, 1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])
    assert lr.Schedule(lr.Fixed(0.1), lr.SLR(1000)).lr(1, 0, 0.2) == pytest.approx(1e-3)  # as it was proposed


def test_llr_warms_up_and_falls_to_zero() -> None:
    """Of 20 steps 2 warm up, the other 18 fall."""
    expected = [0, 1 / 2, 1, 17 / 18, 16 / 18, 15 / 18, 14 / 18, 13 / 18, 12 / 18, 11 / 18]
    expected += [10 / 18, 9 / 18, 8 / 18, 7 / 18, 6 / 18, 5 / 18, 4 / 18, 3 / 18, 2 / 18, 1 / 18]
    assert row(lr.LLR(20), 20) == pytest.approx(expected, rel=1e-12)
    assert row(lr.LLR(20), 23)[20:] == [0, 0, 0]
    assert row(lr.LLR(5), 5) == pytest.approx([0, 0.8 / 0.9, 0.6 / 0.9, 0.4 / 0.9, 0.2 / 0.9])


@pytest.mark.parametrize(("steps", "low"), [(500, 0.0), (77, 0.25)])
def test_cosine_is_torch_cosineannealinglr(steps: int, low: float) -> None:
    theirs = torchs(lambda owner: CosineAnnealingLR(owner, T_max=steps, eta_min=low), steps + 1)
    np.testing.assert_allclose(row(lr.Cosine(steps, low), steps + 1), theirs, rtol=0, atol=1e-12)
    assert lr.Cosine(steps, low)(steps + 9) == pytest.approx(low, abs=1e-15)


@pytest.mark.parametrize(
    ("steps", "rise", "div", "final_div"),
    [(1000, 0.1, 100, 100), (1000, 0.3, 25, 1e4), (63, 0.1, 100, 100), (20, 0.5, 1, 1), (7, 0.1, 100, 100)],
)
def test_one_cycle_is_torch_onecyclelr(steps: int, rise: float, div: float, final_div: float) -> None:
    """The first of these is CLR."""
    settings = {"pct_start": rise, "div_factor": div, "final_div_factor": final_div, "cycle_momentum": False}
    theirs = torchs(lambda owner: OneCycleLR(owner, 1.0, total_steps=steps, **settings), steps)
    np.testing.assert_allclose(row(lr.OneCycle(steps, rise, div, final_div), steps), theirs, rtol=0, atol=1e-12)


def test_one_cycle_where_torch_divides_by_zero() -> None:
    """A tenth of 10 steps is one: the first is at the peak."""
    shape = lr.OneCycle(10, 0.1, 100, 100)
    assert (shape(0), shape(9), shape(30)) == pytest.approx((1.0, 1e-4, 1e-4))


def test_step_counts_scale_and_nothing_else() -> None:
    assert scaled(lr.SLR(1000, 0.1), 0.1) == lr.SLR(100, 0.1)
    assert scaled(lr.LLR(1000), 0.1) == lr.LLR(100)
    assert scaled(lr.Cosine(1000, 0.1), 0.1) == lr.Cosine(100, 0.1)
    assert scaled(lr.OneCycle(1000, 0.1, 100, 100), 0.1) == lr.OneCycle(100, 0.1, 100, 100)
    assert scaled(lr.FT(0.5), 0.1) == lr.FT(0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lr.FT(0.0), "FT.share=0.0 is not valid; use a share of the peak, 0 < share <= 1"),
        (lambda: lr.FT(1.5), "FT.share=1.5 is"),
        (lambda: lr.SLR(0), "SLR.steps=0 is not valid; use a whole number of steps, at least 1"),
        (lambda: lr.SLR(5, 1.0), "SLR.low=1.0 is not valid; use a share of the peak, 0 <= low < 1"),
        (lambda: untyped.LLR(2.5), "LLR.steps=2.5 is"),
        (lambda: lr.Cosine(0), "Cosine.steps=0 is"),
        (lambda: lr.Cosine(5, -1), "Cosine.low=-1 is"),
        (lambda: lr.OneCycle(0), "OneCycle.steps=0 is"),
        (lambda: lr.OneCycle(5, 1.0), "OneCycle.rise=1.0 is not valid; use a share of the steps, 0 < rise < 1"),
        (lambda: lr.OneCycle(5, 0.1, 0.5), "OneCycle.div=0.5 is not valid; use a finite number, 1 or more"),
        (lambda: lr.OneCycle(5, 0.1, 2, math.inf), "OneCycle.final_div=inf is"),
    ],
)
def test_what_cannot_be_says_so_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
