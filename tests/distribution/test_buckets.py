"""Buckets against numpy over all values: exact counts between edges, order statistics within the stated error."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scyc.distribution import buckets

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)  # no minus zero


def heavy(count: int = 20_000, seed: int = 3) -> torch.Tensor:  # (count,)
    """Both signs, ten orders of magnitude, and many exact zeros, as gradients have."""
    draw = np.random.default_rng(seed)
    values = draw.standard_normal(count) * np.exp(4 * draw.standard_normal(count))
    return torch.tensor(np.where(draw.random(count) < 0.2, 0.0, values), dtype=torch.float32)


@given(st.lists(FLOATS, min_size=2, max_size=20))
def test_order_is_that_of_the_numbers(values: list[float]) -> None:
    ordered = buckets.bucket(torch.tensor(sorted(values)))
    assert (ordered.diff() >= 0).all()


@given(FLOATS)
def test_a_number_lies_between_its_bucket_and_the_next(value: float) -> None:
    number = torch.tensor(value)
    place = buckets.bucket(number)
    assert buckets.least(place) <= number
    assert number < buckets.least(place + 1) or value == 0


@pytest.mark.parametrize(
    ("value", "least"),
    [(1.0, 1.0), (1.0078125, 1.0078125), (1.0078124, 1.0), (0.0, 0.0), (3.5, 3.5), (2.0**-100, 2.0**-100)],
)
def test_buckets_begin_at_numbers_with_seven_bits_of_mantissa(value: float, least: float) -> None:
    assert float(buckets.least(buckets.bucket(torch.tensor(value)))) == least


def test_minus_zero_is_zero() -> None:
    counts = buckets.counted(torch.tensor([[0.0, -0.0, 1.0]]))[0]
    assert int(counts[buckets.ZERO]) == 2
    assert int(counts.sum()) == 3


def test_runs_are_counted_apart() -> None:
    values = torch.stack([heavy(500, seed) for seed in range(3)])
    together = buckets.counted(values)
    assert together.shape == (3, 65536)
    for row, alone in zip(together, values, strict=True):
        torch.testing.assert_close(row, buckets.counted(alone[None])[0])


@pytest.mark.parametrize("permille", [1, 10, 30, 500, 900, 970, 990, 999])
def test_quantiles_are_within_the_stated_error_of_numpys(permille: int) -> None:
    values = heavy()
    sizes = buckets.magnitudes(buckets.counted(values[None])[0])
    exact = float(np.quantile(values.abs().double().numpy(), permille / 1000, method="inverted_cdf"))
    assert buckets.RELATIVE_ERROR == 1 / 256
    assert abs(buckets.middle(buckets.quantile(sizes, permille)) - exact) <= exact / 256


@pytest.mark.parametrize("permille", [1, 30, 500, 970, 999])
def test_the_bucket_of_a_quantile_holds_numpys(permille: int) -> None:
    values = heavy()
    place = buckets.quantile(buckets.counted(values[None])[0], permille)
    exact = np.quantile(values.numpy(), permille / 1000, method="inverted_cdf")
    low, high = buckets.least(torch.tensor([place, place + 1])).tolist()
    assert low <= exact < high


@pytest.mark.parametrize(
    ("count", "bins"), [(1, 1), (2, 2), (64, 7), (65, 8), (100, 8), (1000, 11), (33_511_400, 26)]
)  # ceil(log2 n) + 1
def test_sturges_rule(count: int, bins: int) -> None:
    assert buckets.sturges(count) == bins


def test_as_many_bins_as_numpy_makes_by_this_rule() -> None:
    values = heavy(1000)
    assert buckets.sturges(len(values)) == len(np.histogram_bin_edges(values.numpy(), "sturges")) - 1


def test_edges_are_nearly_equally_far_apart_and_leave_out_a_thousandth_on_each_side() -> None:
    values = torch.randn(50_000)
    edges = buckets.edges(buckets.counted(values[None])[0], 1)
    assert len(edges) == 17 + 1
    wanted = np.linspace(*np.quantile(values.numpy(), [0.001, 0.999], method="inverted_cdf"), 18)
    assert np.abs(edges.numpy() - wanted).max() < 1.5 / 64  # a bucket of numbers in [2, 4) is 1/64 wide


def test_counts_between_edges_are_numpys() -> None:
    values = heavy()
    counts = buckets.counted(values[None])[0]
    edges = buckets.edges(counts, 100)
    found = buckets.between(counts, edges)
    expected, _ = np.histogram(values.numpy(), np.concatenate([[-np.inf], edges.numpy(), [np.inf]]))
    assert found == expected.tolist()


def test_edges_of_one_sample_fit_another() -> None:
    edges = buckets.edges(buckets.counted(heavy()[None])[0], 30)
    other = heavy(5000, seed=9) / 7
    expected, _ = np.histogram(other.numpy(), np.concatenate([[-np.inf], edges.numpy(), [np.inf]]))
    assert buckets.between(buckets.counted(other[None])[0], edges) == expected.tolist()


def test_values_that_are_all_alike_have_one_bin() -> None:
    counts = buckets.counted(torch.zeros(1, 40))[0]
    edges = buckets.edges(counts, 1)
    assert len(edges) == 2
    assert buckets.between(counts, edges) == [0, 40, 0]
