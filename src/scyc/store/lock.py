"""A run has one owner: the kernel keeps one locked byte per run in `root/.lock`, and frees it when the owner dies.

On Linux the locks belong to the open file, not to the process: closing another descriptor of the file drops nothing,
two owners in one process exclude each other, and workers forked by a killed owner keep its runs until they end too.
Elsewhere they are POSIX record locks: per process, and dropped when it closes any descriptor of the file.
"""

import errno
import fcntl
import os
import re
import secrets
import socket
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from scyc.store import files, journal
from scyc.store.names import run_id

FLOCK = "hhqqi"  # struct flock of 64-bit Linux: type, whence, start, length, pid
FACTS = re.compile(r"(?P<host>[^/]+)-(?P<pid>[0-9]+)-[0-9a-f]{8}\.json")
INTRODUCING = 0.2  # seconds that an owner may take from its locks to its note


class Held(ValueError):
    """Another owner has the run."""


class Hold:
    """Own runs for the length of a `with` block: all of them, or none and `Held`."""

    def __init__(self, root: Path, ids: Iterable[str]) -> None:
        self.root, self.ids = Path(root), sorted(set(ids))

    def __enter__(self) -> Self:
        self._fd = opened(self.root)
        try:
            for id in self.ids:
                if not taken_(self._fd, int(run_id(id), 16), self.root):
                    raise Held(f"run {id} is held by {holder(self.root, id)}; wait for it or stop it")
            self._facts = introduced_(self.root, self.ids)
        except BaseException:
            freed_(self._fd)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.unlink(self._facts)
        freed_(self._fd)


def opened(root: Path) -> int:
    try:
        files.folder_(root)
        return files.plain(root / ".lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno in files.FULL:
            raise files.full(root / ".lock", 1, error) from None
        raise ValueError(f"{root}: cannot be written ({error.strerror}); choose a folder of your own as root") from None


def taken_(fd: int, start: int, root: Path) -> bool:
    """Lock one byte; False if another owner has it."""
    try:
        if sys.platform == "linux":
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))
        else:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, start)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise ValueError(f"{root}: files cannot be locked here ({error.strerror}); choose a local disk") from None
    return True


def freed_(fd: int) -> None:
    """Unlock before closing: a forked worker may still have the file open."""
    if sys.platform == "linux":
        with suppress(OSError):  # a drive that knows no locks has none to free
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
    os.close(fd)


def introduced_(root: Path, ids: list[str]) -> Path:
    """Leave a note of who owns the runs; it is for messages only, so a full disk must not stop a removal."""
    folder, host, pid = root / ".holders", socket.gethostname(), os.getpid()
    path = folder / f"{host}-{pid}-{secrets.token_hex(4)}.json"
    with suppress(OSError):
        files.folder_(folder)
        for name in os.listdir(folder):
            if stale(name):
                os.unlink(folder / name)
        files.write(path, journal.seal({"host": host, "pid": pid, "runs": ids}) + b"\n")
    return path


def stale(name: str) -> bool:
    """Was this note left by a killed process of this host?"""
    found = FACTS.fullmatch(name)
    return found is not None and found["host"] == socket.gethostname() and not files.alive(int(found["pid"]))


def holder(root: Path, id: str) -> str:
    """Who says to own the run."""
    deadline = time.monotonic() + INTRODUCING
    while True:
        for who, ids in holders(root):
            if id in ids:
                return who
        if time.monotonic() > deadline:
            return "another process"
        time.sleep(0.01)


def holders(root: Path) -> list[tuple[str, list[str]]]:
    """Every owner that may live, and what it says to own."""
    found = []
    for path in sorted((root / ".holders").glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            (note,), _ = journal.read(path)
            if not stale(path.name):
                found.append((f"process {note['pid']} on {note['host']}", [str(id) for id in note["runs"]]))
    return found
