"""Which schedule leads in a cycle, and which are so close behind that noise explains it."""

import math
from collections.abc import Mapping, Sequence

from scyc.report.rows import Row

ROUNDING = 1e-12


def leaders(rows: Sequence[Row], noise: float) -> dict[str, str]:
    """The schedule with the highest mean is "best", those within the noise floor below it are a "tie"."""
    return marks({row.schedule: row.mean for row in rows if row.n}, noise)


def marks(means: Mapping[str, float], noise: float) -> dict[str, str]:
    """Of a single mean nothing is said; a noise floor that is not known makes no ties."""
    if len(means) < 2:
        return {}
    best, near = max(means.values()), 0.0 if math.isnan(noise) else noise
    found = {}
    for label, mean in means.items():
        if best - mean <= ROUNDING:
            found[label] = "best"
        elif best - mean <= near:
            found[label] = "tie"
    return found
