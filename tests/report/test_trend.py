"""Rank correlations by the textbook formula, and verdicts by hand."""

import math

import pytest

from scyc.report.trend import Trend, trend, verdict


def test_spearman_by_its_formula() -> None:
    """1 - 6 * 2 / (5 * 24) = 0.9; t = 0.9 sqrt(3 / 0.19) = 3.576 with 3 degrees of freedom: p = 0.0374."""
    found = trend([0, 1, 2, 3, 4], [1, 3, 2, 4, 5])
    assert found.rho == pytest.approx(0.9)
    assert found.p == pytest.approx(0.0374, abs=1e-4)


def test_equal_values_do_not_rise_and_two_are_no_trend() -> None:
    assert trend([0, 1, 2], [0.5, 0.5, 0.5]).rho == 0
    assert math.isnan(trend([0, 1], [1, 2]).rho)


def test_all_must_rise_and_all_must_be_sure() -> None:
    sure, likely, flat = Trend(0.9, 0.01), Trend(0.8, 0.04), Trend(0.0, math.nan)
    assert verdict([sure, sure]) == "reproduced"
    assert verdict([sure, likely]) == "reproduced"  # Holm: 2 * 0.01 and 1 * 0.04
    assert verdict([likely, likely]) == "direction only"  # 2 * 0.04
    assert verdict([sure, flat]) == "not reproduced"
    assert verdict([sure, Trend(-0.9, 0.01)]) == "not reproduced"
    assert verdict([sure, trend([0, 1], [1, 2])]) == "not tested"
