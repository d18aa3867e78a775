"""Progress for people: live on a terminal, one plain line per cycle elsewhere; always on stderr."""

import os
import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from scyc.pace import Pace, Standing, shown, steps_of
from scyc.stack import Record, Stack

REDRAW = 0.1  # seconds
WIDE = 110  # columns: from here on there is room for a bar


def interactive() -> bool:
    """Can a line be drawn again? Not in pipes and logs, and not on terminals that say they cannot."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def words(now: Standing) -> str:
    """A moment in one line."""
    rates = f"{now.lowest:.3g}" if now.lowest == now.highest else f"{now.lowest:.3g}–{now.highest:.3g}"
    best = "" if now.best is None else f", best validation {100 * now.best:.1f} %"
    place = f"cycle {now.cycle + 1}/{now.cycles} step {now.step}/{now.steps}"
    return f"{place}, {now.runs} run{'s' if now.runs > 1 else ''}, lr {rates}{best}"


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
        self.said(f"{summary(stack, records)}  left {shown(self.pace.left)}")

    def said(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Live:
    """A bar with cycle, step, rates, best accuracy and time left, and the cycles' lines above it."""

    def __init__(self, total: int) -> None:
        self.pace, self.drawn = Pace(total), 0.0
        console = Console(stderr=True)
        columns: list[ProgressColumn] = [
            TextColumn("{task.fields[left]} left", style="progress.remaining"),
            TextColumn("{task.description}"),
        ]  # what is cut is the end
        columns += [BarColumn(bar_width=12)] if console.width >= WIDE else []
        self.progress = Progress(*columns, console=console, transient=True)
        self.task = self.progress.add_task("starting", total=1.0, left="--:--")
        self.progress.start()

    def began(self, stack: Stack) -> None:
        self.pace.began_at(stack)

    def stepped(self, stack: Stack) -> None:
        self.pace.stepped(stack)
        if time.monotonic() - self.drawn > REDRAW:
            self.drawn = time.monotonic()
            now = self.pace.standing(stack)
            self.progress.update(self.task, completed=now.done, description=words(now), left=shown(now.left))

    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None:
        self.said(summary(stack, records))

    def said(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self.progress.stop()
