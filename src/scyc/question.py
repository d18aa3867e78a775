"""What a search over peaks asks, and how rows that were trained answer it: outcomes, and the record of a cycle."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from scyc import cycle, mask
from scyc.config import digest
from scyc.peaks import picked
from scyc.run import Run
from scyc.stack import Record, Stack

Row = tuple[float, int]  # peak, seed
Outcome = dict[str, Any]  # of a row in a cycle: accuracies, or the step in which it diverged


def reported(stack: Stack) -> list[Outcome]:
    """Validation and test accuracy of every row, as a run would record them."""
    cycle.end_(stack)
    names = ("step", "validation_accuracy", "test_accuracy", "last_test_accuracy")
    last = [rows[-1] for rows in stack.history]
    return [{name: r[name] for name in ("diverged",) if name in r} or {name: r[name] for name in names} for r in last]


def validated(stack: Stack) -> list[Outcome]:
    """Validation accuracy alone: whoever selects by it again and again must never see the test set."""
    now, finite = stack.now, stack.engine.finite.tolist()
    stack.ended, stack.best, stack.curve = True, {}, []
    return [
        {"step": int(now["best_step"][k]), "validation_accuracy": float(now["best_accuracy"][k])}
        if finite[k] and now["diverged"][k] < 0
        else {"diverged": max(0, int(now["diverged"][k]))}
        for k in range(len(stack.runs))
    ]


@dataclass(frozen=True)
class Question:
    """What a search looks for: everything of the runs but their peak, the peaks to try, and by what to judge them."""

    runs: tuple[Run, ...]  # one per seed
    grid: Callable[[int, Sequence[float]], tuple[float, ...]]  # cycle, earlier picks -> peaks
    config: Mapping[str, Any]  # what names it
    measure: Callable[[Stack], list[Outcome]] = reported

    @property
    def id(self) -> str:
        return digest(self.config)

    @property
    def cycles(self) -> int:
        return self.runs[0].cycles


def recorded(peaks: Sequence[float], seeds: Sequence[int], results: Mapping[Row, Outcome]) -> Record:
    """A cycle's outcomes by peak and seed, the best peak with its region, and what its rows reached."""
    grid = [[results[peak, seed] for seed in seeds] for peak in peaks]
    names = sorted({name for row in grid for outcome in row for name in outcome})
    of: Record = {"peaks": list(peaks)}
    of |= {f"each_{name}": [[outcome.get(name) for outcome in row] for row in grid] for name in names}
    pick = picked([mean(row) for row in grid])
    if pick is None:  # every peak lost a seed, so there is no network to go on from
        return {**of, "diverged": max(outcome.get("diverged", 0) for row in grid for outcome in row)}
    best = grid[pick.best]
    means = {name: mean(best, name) for name in names if name.endswith("accuracy")}
    region, steps = [peaks[pick.low], peaks[pick.high]], [outcome["step"] for outcome in best]
    return {**of, "peak": peaks[pick.best], "region": region, "edge": pick.edge, "step": steps, **means}


def mean(outcomes: Sequence[Outcome], name: str = "validation_accuracy") -> float | None:
    """Over seeds; a diverged seed disqualifies."""
    values = [outcome.get(name) for outcome in outcomes]
    return None if None in values else statistics.fmean(values)  # type: ignore[arg-type]


def standing(stack: Stack) -> Record:
    """Shares of weights that remain, of the prunable ones and of all, in the first seed; and if the guard acted."""
    names, every = mask.prunable(stack.net), mask.weights(stack.net)
    masks = {name: stack.masks[name][0] for name in names}
    exempt = {
        name: torch.ones_like(stack.net.get_parameter(name), dtype=torch.bool) for name in every if name not in names
    }
    densities = {"density": mask.density(masks), "density_all": mask.density({**masks, **exempt})}
    return {**densities, "guarded": bool(stack.now["guarded"].any())}


def words(record: Record) -> str:
    if "diverged" in record:
        return "no peak left: with each of them a seed diverged; search smaller ones"
    if len(record["peaks"]) == 1:
        return f"peak {record['peak']:g}"
    low, high = record["region"]
    edge = ", at the edge of the grid" if record["edge"] else ""
    return f"best peak {record['peak']:g}{edge}, feasible {low:g} to {high:g}"
