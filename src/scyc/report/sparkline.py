"""Accuracy over density as a line of blocks per schedule, for a terminal."""

import math
from collections.abc import Sequence

from scyc.report.inside import thinned
from scyc.report.rows import Results, Row
from scyc.report.table import percent

BLOCKS = "▁▂▃▄▅▆▇█"
MOST, LABEL = 60, 24  # marks of a line, and letters of its name


def chart(results: Results) -> str:
    """All schedules on one scale; nothing where there is no curve to see."""
    cycles = thinned(range(results.cycles), MOST)
    lines = {label: [results.row(label, cycle) for cycle in cycles] for label in results.rows}
    known = [row for line in lines.values() for row in line if row and row.n]
    if len({row.cycle for row in known}) < 2:
        return ""
    low, high = (choose(row.mean for row in known) for choose in (min, max))
    dense, sparse = max(known, key=lambda row: row.density), min(known, key=lambda row: row.density)
    title = (
        f"Test accuracy from {percent(dense.density)} % of the weights to {percent(sparse.density)} %, "
        f"{BLOCKS[0]} is {percent(low)} %, {BLOCKS[-1]} {percent(high)} %"
    )
    wide = min(LABEL, max(map(len, lines)))
    drawn = [f"{clipped(label, wide)}  {blocks(line, low, high)}" for label, line in lines.items()]
    return "\n".join([title, "", *drawn])


def blocks(line: Sequence[Row | None], low: float, high: float) -> str:
    """A gap where no run is left."""
    return "".join(block(row.mean, low, high) if row and row.n else " " for row in line).rstrip()


def block(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 1.0
    return BLOCKS[min(len(BLOCKS) - 1, math.floor(share * len(BLOCKS)))]


def clipped(label: str, wide: int) -> str:
    return (label if len(label) <= wide else label[: wide - 1] + "…").ljust(wide)
