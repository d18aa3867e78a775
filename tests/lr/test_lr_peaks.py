"""Every peak against values computed by hand, and its corners."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from scyc import lr

untyped: Any = lr  # called as by a user without a type checker


def row(peak: lr.Peak, cycles: int, amount: float = 0.2) -> list[float]:
    return [peak(cycle, amount) for cycle in range(cycles)]


def test_density_divides_by_a_power_of_the_density() -> None:
    assert row(lr.Density(eps=0.03, alpha=1, cap=1), 4) == pytest.approx([0.03, 0.0375, 0.046875, 0.05859375])
    root = lr.Density(eps=0.81, alpha=0.5, cap=10)  # with p = 0.19 the root of the density is 0.9 ** m
    assert row(root, 3, amount=0.19) == pytest.approx([0.81, 0.9, 1.0], rel=1e-12)
    assert row(lr.Density(eps=0.03, alpha=0, cap=0.03), 5) == [0.03] * 5


def test_density_stops_at_its_cap() -> None:
    assert row(lr.Density(eps=0.03, alpha=1, cap=0.04), 4) == pytest.approx([0.03, 0.0375, 0.04, 0.04])
    assert lr.Density(0.03, 300, 0.2)(100, 0.2) == 0.2
    assert lr.Density(1e-300, 1e300, 1e308)(10**9, 0.999) == 1e308
    assert lr.Density(1e-300, 1e300, 1e308)(0, 0.999) == 1e-300


def test_step_rises_after_q() -> None:
    assert row(lr.Step(eps=0.03, delta=0.04, q=2), 5) == pytest.approx([0.03, 0.03, 0.03, 0.07, 0.07])
    assert row(lr.Step(eps=0.03, delta=0.04, q=1.5), 4) == pytest.approx([0.03, 0.03, 0.07, 0.07])


def test_linear_reaches_its_end_and_stays() -> None:
    peak = lr.Linear(eps=0.02, delta=0.04, cycles=4)
    assert row(peak, 7) == pytest.approx([0.02, 0.03, 0.04, 0.05, 0.06, 0.06, 0.06])
    assert row(peak, 3, amount=0.5) == row(peak, 3)


def test_reversed_is_the_specifications_curve_mirrored() -> None:
    """0.1 minus each of the peaks of ResNet-20 in the specification."""
    typed = ".07 .07 .069961 .0678675 .052389 .0355386 .0310706 .0302251 .0300526 .0300133"
    peaks = row(lr.Reversed(eps=0.03, delta=0.04, q=1, beta=5), 10)
    assert peaks == pytest.approx([float(peak) for peak in typed.split()], abs=6e-8)
    assert lr.Reversed(0.1, 0.5, 0, 1e308)(1, 1e-9) == 0.6
    assert lr.Reversed(0.1, 0.5, 0, 1000)(100_000, 0.999) == 0.1


def test_table_goes_on_with_its_last() -> None:
    assert row(lr.Table((0.03, 0.05, 0.04)), 5) == [0.03, 0.05, 0.04, 0.04, 0.04]
    assert row(lr.Table((0.03,)), 2) == [0.03, 0.03]


def begun(norm: float | None, share: float | None, steps: int = 100) -> lr.History:
    """The history of cycle 2: the dense run had 100 steps, and this is what is known of the cycle that begins."""
    known = {"steps": steps, "pruned_norm": norm, "pruned_share": share}
    return [{"cycle": 0, "steps": 100}, {"cycle": 1, "steps": steps, "next": known}]


@pytest.mark.parametrize(
    ("norm", "share", "steps", "expected"),
    [
        (0.3, 0.25, 50, 0.06),  # 0.3 / 0.5 of 0.1
        (0.1, 0.25, 50, 0.05),  # 0.1 / 0.5 is less than half of the steps
        (0.1, 0.25, 10, 0.02),
        (0.1, 0.25, 100, 0.1),  # as many steps as the dense run: LLR
        (0.9, 0.25, 10, 0.1),  # never more than lr
        (0.0, 0.0, 25, 0.025),  # nothing was pruned
        (None, None, 25, 0.025),  # of a run that diverged nothing is known
        (None, 0.2, 25, 0.025),
    ],
)
def test_allr_follows_what_the_pruning_took(
    norm: float | None, share: float | None, steps: int, expected: float
) -> None:
    assert lr.ALLR(0.1)(2, 0.2, begun(norm, share, steps)) == pytest.approx(expected, rel=1e-12)


def test_allr_of_the_dense_network_and_where_nobody_says_how_many_steps() -> None:
    assert lr.ALLR(0.1)(0, 0.2) == 0.1
    assert lr.ALLR(0.1)(1, 0.2, [{"cycle": 0, "next": {"pruned_norm": 0.1, "pruned_share": 0.2}}]) == 0.1


@pytest.mark.parametrize("history", [(), [{"cycle": 0, "steps": 9}]])
def test_allr_says_what_it_waits_for(history: lr.History) -> None:
    with pytest.raises(lr.Unmeasured, match="ALLR in cycle 1: the history does not say what the pruning before it"):
        lr.ALLR(0.1)(1, 0.2, history)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lr.Density(0, 1, 1), "Density.eps=0 is not valid; use a finite number above 0"),
        (lambda: lr.Density(1, -1, 1), "Density.alpha=-1 is not valid; use a finite number, 0 or more"),
        (lambda: lr.Density(1, math.inf, 1), "Density.alpha=inf is"),
        (lambda: lr.Density(1, 1, 0.5), "Density.cap=0.5 is not valid; use a finite number, eps or more"),
        (lambda: lr.Density(1, 1, math.inf), "Density.cap=inf is"),
        (lambda: lr.Density(1, 1, 2)(3, 1.0), "amount=1.0 is not valid; use a share of the remaining weights"),
        (lambda: lr.Step(0, 1, 1), "Step.eps=0 is not valid; use a finite number above 0"),
        (lambda: lr.Step(1, -1, 1), "Step.delta=-1 is not valid; use a finite number, 0 or more"),
        (lambda: lr.Step(1, 1, -1), "Step.q=-1 is not valid; use a finite number, 0 or more"),
        (lambda: lr.Linear(math.nan, 1, 1), "Linear.eps=nan is"),
        (lambda: lr.Linear(1, 1, 0), "Linear.cycles=0 is not valid; use a whole number of cycles, at least 1"),
        (lambda: untyped.Linear(1, 1, 2.5), "Linear.cycles=2.5 is"),
        (lambda: lr.Reversed(1, 1, -1, 5), "Reversed.q=-1 is not valid; use a finite number, 0 or more"),
        (lambda: lr.Reversed(1, 1, 1, 0), "Reversed.beta=0 is not valid; use a number above 0"),
        (lambda: lr.ALLR(0), "ALLR.lr=0 is not valid; use a finite number above 0"),
        (lambda: lr.Table(()), "Table.peaks=() is not valid; use a tuple of 1 to 10000 peaks, each a finite number"),
        (lambda: lr.Table((0.1, 0.0)), "Table.peaks=(0.1, 0.0) is"),
        (lambda: untyped.Table([0.1]), "Table.peaks=[0.1] is"),
        (lambda: untyped.Table((True,)), "Table.peaks=(True,) is"),
    ],
)
def test_what_cannot_be_says_so_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
