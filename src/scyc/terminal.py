"""Progress for people: live on a terminal, one plain line per cycle elsewhere; always on stderr."""

import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from scyc.stack import Record, Stack

REDRAW = 0.1  # seconds


class Pace:
    """Run-steps done and to do, and the time left at the pace so far."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.monotonic()
        self.place: tuple[str, int] = ("", 0)

    def began_at(self, stack: Stack) -> None:
        self.place = (stack.name, steps_of(stack))

    def stepped(self, stack: Stack) -> None:
        steps = steps_of(stack)
        self.done += (steps - self.place[1]) * len(stack.runs)
        self.place = (stack.name, steps)

    @property
    def left(self) -> str:
        if not self.done:
            return "--:--"
        seconds = int((time.monotonic() - self.began) / self.done * max(0, self.total - self.done))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def steps_of(stack: Stack) -> int:
    return stack.cycle * stack.run.steps + stack.step


def summary(stack: Stack, records: Mapping[str, Record]) -> str:
    """A cycle in one line."""
    alive = [record for record in records.values() if "diverged" not in record]
    lost = f", {len(records) - len(alive)} diverged" if len(alive) < len(records) else ""
    head = f"cycle {stack.cycle + 1}/{stack.run.cycles}  {len(stack.runs)} runs{lost}"
    if not alive:
        return head
    density = 100 * alive[0]["density"]
    tests = [100 * record["test_accuracy"] for record in alive]
    peaks = [record["peak"] for record in alive]
    return (
        f"{head}  density {density:.2f} %  peak {min(peaks):.4g} to {max(peaks):.4g}  "
        f"test accuracy {min(tests):.1f} to {max(tests):.1f} %"
    )


class Lines:
    """One plain line per cycle, for pipes and logs."""

    def __init__(self, total: int) -> None:
        self.pace = Pace(total)

    def began(self, stack: Stack) -> None:
        self.pace.began_at(stack)
        again = f" from cycle {stack.cycle + 1}, step {stack.step}" if steps_of(stack) else ""
        together = "one at a time" if stack.engine.name == "single" else "in one stack"
        self.said(f"{len(stack.runs)} runs {together}{again}")

    def stepped(self, stack: Stack) -> None:
        self.pace.stepped(stack)

    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None:
        self.said(f"{summary(stack, records)}  left {self.pace.left}")

    def said(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Live:
    """A bar with cycle, step, rates and time left, and the cycles' lines above it."""

    def __init__(self, total: int) -> None:
        self.pace, self.drawn = Pace(total), 0.0
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), TextColumn("{task.fields[left]} left"))
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task("starting", total=max(1, total), left="--:--")
        self.progress.start()

    def began(self, stack: Stack) -> None:
        self.pace.began_at(stack)

    def stepped(self, stack: Stack) -> None:
        self.pace.stepped(stack)
        if time.monotonic() - self.drawn > REDRAW:
            self.drawn = time.monotonic()
            best = max((a for entry in stack.curve[-1:] for a in entry["accuracy"] if a is not None), default=None)
            place = f"cycle {stack.cycle + 1}/{stack.run.cycles} step {stack.step}/{stack.run.steps}"
            words = f"{place}, {len(stack.runs)} runs"
            words += f", validation up to {100 * best:.1f} %" if best is not None else ""
            self.progress.update(self.task, completed=self.pace.done, description=words, left=self.pace.left)

    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None:
        self.said(summary(stack, records))

    def said(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self.progress.stop()
