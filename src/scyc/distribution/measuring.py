"""Measuring while runs train: a listener that looks on after every step, and writes beside each run's records."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from scyc import mask
from scyc.cycle import factors_of
from scyc.distribution.capture import Capture
from scyc.distribution.measure import Settings, measured
from scyc.run import Run, effective
from scyc.stack import Record, Stack
from scyc.store.runs import Store

JOURNAL = "distribution"
KEY = ("batches", "weights", "cycle", "moment")
MOMENTS = ("peak", "end")
REHEARSAL = Settings(batches=1)


def peak_step(run: Run, cycle: int) -> int:
    """The first step with the highest learning rate of a cycle; the run has its scale applied."""
    return int(factors_of(run, cycle).argmax())


def rows(store: Store, id: str, settings: Settings) -> list[Record]:
    """What was measured of a run with these settings, in the order of time."""
    return [row for row in store.beside(id, JOURNAL) if {**row, **vars(settings)} == row]


def due(run: Run, cycle: int, step: int) -> list[tuple[int, str]]:
    """What has to be measured by the time a run stands here: (cycle, moment) pairs."""
    before = [(m, moment) for m in range(cycle) for moment in MOMENTS]
    reached = {"peak": step > peak_step(run, cycle), "end": step >= run.steps_of(cycle)}
    return before + [(cycle, moment) for moment in MOMENTS if reached[moment]]


class Measuring:
    """Listens to a training; `Training` calls it after every step, before it saves anything."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings

    def covers(self, id: str, run: Run, cycle: int, step: int) -> bool:
        """Is everything measured that was to be measured until here? A run that diverged has nothing more to show."""
        found = {(row["cycle"], row["moment"]) for row in rows(self.store, id, self.settings)}
        return any(moment == "diverged" for _, moment in found) or found.issuperset(due(effective(run), cycle, step))

    def complete(self, id: str, run: Run) -> bool:
        return self.covers(id, run, run.cycles, 0)

    def began(self, stack: Stack) -> None:
        """What cannot be measured is refused before it trains."""
        self.capture = Capture(stack)
        measured(stack, torch.zeros(1, dtype=torch.int64, device=stack.feed.device), self.capture, REHEARSAL)

    def stepped(self, stack: Stack) -> None:
        peaks = torch.tensor([peak_step(run, stack.cycle) for run in stack.runs])
        if (at_peak := peaks == stack.step - 1).any():
            self.measure(stack, "peak", at_peak)
        if stack.step == stack.steps:
            self.measure(stack, "end", torch.ones_like(at_peak))

    def measure(self, stack: Stack, moment: str, chosen: Tensor) -> None:  # (runs,) bool
        """Durable before any checkpoint of this step is; when the step is repeated, the same numbers come again."""
        alive = stack.engine.finite.cpu()
        for k in (chosen & ~alive).nonzero()[:, 0].tolist():
            self.lose(stack.ids[k], stack.cycle)
        rows = (chosen & alive).nonzero()[:, 0]
        if not len(rows):
            return
        result = measured(stack, rows.to(stack.feed.device), self.capture, self.settings)
        sound = result.finite.tolist()
        for place, k in enumerate(rows.tolist()):
            id = stack.ids[k]
            if sound[place]:
                summary = result.summary(place, self.reference(id, moment))
                self.note(id, stack.cycle, moment, step=stack.step, density=density(stack, k), **summary)
            else:
                self.lose(id, stack.cycle)

    def reference(self, id: str, moment: str) -> Mapping[str, Any] | None:
        """Cycle 0's row of the same moment, which fixes edges and thresholds; None while there is none."""
        found = rows(self.store, id, self.settings)
        return next((row for row in found if (row["cycle"], row["moment"]) == (0, moment)), None)

    def note(self, id: str, cycle: int, moment: str, **facts: Any) -> None:
        row = {"cycle": cycle, "moment": moment, **vars(self.settings), **facts}
        self.store.append_beside(id, JOURNAL, row, KEY)

    def lose(self, id: str, cycle: int) -> None:
        """Once: there is nothing more to measure of a run that diverged."""
        if all(row["moment"] != "diverged" for row in rows(self.store, id, self.settings)):
            self.note(id, cycle, "diverged")

    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None:
        for id, record in records.items():
            if "diverged" in record:
                self.lose(id, record["cycle"])

    def said(self, line: str) -> None:
        """Words are for others."""


def density(stack: Stack, k: int) -> float:
    """The share of one run's prunable weights that remain."""
    return mask.density({name: stack.masks[name][k] for name in mask.prunable(stack.net)})
