"""Faults for real: processes that die at a chosen call, disks that are full after a chosen byte."""

import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from scyc import cli
from scyc.store.runs import Store

LATE = ("scipy.stats", "scyc.terminal", "scyc.training", "scyc.search", "scyc.report.formats", "scyc.report.oracle")
CALLS = ["open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate", "close"]


class Faults:
    """Runs jobs in forked processes, so that a fault costs milliseconds and harms nobody else."""

    def __init__(self) -> None:
        self.pids: set[int] = set()

    def start(self, job: Callable[[], object]) -> int:
        """The pid of a process that does the job and ends: status 0, or 1 if it raised."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
            pid = os.fork()
        if pid:
            self.pids.add(pid)
            return pid
        signal.alarm(60)  # nobody waits for ever
        try:
            job()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def status(self, pid: int) -> int:
        self.pids.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def child(self, job: Callable[[], object]) -> int:
        return self.status(self.start(job))

    def command(self, words: list[str], folder: Path, change: Callable[[], object] = lambda: None) -> int:
        """The pid of a process that does `scyc WORDS` in a folder, and says it in the files out-PID and err-PID."""

        def call() -> None:
            os.chdir(folder)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(f"{name}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
            sys.argv, sys.stdout, sys.stderr = ["scyc", *words], os.fdopen(1, "w"), os.fdopen(2, "w", 1)
            change()
            try:
                cli.main()
            except SystemExit as stop:
                sys.stdout.flush()
                os._exit(stop.code if isinstance(stop.code, int) else 1)

        for name in LATE:  # what commands import, once and not in every forked process
            import_module(name)
        return self.start(call)

    def killed_midway(self, words: list[str], folder: Path, root: str) -> None:
        """Do `scyc WORDS --root ROOT` and kill it when its first checkpoint is there."""
        pid = self.command([*words, "--root", root], folder)
        while not Store(folder / root).stacks():
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        assert self.status(pid) == -signal.SIGKILL

    def killed_at(self, number: int, job: Callable[[], object]) -> bool:
        """Do the job in a process that is killed at its n-th call that touches files; a write gets half done first."""

        def mortal() -> None:
            left = iter(range(number, -1, -1))
            for name in CALLS:
                setattr(os, name, dying(name, getattr(os, name), left))
            job()

        status = self.child(mortal)
        assert status in (0, -signal.SIGKILL), status
        return status != 0

    def everywhere(self, job: Callable[[], object]) -> Iterator[int]:
        """Kill the job at its first call, at its second, and so on; ends when it came through."""
        number = 0
        while self.killed_at(number, job):
            yield number
            number += 1
        assert number > 3, "the job was never killed, so nothing was tested"

    def limited(self, size: int, job: Callable[[], object]) -> int:
        """Do the job in a process whose files may not grow beyond `size` bytes: the kernel stops its writes midway."""

        def cramped() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            job()

        return self.child(cramped)


def dying(name: str, call: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
    def mortal(*arguments: object, **fields: object) -> object:
        if next(left) == 0:
            if name == "write":
                call(arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2])  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **fields)

    return mortal
