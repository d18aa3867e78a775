"""Count, mean and sum of squared deviations of a stream, exact in float64: each batch by itself, then merged."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """Of every run's values so far."""

    count: Tensor  # (runs,) float64, which holds whole numbers exactly up to 2^53
    mean: Tensor  # (runs,) float64
    squares: Tensor  # (runs,) float64: the sum of squared deviations from the mean

    @property
    def variance(self) -> Tensor:  # (runs,) of the values themselves, not an estimate from a sample
        return self.squares / self.count


def nothing(runs: int, device: torch.device) -> Moments:
    """Of no values yet."""
    return Moments(*torch.zeros(3, runs, dtype=torch.float64, device=device))


def moments(values: Tensor) -> Moments:  # (runs, n)
    """Of one batch: the mean first, then deviations from it."""
    exact = values.double()
    mean = exact.mean(1)
    exact = exact - mean[:, None]
    return Moments(torch.full_like(mean, values.shape[1]), mean, (exact * exact).sum(1))


def merged(one: Moments, other: Moments) -> Moments:
    """Of both together (Chan, Golub and LeVeque, 1979)."""
    count = one.count + other.count
    share = other.count / count
    apart = other.mean - one.mean
    return Moments(count, one.mean + apart * share, one.squares + other.squares + apart**2 * one.count * share)
