"""The noise floor: what the same schedule differs from itself, one half of the seeds against the other."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scyc.report.rows import Results, mean

Halves = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Noise:
    """Mean test accuracy of the first half of the seeds minus that of the second."""

    halves: Halves
    differences: Mapping[str, Mapping[int, float]]  # by schedule and cycle; NaN where a half has no run left

    def spread(self, cycle: int | None = None) -> float:
        """Root mean square over schedules, in one cycle or in all."""
        every = [found for column in self.differences.values() for m, found in column.items() if cycle in (m, None)]
        return root_mean_square(every)

    @property
    def largest(self) -> tuple[float, str, int]:
        """The largest difference without its sign, with its schedule and cycle."""
        cells = [(abs(d), label, m) for label, column in self.differences.items() for m, d in column.items()]
        return max((cell for cell in cells if not math.isnan(cell[0])), default=(math.nan, "-", 0))


def noise(results: Results, cycles: Iterable[int]) -> Noise | None:
    """None of a single seed: it has no halves."""
    if len(results.seeds) < 2:
        return None
    first, second = halves(results.seeds)
    wanted = set(cycles)
    return Noise(
        (first, second),
        {
            label: {row.cycle: part(row.test, first) - part(row.test, second) for row in rows if row.cycle in wanted}
            for label, rows in results.rows.items()
        },
    )


def halves(seeds: tuple[int, ...]) -> Halves:
    """Every other seed: neither half is the one that was added later."""
    return seeds[::2], seeds[1::2]


def part(test: Mapping[int, float], seeds: Iterable[int]) -> float:
    return mean([test[seed] for seed in seeds if seed in test])


def root_mean_square(values: Iterable[float]) -> float:
    return math.sqrt(mean([value**2 for value in values if not math.isnan(value)]))
