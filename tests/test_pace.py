"""Time left from a clock that the test turns, and what else progress says."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from examples import small, stack_of
from scyc import progress, terminal
from scyc.cycle import cycles
from scyc.pace import Pace, shown
from scyc.run import Run
from scyc.stack import Stack
from scyc.store.runs import Store


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def trained(runs: Sequence[Run], seconds: Sequence[float]) -> list[tuple[float, float, Stack]]:
    """Time left and the true time left at the end of every cycle, whose steps take so many seconds each."""
    clock, stack = Clock(), stack_of(runs)
    pace = Pace(sum(run.steps * run.cycles for run in runs), clock)
    pace.began_at(stack)

    def pulse(stack: Stack) -> None:
        clock.now += seconds[stack.cycle]
        pace.stepped(stack)

    said = []
    for _ in cycles(stack, pulse):
        said.append((pace.left or 0.0, clock.now))
    return [(left, clock.now - then, stack) for left, then in said]


def test_after_the_second_cycle_the_time_left_is_true_though_the_first_was_slow() -> None:
    """The first cycle compiles: ten times as slow. From the second on nothing is off by more than a fifth."""
    found = trained([small(cycles=6)], [10.0, 1.0, 1.1, 0.9, 1.0, 1.0])
    assert [true for _, true, _ in found] == pytest.approx([30, 24, 17.4, 12, 6, 0])
    for left, true, _ in found[1:]:
        assert left == pytest.approx(true, rel=0.2, abs=1e-9)


def test_steps_of_an_earlier_process_are_not_still_to_do() -> None:
    clock, run = Clock(), small(cycles=3)
    stack = stack_of([run])
    stack.step = 3  # of 6, where an earlier process stopped
    pace = Pace(18, clock)
    pace.began_at(stack)
    clock.now, stack.step = 1.0, 4
    pace.stepped(stack)
    assert pace.left == pytest.approx(14)  # 18 steps without the 4 that are done, one second each


def test_a_search_whose_next_cycle_has_other_rows_has_not_done_them_before() -> None:
    clock = Clock()
    first, second = stack_of([small()]), stack_of([small(), small(seed=1)])
    pace = Pace(18, clock)
    pace.began_at(first)
    for step in range(1, 7):
        clock.now, first.step = float(step), step
        pace.stepped(first)
    second.ids, second.cycle = ("other/0", "other/1"), 1
    pace.began_at(second)
    second.step = 1
    clock.now = 7.0
    pace.stepped(second)
    assert pace.before == 0
    assert pace.done == 6 + 2


def test_a_moment_has_rates_and_the_best_accuracy_so_far() -> None:
    run = small(peak={"name": "fixed", "lr": 0.2}, shape={"name": "warmup", "ramp": 4})
    stack, pace = stack_of([small(), run]), Pace(36)
    pace.began_at(stack)
    stack.step = 2
    stack.curve = [{"step": 2, "accuracy": [0.5, None]}]
    pace.stepped(stack)
    now = pace.standing(stack)
    assert (now.lowest, now.highest) == (0.1, 0.1)  # 0.1 throughout, and half of 0.2
    assert (now.best, now.done) == (0.5, 4 / 36)
    stack.step, stack.curve = 4, [{"step": 4, "accuracy": [0.4, 0.3]}]
    pace.stepped(stack)
    assert terminal.words(pace.standing(stack)) == "cycle 1/3 step 4/6, 2 runs, lr 0.1–0.2, best validation 50.0 %"


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "--:--"), (65.4, "0:01:05"), (3600, "1:00:00"), (0.6, "0:00:01")]
)
def test_seconds_as_a_clock(seconds: float | None, words: str) -> None:
    assert shown(seconds) == words


def test_news_lie_beside_the_store_while_it_trains(tmp_path: Path) -> None:
    store, stack = Store(tmp_path), stack_of([small()])
    news = progress.News(store, "e", 18)
    assert progress.read(store, "e") == {}
    news.began(stack)
    stack.step = 1
    news.stepped(stack)
    found = progress.read(store, "e")
    assert (found["cycle"], found["step"], found["steps"], found["runs"]) == (0, 1, 6, 1)
    assert found["age"] < 60
    news.close()
    assert progress.read(store, "e") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"time": "x"}'])
def test_broken_news_are_none(tmp_path: Path, text: str) -> None:
    path = progress.path_of(Store(tmp_path), "e")
    path.parent.mkdir()
    path.write_text(text)
    assert progress.read(Store(tmp_path), "e") == {}


def test_news_that_cannot_be_written_stop_nobody(tmp_path: Path) -> None:
    (tmp_path / ".progress").write_text("a file where the folder should be")
    stack = stack_of([small()])
    news = progress.News(Store(tmp_path), "e", 18)
    news.began(stack)
    stack.step = 1
    news.stepped(stack)
    news.close()


@pytest.mark.parametrize(
    ("tty", "term", "live"), [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)]
)
def test_only_a_terminal_that_can_redraws(monkeypatch: pytest.MonkeyPatch, tty: bool, term: str, live: bool) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stderr.isatty", lambda: tty, raising=False)
    assert terminal.interactive() is live


@pytest.mark.slow
@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_it_redraws_and_colours_only_where_it_may(tmp_path: Path, no_color: str) -> None:
    """A real terminal, as far as the command can tell: the line with everything, and with NO_COLOR no colour in it."""
    words = ["run", "digits", "--root", str(tmp_path), "--cycles", "2", "--seeds", "1", "--format", "json"]
    words += ["--set", "steps=2000", "--set", "eval_every=200"]  # long enough to be redrawn on any machine
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color, "COLUMNS": "80"}  # the usual width
    command = [sys.executable, "-m", "scyc.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=other, env=environment) as running:
        os.close(other)
        said = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
            while part := os.read(main, 65536):
                said += part
        assert running.wait(timeout=60) == 0
    os.close(main)
    bare = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    moment = r"\d:\d\d:\d\d left cycle \d/2 step \d+/2000, 6 runs, lr \S+–\S+, best validation \d+\.\d"
    assert re.search(moment, bare)
    assert (re.search(rb"\x1b\[[0-9;]*3\d", said) is None) is bool(no_color)
