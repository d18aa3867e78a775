"""`scyc` as a command in a forked process: a real one, with faults of its own, in a fraction of a second."""

import importlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from scyc import cli

IMPORTED = ("scyc.training", "scyc.terminal", "scyc.report.rows", "scyc.report.formats", "torch._dynamo")

TINY = """
doc = "tiny"
seeds = 2
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 4
batch = 20
cycles = 3
[schedules.low]
peak = { name = "fixed", lr = 0.05 }
shape = "constant"
"""


@dataclass(frozen=True)
class Said:
    """What a command printed, its exit code (negative: the signal that ended it), and its seconds of the processor."""

    code: int
    out: str
    err: str
    seconds: float


def command(folder: Path, words: Sequence[str], before: Callable[[], object] = lambda: None) -> Said:
    """Do `scyc words` in this folder; `before` is called in its process first, and may spoil what it likes."""
    for name in IMPORTED:  # what takes most of a command's time, once for all of them
        importlib.import_module(name)
    pipes = [os.pipe(), os.pipe()]  # pipes: a full disk must not swallow what is said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        pid = os.fork()
    if not pid:
        for number, (_, send) in enumerate(pipes, 1):
            os.dup2(send, number)
        ended(folder, words, before)
    for _, send in pipes:
        os.close(send)
    with ThreadPoolExecutor() as pool:
        out, err = pool.map(everything, [receive for receive, _ in pipes])
    _, status, used = os.wait4(pid, 0)
    return Said(os.waitstatus_to_exitcode(status), out, err, used.ru_utime + used.ru_stime)


def ended(folder: Path, words: Sequence[str], before: Callable[[], object]) -> NoReturn:
    """The life of the forked process."""
    code = 1
    try:
        signal.alarm(120)  # nobody waits for ever
        sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))  # not those of the test's own capture
        os.chdir(folder)
        sys.argv = ["scyc", *words]
        before()
        cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def everything(receive: int) -> str:
    with open(receive, encoding="utf-8") as pipe:
        return pipe.read()


def journals(root: Path) -> dict[str, bytes]:
    """What was recorded, run by run."""
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/records.jsonl"))}
