"""What SIGINT and SIGTERM do: they end a command at once, except that a training saves the step in hand first."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scyc.training import Control

ASKING = (signal.SIGINT, signal.SIGTERM)
CURSOR = "\x1b[?25h"  # shows a terminal's cursor, which a progress bar hides


class Stopped(BaseException):
    """A signal came where nothing had to be saved; not an Exception, so that nobody on the way takes it for a fault."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.signal = number


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    former = {number: signal.signal(number, handler) for number in ASKING}
    try:
        yield
    finally:
        for number, one in former.items():
            signal.signal(number, one)


def ending(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def saving(control: "Control") -> Callable[[int, FrameType | None], None]:
    """The first signal saves the stack after the step in hand; a second one is not even seen by Python."""

    def ask(number: int, _: FrameType | None) -> None:
        control.signal = number
        for asking in ASKING:
            signal.signal(asking, signal.SIG_DFL)
        shown = CURSOR if sys.stderr.isatty() else ""
        print(f"{shown}stopping after this step; once more stops at once", file=sys.stderr, flush=True)

    return ask


@contextmanager
def stopping(control: "Control") -> Iterator[None]:
    """For the time of a training, after which a signal ends the command again."""
    with handled(saving(control)):
        yield
