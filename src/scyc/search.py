"""A greedy search over peaks: in every cycle all of them from the same start, and on from the best.

The trunk is a stack with one row per seed; it is never trained, only put where the picked rows stand, and pruned.
Branches are stacks of rows peak x seed that fork from the trunk. So scores are computed once per seed, not per peak.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scyc import cycle
from scyc import stack as stacks
from scyc.config import part
from scyc.data import Dataset
from scyc.peaks import picked
from scyc.question import Outcome, Question, Row, mean, recorded, standing, words
from scyc.run import PEAK, Run
from scyc.stack import Record, Stack, fresh_counters
from scyc.store.lock import Hold
from scyc.store.runs import Store
from scyc.study import Study, grouped, prefixed
from scyc.sweep import complete
from scyc.train.memory import out_of_memory, released
from scyc.train.precision import declared, repeating
from scyc.training import Control, Options


def fixed(run: Run, peak: float) -> Run:
    return replace(run, peak=part(PEAK, {"name": "fixed", "lr": peak}))


class Search:
    """A greedy search over peaks: durable, and the same after any kill."""

    def __init__(self, store: Store, question: Question, dataset: Dataset, options: Options, control: Control) -> None:
        self.store, self.question, self.dataset = store, question, dataset
        self.study = Study(store, question.id, options, control, self.contents)
        self.engine, self.width = options.engine, options.width
        self.records: list[Record] = []  # of the cycles that ended
        self.results: dict[Row, Outcome] = {}  # of this cycle, by row
        self.held: dict[Row, dict[str, Tensor]] = {}  # trained rows that may yet be picked
        self.branch: Stack | None = None

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.question.runs]

    @property
    def peaks(self) -> tuple[float, ...]:
        """Those of this cycle; what was picked before may decide them."""
        return self.question.grid(len(self.records), [record["peak"] for record in self.records])

    @property
    def over(self) -> bool:
        return bool(self.records) and over(self.records[-1], self.question.cycles)

    def run(self) -> list[Record]:
        """Search to the end; the records of all cycles. One that ended before is left alone."""
        id = self.question.id
        self.store.create(id, self.question.config)
        self.store.clean()
        if not complete(self.store, id):  # one that is needs no owner, and no folder that can be written to
            options, precision = self.study.options, self.question.runs[0].precision
            with Hold(self.store.root, [id]), repeating(options.deterministic), declared(precision):
                self.search_()
        return self.store.records(id)

    def search_(self) -> None:
        self.resume_()
        while not self.over:
            self.train_()
            self.close_()
        self.study.event("finished", seconds=round(self.study.seconds, 3))
        self.store.drop_stack(self.question.id)

    def started(self, rows: Sequence[Row]) -> Stack:
        """A stack of rows before it is put where they stand."""
        runs = {run.seed: run for run in self.question.runs}
        return stacks.start(
            ids_of(rows),
            [fixed(runs[seed], peak) for peak, seed in rows],
            self.dataset,
            engine=self.engine,
            device=self.study.options.device,
        )

    def resume_(self) -> None:
        found = self.study.load()
        self.engine = found[0]["trunk"]["engine"] if found else self.engine
        first = self.question.grid(0, [])[0]
        self.trunk = self.started([(first, seed) for seed in self.seeds])
        self.engine = self.trunk.engine.name  # the branches' too
        if self.engine == "single" and not self.width:
            self.width = 1
            self.study.say(f"one run at a time: {self.trunk.why_single or 'as asked'}")
        if found:
            self.restore_(found[0], grouped(found[1]))

    def restore_(self, head: Mapping[str, Any], groups: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.records, self.width = head["records"], head["width"]
        stacks.restore_(self.trunk, head["trunk"], groups["trunk"])
        self.results = {(peak, seed): outcome for peak, seed, outcome in head["results"]}
        device = self.study.options.device
        self.held = {
            (peak, seed): {name: tensor.to(device) for name, tensor in groups[f"held-{k}"].items()}
            for k, (peak, seed) in enumerate(head["held"])
        }
        if head["branch"]:
            self.branch = self.started(self.rows())
            stacks.restore_(self.branch, head["branch"], groups["branch"])
            self.tell_began(self.branch)
        for record in self.records[len(self.store.records(self.question.id)) :]:
            self.store.append(self.question.id, record)  # the process died between checkpoint and journal

    def contents(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        branch = self.branch if self.training else None
        head = {
            "cycle": len(self.records),
            "step": branch.step if branch else 0,
            "records": self.records,
            "width": self.width,
            "trunk": stacks.head(self.trunk),
            "branch": stacks.head(branch) if branch else {},
            "results": [[*row, outcome] for row, outcome in self.results.items()],
            "held": [list(row) for row in self.held],
        }
        tensors = prefixed("trunk", stacks.tensors(self.trunk))
        tensors |= prefixed("branch", stacks.tensors(branch)) if branch else {}
        for k, state in enumerate(self.held.values()):
            tensors |= prefixed(f"held-{k}", state)
        return head, tensors

    @property
    def training(self) -> bool:
        """Is the branch between its first and its last step?"""
        return self.branch is not None and not self.branch.ended and self.branch.step > 0

    def rows(self) -> list[Row]:
        """Those that train next: as many of this cycle's as fit."""
        left = [(peak, seed) for peak in self.peaks for seed in self.seeds if (peak, seed) not in self.results]
        return left[: self.width or len(left)]

    def train_(self) -> None:
        """Every row of this cycle."""
        while rows := self.rows():
            if self.study.control.signal:
                self.study.interrupted(len(self.records), 0)  # between two stacks there is nothing to save
            if not self.fit_(rows):
                released(self.study.options.device)  # only now: the error's traceback held the stack
                self.width = (len(rows) + 1) // 2
                self.study.event("out of memory", runs=len(rows))
                self.study.say(f"{len(rows)} runs do not fit into memory together: {self.width} at a time from here")

    def fit_(self, rows: list[Row]) -> bool:
        """Train these rows; False where they do not fit into memory together."""
        try:
            self.train_rows_(rows)
        except (RuntimeError, MemoryError, OSError) as error:
            if not out_of_memory(error) or len(rows) == 1:
                raise
            self.branch = None
            self.results = {row: outcome for row, outcome in self.results.items() if row not in rows}
            return False
        return True

    def train_rows_(self, rows: list[Row]) -> None:
        branch = self.branch if self.branch is not None and self.training else self.forked(rows)
        cycle.train_(branch, self.study.pulse)
        self.results |= dict(zip(rows, self.question.measure(branch), strict=True))
        self.tell_ended(branch)
        self.hold_(branch, rows)
        if self.rows():
            self.branch = None  # the next rows' stack is another, and takes its memory
            self.study.save()

    def forked(self, rows: list[Row]) -> Stack:
        """A branch whose rows stand where their seeds do; the last cycle's, where its rows are the same in number."""
        if self.branch is None or self.branch.ids != ids_of(rows):
            self.branch = None
            self.branch = self.started(rows)
            self.tell_began(self.branch)
        fork_(self.branch, self.trunk)
        return self.branch

    def hold_(self, branch: Stack, rows: list[Row]) -> None:
        """Keep the trained rows of peaks that are not complete and of the best that is; let all others go."""
        wanted = self.wanted()
        held = {row: state for row, state in self.held.items() if row[0] in wanted}
        groups = prefixed("weights", branch.engine.weights()) | prefixed("kept", branch.kept)
        for k, row in enumerate(rows):
            if row[0] in wanted:
                held[row] = {name: tensor[k].clone() for name, tensor in groups.items()}
        self.held = held

    def wanted(self) -> set[float]:
        """The peaks whose rows may yet be adopted."""
        outcomes = {
            peak: [self.results[peak, s] for s in self.seeds if (peak, s) in self.results] for peak in self.peaks
        }
        alive = {peak: rows for peak, rows in outcomes.items() if rows and not any("diverged" in r for r in rows)}
        complete = {peak: mean(rows) for peak, rows in alive.items() if len(rows) == len(self.seeds)}
        pick = picked(list(complete.values()))
        return alive.keys() - complete.keys() | ({list(complete)[pick.best]} if pick else set())

    def close_(self) -> None:
        """Record the cycle, go on from the picked rows; the checkpoint first, so that the journal can be said again."""
        results = recorded(self.peaks, self.seeds, self.results)
        record = {"cycle": len(self.records), **standing(self.trunk), **results}
        if not over(record, self.question.cycles):
            self.adopt_(record["peak"])
            cycle.advance_(self.trunk)
        self.records, self.results, self.held = [*self.records, record], {}, {}
        self.study.save()
        self.store.append(self.question.id, record)
        self.study.event("cycle", cycle=record["cycle"], seconds=round(self.study.seconds, 3))
        self.study.say(f"cycle {record['cycle'] + 1}/{self.question.cycles}  {words(record)}")

    def adopt_(self, peak: float) -> None:
        """Put the trunk where the picked rows stand; masks are the same for all rows of a seed."""
        states = [self.held[peak, seed] for seed in self.seeds]
        groups = grouped({name: torch.stack([state[name] for state in states]) for name in states[0]})
        self.trunk.engine.begin_(groups["weights"], self.trunk.masks)
        self.trunk.kept = groups.get("kept", {})

    def tell_began(self, stack: Stack) -> None:
        for listener in self.study.control.listeners:
            listener.began(stack)

    def tell_ended(self, stack: Stack) -> None:
        for listener in self.study.control.listeners:
            if stack.history[0]:  # records, where there is a test accuracy to tell
                listener.ended(stack, {id: rows[-1] for id, rows in zip(stack.ids, stack.history, strict=True)})


def over(record: Record, cycles: int) -> bool:
    """Does nothing come after this record?"""
    return "diverged" in record or record["cycle"] == cycles - 1


def fork_(branch: Stack, trunk: Stack) -> None:
    """Put every row where its seed stands in the trunk: weights, masks, rewind snapshot; nothing counted yet."""
    seeds = [run.seed for run in trunk.runs]
    rows = [seeds.index(run.seed) for run in branch.runs]
    weights, masks, kept, now = (
        {name: tensor[rows] for name, tensor in named.items()}
        for named in (trunk.engine.weights(), trunk.masks, trunk.kept, trunk.now)
    )
    branch.cycle, branch.step, branch.ended, branch.masks, branch.kept = trunk.cycle, 0, False, masks, kept
    branch.best, branch.curve, branch.history = {}, [], [[] for _ in rows]
    branch.now = fresh_counters(len(rows)) | {"guarded": now["guarded"]}
    branch.engine.begin_(weights, masks)
    finite = trunk.engine.finite[rows]  # a row whose network diverged in the last cycle lives again
    branch.engine.restore_({"finite": finite, "losses": torch.zeros_like(branch.engine.losses)})


def ids_of(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(f"{peak!r}/{seed}" for peak, seed in rows)
