"""Grids of peaks, the best of one, and its feasible region: examples by hand."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scyc.peaks import Pick, listed, picked, place, spread, stepped


def test_a_range_has_both_ends_and_the_decimals_that_were_typed() -> None:
    peaks = listed("0.002:0.12:0.002")
    assert len(peaks) == 60
    assert peaks[:3] == (0.002, 0.004, 0.006)
    assert peaks[8] == 0.018 != 9 * 0.002  # so that no peak is called 0.018000000000000002
    assert peaks[-1] == 0.12


def test_a_range_whose_step_does_not_reach_its_end_stops_before_it() -> None:
    assert listed("0.01:0.04:0.02") == (0.01, 0.03)


def test_a_list_is_put_in_ascending_order() -> None:
    assert listed("0.1, 1e-2,0.05") == (0.01, 0.05, 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.1",
        "0.1,0.1",
        "0,0.1",
        "-0.1,0.1",
        "a,b",
        "nan,0.1",
        "inf,0.1",
        "0.1:0.2",
        "0.2:0.1:0.01",
        "0.1:0.2:0",
        "0:0.2:0.1",
        "0.1:inf:0.1",
        "1:2000:1",
        "0.1:0.2:1e999999999",
        "1e-999999:1:1e-999999",
    ],
)
def test_what_is_no_grid_is_refused_in_one_line_that_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"FIRST:LAST:STEP") as caught:
        listed(text)
    assert "\n" not in str(caught.value)


def test_too_many_peaks_are_counted() -> None:
    with pytest.raises(ValueError, match=r"2000 peaks, at most 1000"):
        listed("1:2000:1")


def test_a_spread_is_even_in_the_logarithm_and_has_the_middle() -> None:
    peaks = spread(0.05, 7, 8.0)
    assert peaks == (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
    assert len(spread(0.03)) == 15
    assert spread(0.03)[7] == 0.03


def test_stepped_takes_numbers_from_a_preset() -> None:
    assert stepped(Decimal("0.01"), Decimal("0.03"), Decimal("0.01")) == (0.01, 0.02, 0.03)


def test_the_best_and_the_contiguous_peaks_within_half_a_point() -> None:
    #         0      1      2      3     4      5      6
    means = [0.900, 0.905, 0.890, 0.904, 0.908, 0.903, 0.902]
    assert picked(means) == Pick(best=4, low=3, high=5, edge=False)  # 1 is within the margin, but 2 lies between


def test_exactly_half_a_point_behind_is_feasible() -> None:
    assert picked([0.895, 0.9, 0.8949999]) == Pick(best=1, low=0, high=1, edge=False)


def test_ties_go_to_the_smaller_peak_whatever_the_rounding_of_their_sums() -> None:
    assert picked([0.1, 0.9, 0.5, 0.9, 0.1]) == Pick(best=1, low=1, high=1, edge=False)
    assert (0.1 + 0.7) / 2 < (0.4 + 0.4) / 2  # the same mean, and yet not the same float
    assert picked([0.0, (0.1 + 0.7) / 2, (0.4 + 0.4) / 2, 0.0]) == Pick(best=1, low=1, high=2, edge=False)


def test_the_first_and_the_last_peak_are_the_edge() -> None:
    assert picked([0.9, 0.8, 0.7]) == Pick(best=0, low=0, high=0, edge=True)
    assert picked([0.7, 0.8, 0.9]) == Pick(best=2, low=2, high=2, edge=True)
    assert picked([0.9]) == Pick(best=0, low=0, high=0, edge=False)  # one peak has no edge: nothing was searched


def test_a_peak_with_a_diverged_seed_is_neither_best_nor_feasible() -> None:
    assert picked([0.7, 0.9, None, 0.9]) == Pick(best=1, low=1, high=1, edge=False)
    assert picked([0.7, 0.8, None]) == Pick(best=1, low=1, high=1, edge=False)  # beyond it no network trains
    assert picked([None, None]) is None


def test_the_ends_of_a_region_belong_to_it() -> None:
    assert [place(peak, 0.03, 0.05) for peak in (0.0299, 0.03, 0.04, 0.05, 0.0501)] == [
        "below",
        "inside",
        "inside",
        "inside",
        "above",
    ]


@given(st.lists(st.none() | st.integers(0, 50), min_size=1, max_size=12))
def test_a_region_is_what_a_walk_from_the_best_finds(counts: list[int | None]) -> None:
    """Accuracies as shares of 100 images, so that whole numbers decide."""
    pick = picked([None if count is None else count / 100 for count in counts], margin=0.05)
    known = [count for count in counts if count is not None]
    if pick is None:
        assert not known
        return
    assert counts[pick.best] == max(known)
    assert max(known) not in counts[: pick.best]
    near = [count is not None and count >= max(known) - 5 for count in counts]
    assert all(near[pick.low : pick.high + 1])
    assert pick.low == 0 or not near[pick.low - 1]
    assert pick.high == len(counts) - 1 or not near[pick.high + 1]
