"""Where a training stands and how long it will take: what every kind of progress shows."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from scyc.cycle import factors_of
from scyc.stack import Stack

Clock = Callable[[], float]


@dataclass(frozen=True)
class Standing:
    """A training at one moment."""

    cycle: int  # from 0
    cycles: int
    step: int
    steps: int
    runs: int  # in the stack that trains
    lowest: float  # learning rate over its runs
    highest: float
    best: float | None  # validation accuracy so far
    done: float  # share of all run-steps
    left: float | None  # seconds; None where nothing can be said yet


class Pace:
    """Run-steps done and to do. The first cycle holds what happens once, so it counts only while there is no other."""

    def __init__(self, total: int, clock: Clock = time.monotonic) -> None:
        self.total, self.clock = total, clock
        self.done = self.before = 0  # run-steps by this process, and by earlier ones
        self.began: float | None = None
        self.reached: dict[str, int] = {}  # steps of every run where its last cycle ended, or where it went on
        self.at = 0  # steps of the stack that trains
        self.first: tuple[float, int] | None = None  # when the first cycle had ended, and the run-steps until then
        self.best: float | None = None

    def began_at(self, stack: Stack) -> None:
        """What its runs have done before is done; a search's next cycle has a new stack, and nothing done before."""
        if self.began is None:
            self.began = self.clock()
        if not (self.reached and stack.cycle > 0 and not stack.history[0]):
            self.before += sum(max(0, steps_of(stack) - self.reached.get(id, 0)) for id in stack.ids)
        self.reached |= dict.fromkeys(stack.ids, steps_of(stack))
        self.at = steps_of(stack)
        recorded = [
            row["validation_accuracy"] for rows in stack.history for row in rows if "validation_accuracy" in row
        ]
        self.best = max([*recorded, *self.known], default=None)

    def stepped(self, stack: Stack) -> None:
        steps = steps_of(stack)
        self.done += max(0, steps - self.at) * len(stack.runs)
        self.at = steps
        if stack.curve and stack.curve[-1]["step"] == stack.step:
            self.best = max([*(a for a in stack.curve[-1]["accuracy"] if a is not None), *self.known], default=None)
        if stack.step == stack.steps:
            self.reached |= dict.fromkeys(stack.ids, steps)
            self.first = self.first or (self.clock(), self.done)

    @property
    def known(self) -> list[float]:
        return [] if self.best is None else [self.best]

    @property
    def left(self) -> float | None:
        """Seconds at the pace since the first cycle, or since the beginning while there is nothing else."""
        since, done = self.first or (self.began or 0.0, 0)
        if self.done <= done:
            since, done = self.began or 0.0, 0
        if not self.done:
            return None
        return (self.clock() - since) / (self.done - done) * max(0, self.total - self.before - self.done)

    def standing(self, stack: Stack) -> Standing:
        run, (low, high) = stack.run, rates(stack)
        share = min(1.0, (self.before + self.done) / max(1, self.total))
        return Standing(
            stack.cycle, run.cycles, stack.step, stack.steps, len(stack.runs), low, high, self.best, share, self.left
        )


def steps_of(stack: Stack) -> int:
    return stack.run.steps_before(stack.cycle) + stack.step


def rates(stack: Stack) -> tuple[float, float]:
    """The lowest and highest learning rate of the step just done."""
    step = max(stack.step - 1, 0)
    found = [stack.peak(k) * float(factors_of(run, stack.cycle)[step]) for k, run in enumerate(stack.runs)]
    return min(found), max(found)


def shown(seconds: float | None) -> str:
    """0:01:05"""
    if seconds is None:
        return "--:--"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
