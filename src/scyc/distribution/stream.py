"""Values that are looked at once and forgotten: what remains is their moments and their logarithmic histogram."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from scyc.distribution import buckets
from scyc.distribution.moments import Moments, merged, moments, nothing

COLUMNS = 2**18  # values of one run that are taken at a time: bounds the float64 copies
MAGNITUDES = (10, 500, 900, 990)  # thousandths: the quantiles of absolute values that are reported
TAIL = 30  # thousandths of cycle 0 on each side: beyond lie the tails
OUTERMOST = 1  # thousandth of cycle 0 on each side: beyond lie no bins


class Stream:
    """All values of one kind, run by run; never kept."""

    def __init__(self, runs: int, device: torch.device) -> None:
        self.moments = nothing(runs, device)
        self.counts = torch.zeros(runs, buckets.BUCKETS, dtype=torch.int64, device=device)

    def add_(self, values: Tensor, rows: Tensor | None = None) -> None:  # (runs, n), and whose they are (None: all's)
        chosen = slice(None) if rows is None else rows
        for part in torch.split(values, COLUMNS, 1):
            self.counts[chosen] += buckets.counted(part)
            now = self.moments
            new = merged(Moments(now.count[chosen], now.mean[chosen], now.squares[chosen]), moments(part))
            for whole, piece in ((now.count, new.count), (now.mean, new.mean), (now.squares, new.squares)):
                whole[chosen] = piece

    @property
    def finite(self) -> Tensor:  # (runs,) bool
        return torch.isfinite(self.moments.squares)

    def summary(self, k: int, reference: Mapping[str, Any] | None) -> dict[str, Any]:
        """One run's numbers, between the edges and beyond the thresholds of cycle 0's summary (None: its own)."""
        counts, total = self.counts[k].cpu(), int(self.moments.count[k])
        sizes = buckets.magnitudes(counts)
        fixed = reference or references(counts)
        tails = buckets.between(counts, torch.tensor(fixed["thresholds"]))
        return {
            "count": total,
            "mean": float(self.moments.mean[k]),
            "std": float(self.moments.variance[k].sqrt()),
            "magnitudes": [buckets.middle(buckets.quantile(sizes, share)) for share in MAGNITUDES],
            "zero": int(counts[buckets.ZERO]) / total,
            "below": tails[0] / total,
            "above": tails[-1] / total,
            "thresholds": fixed["thresholds"],
            "edges": fixed["edges"],
            "counts": buckets.between(counts, torch.tensor(fixed["edges"])),
        }


def references(counts: Tensor) -> dict[str, Sequence[float]]:  # (BUCKETS,)
    """The edges and thresholds that a cycle 0 fixes for those after it."""
    thresholds = buckets.least(torch.tensor(buckets.span(counts, TAIL)))
    return {"thresholds": thresholds.tolist(), "edges": buckets.edges(counts, OUTERMOST).tolist()}
