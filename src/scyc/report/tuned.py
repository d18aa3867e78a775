"""What a tuning found, to read and to paste."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scyc.config import Part, part, plain
from scyc.report.budget import budget
from scyc.report.table import aligned, percent
from scyc.report.toml import inline
from scyc.run import PEAK
from scyc.store.runs import Store
from scyc.suggest import Tuning, best_of

Record = Mapping[str, Any]


def candidates(record: Record, name: str = "peak", less: float = 0.0) -> str:
    """One line per peak of a cycle's grid; `less` is what a peak is more than the number named."""
    grid = [[name, "validation %", "n", "behind the best", ""]]
    for peak, values in zip(record["peaks"], record["each_validation_accuracy"], strict=True):
        known = [value for value in values if value is not None]
        behind = "-"
        if len(known) == len(values) and "validation_accuracy" in record:
            behind = f"{100 * (record['validation_accuracy'] - statistics.fmean(known)):.2f}"
        said = mean_std(known) if len(known) == len(values) else f"{len(values) - len(known)} diverged"
        grid.append([f"{peak - less:.4g}", said, str(len(known)), behind, remark(record, peak)])
    return aligned(grid)


def mean_std(values: Sequence[float]) -> str:
    spread = f"±{percent(statistics.stdev(values))}" if len(values) > 1 else ""
    return percent(statistics.fmean(values), 2) + spread


def remark(record: Record, peak: float) -> str:
    low, high = record.get("region", (math.inf, -math.inf))
    if peak == record.get("peak"):
        return "best, at the edge of the grid" if record["edge"] else "best"
    return "feasible" if low <= peak <= high else ""


def toml(value: Part) -> str:
    """A part as a preset spells it."""
    fields = plain(value)
    return inline(fields if len(fields) > 1 else fields["name"])


def schedule(label: str, peak: Part, shape: Part) -> str:
    """The lines to paste into a preset."""
    return f"[schedules.{label}]\npeak = {toml(peak)}\nshape = {toml(shape)}"


def benchmark(store: Store, label: str, shape: Part, record: Record, id: str) -> str:
    """The grid of a benchmark's learning rate, its best, and the lines to paste."""
    best = part(PEAK, {"name": "fixed", "lr": record["peak"]})
    k, peaks = record["peaks"].index(record["peak"]), record["peaks"]
    beside = [f"{peaks[j]:g}" for j in (k - 1, k + 1) if 0 <= j < len(peaks)]
    return "\n".join(
        [
            f"{label}: mean validation accuracy of the dense network at the early stop",
            "",
            candidates(record),
            "",
            f"best peak {record['peak']:g}, its neighbours {' and '.join(beside)}",
            *edge(record, "peak"),
            f"cost: {budget(store, [id]).words}",
            "",
            schedule(label, best, shape),
        ]
    )


def scyc(
    store: Store,
    dense: Record,
    pruned: Record,
    tunings: Sequence[Tuning],
    peak: Part,
    shape: Part,
    studies: Mapping[str, str],
) -> str:
    """The three stages, and the lines to paste."""
    eps, at = dense["peak"], f"m = {pruned['cycle']}, {percent(pruned['density'], 2)} % left"
    return "\n".join(
        [
            "eps: mean validation accuracy of the dense network at the early stop",
            "",
            candidates(dense, "eps"),
            *edge(dense, "eps"),
            "",
            f"delta: the same at {at}, pruned with the peak {eps:g} up to there",
            "",
            candidates(pruned, "delta", eps),
            *(edge(pruned, "delta") if pruned["peak"] > eps else []),  # no delta below 0 is missed
            "",
            "q and beta: mean over the pruned cycles and seeds",
            "",
            pairs(tunings),
            "",
            f"cost: {budget(store, list(studies.values())).words}",
            "",
            schedule("scyc", peak, shape),
        ]
    )


def edge(record: Record, word: str) -> list[str]:
    return [f"the best {word} is at the edge of its grid, a better one may lie beyond"] if record["edge"] else []


def pairs(tunings: Sequence[Tuning]) -> str:
    """Every tuning, the first of the best marked."""
    best, grid = best_of(tunings), [["q", "beta", "validation %", ""]]
    for tuning in tunings:
        numbers = [f"{tuning.q:g}", f"{tuning.beta:g}", percent(tuning.accuracy, 2)]
        grid.append([*numbers, "best" if tuning == best else ""])
    return aligned(grid)
