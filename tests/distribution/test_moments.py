"""Streaming moments against numpy over all values."""

import numpy as np
import pytest
import torch

from scyc.distribution.moments import merged, moments, nothing


def parts(offset: float) -> list[torch.Tensor]:
    """Batches of unequal sizes, two runs."""
    draw = torch.Generator().manual_seed(5)
    return [torch.randn(2, n, generator=draw, dtype=torch.float64) * (1 + n) + offset for n in (1, 7, 64, 1000, 2)]


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4])
def test_merged_batches_equal_numpy_over_all_values(offset: float) -> None:
    found = nothing(2, torch.device("cpu"))
    for part in parts(offset):
        found = merged(found, moments(part))
    every = torch.cat(parts(offset), 1).numpy()
    assert found.count.tolist() == [1074, 1074]
    np.testing.assert_allclose(found.mean.numpy(), every.mean(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.variance.numpy(), every.var(1), rtol=1e-12)


def test_the_order_of_merging_does_not_matter() -> None:
    one, two, three = (moments(part) for part in parts(2.0)[1:4])
    left, right = merged(merged(one, two), three), merged(one, merged(two, three))
    torch.testing.assert_close(left.variance, right.variance, rtol=1e-12, atol=0)
    torch.testing.assert_close(left.mean, right.mean, rtol=1e-12, atol=0)


def test_float32_values_lose_nothing() -> None:
    """A mean far from zero, where sums of squares in float32 would have no digit left."""
    values = torch.randn(1, 100_000) + 4096
    found = moments(values)
    np.testing.assert_allclose(found.variance.numpy(), values.double().numpy().var(1), rtol=1e-12)
