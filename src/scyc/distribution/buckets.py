"""A logarithmic histogram with exact counts: a bucket is all float32 numbers that share their upper 16 bits.

Buckets are ordered as their numbers are. With sign, exponent and 7 bits of mantissa a bucket is at most 2^-7 of its
numbers wide, so its middle is within 2^-8 of each of them. Edges are always the least number of a bucket; therefore the
share between two edges is exact, and what cycle 0 fixes can be applied to any later cycle without its values. Numbers
nearer to zero than 1e-40 count as zero.
"""

import torch
from torch import Tensor

HALF = 2**15
BUCKETS = 2 * HALF
ZERO = HALF  # the bucket of zero
LAST = ZERO + 0x7F7F  # the bucket of the largest finite numbers
RELATIVE_ERROR = 2.0**-8  # of `middle`, for every number of its bucket beyond 1.2e-38


def bucket(values: Tensor) -> Tensor:  # the same shape, int32
    """The bucket of every value: its upper 16 bits, turned so that negative numbers come in order too."""
    bits = values.float().view(torch.int32)
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) >> 16) + HALF


def least(buckets: Tensor) -> Tensor:  # any shape, integers; float32
    """The least number of every bucket."""
    bits = ((buckets.long() - HALF) << 16).int()
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(torch.float32)


def counted(values: Tensor) -> Tensor:  # (runs, n); (runs, BUCKETS) int64
    """How many of each run's values lie in every bucket."""
    runs = len(values)
    keys = bucket(values)
    keys += torch.arange(runs, device=keys.device, dtype=torch.int32)[:, None] * BUCKETS
    counts = torch.bincount(keys.flatten(), minlength=runs * BUCKETS).view(runs, BUCKETS)
    counts[:, ZERO] += counts[:, ZERO - 1]  # minus zero, and what is as near to it
    counts[:, ZERO - 1] = 0
    return counts


def quantile(counts: Tensor, permille: int) -> int:  # (buckets,)
    """The bucket that holds this order statistic: the first with at least so many thousandths up to its end."""
    rank = max(1, -(-int(counts.sum()) * permille // 1000))
    return int((counts.cumsum(0) < rank).sum())


def span(counts: Tensor, permille: int) -> tuple[int, int]:  # (buckets,)
    """The bucket of the lower quantile, and the one after the bucket of the upper: edges around what lies between."""
    return quantile(counts, permille), min(quantile(counts, 1000 - permille) + 1, LAST)


def magnitudes(counts: Tensor) -> Tensor:  # (BUCKETS,); (HALF,)
    """The counts of absolute values; the first bucket is that of zero."""
    return counts[HALF:] + counts[:HALF].flip(0)


def middle(magnitude: int) -> float:
    """What stands for a bucket of absolute values; of the first it is zero itself."""
    ends = least(torch.tensor([magnitude, magnitude + 1]) + HALF).double()
    return float(ends.mean()) if magnitude else 0.0


def sturges(count: int) -> int:
    """Bins for so many values: ceil(log2 n) + 1."""
    return (count - 1).bit_length() + 1


def edges(counts: Tensor, permille: int) -> Tensor:  # (BUCKETS,); (bins + 1,) float32
    """Sturges' number of bins of equal width without the outermost thousandths, each edge moved to the nearest bucket.

    Where buckets are wider than bins some edges coincide, and stand once.
    """
    ends = torch.tensor(span(counts, permille))
    low, high = least(ends).double().tolist()
    wanted = torch.linspace(low, high, sturges(int(counts.sum())) + 1, dtype=torch.float64)
    below = bucket(wanted)
    pair = torch.stack([below, below + 1])
    nearest = pair.gather(0, (least(pair) - wanted).abs().argmin(0, keepdim=True))[0]
    nearest[0], nearest[-1] = ends.tolist()
    return least(torch.tensor(sorted(set(nearest.tolist()))))


def between(counts: Tensor, edges: Tensor) -> list[int]:  # (BUCKETS,), (n,) float32; n + 1 numbers
    """How many values lie below the first edge, in each [edge, next edge), and from the last edge on."""
    sums = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    cut = sums[bucket(edges).long()]
    return torch.diff(torch.cat([sums[:1], cut, sums[-1:]])).tolist()
