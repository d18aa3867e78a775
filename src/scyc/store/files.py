"""Durable files: after any kill a file is the old one or the new one; links, pipes and devices are never followed."""

import errno
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

SPECIAL = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
TEMPORARY = re.compile(r"\..+\.(?P<host>[^/]+)-(?P<pid>[0-9]+)-[0-9a-f]{8}\.tmp")


class Integrity(ValueError):
    """Stored content that is not what was written; the message names the file, what was expected and what to do."""


class Full(OSError):
    """No room for a write; what was stored before is untouched."""


def full(path: Path, size: int, error: OSError) -> OSError:
    """The error of a failed write, worded for a full disk where it is one."""
    if error.errno not in FULL:
        return error
    why = os.strerror(error.errno)
    made = Full(f"{path}: no room for {size} bytes ({why}); free some and repeat, what is stored is intact")
    made.errno = error.errno
    return made


def write(path: Path, data: bytes) -> None:
    write_parts(path, [data], len(data))


def write_parts(path: Path, parts: Iterable[bytes | memoryview], size: int) -> None:
    """Put the parts, `size` bytes in all, in place of `path`: temporary file, fsync, rename, fsync of the folder."""
    clean_(path.parent)
    temporary = temporary_name(path)
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            for part in parts:
                write_all(fd, part)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        raise (full(path, size, error) if isinstance(error, OSError) else error) from None


def write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def read(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def opened(path: Path) -> BinaryIO:
    return open(plain(path, os.O_RDONLY), "rb")


def plain(path: Path, flags: int) -> int:
    """Open a plain file and nothing else: a link could lead anywhere, and a pipe would block for ever."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise (special(path) if error.errno in SPECIAL else error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise special(path)
    return fd


def special(path: Path) -> Integrity:
    return Integrity(f"{path}: expected a plain file, found a link, a folder or a device; remove it")


def folder_(path: Path) -> None:
    """Create a folder and its parents so that they survive a power cut; one that exists is left alone."""
    if path.is_dir():
        return
    folder_(path.parent)
    try:
        os.mkdir(path)
    except OSError as error:
        if not path.is_dir():  # else another process was faster
            raise full(path, 0, error) from None
    sync(path.parent)


def sync(folder: Path) -> None:
    """A new name is durable only when its folder is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network drives cannot sync a folder
            raise
    finally:
        os.close(fd)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that says which process writes it, so that others know when it is left over."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def clean_(folder: Path) -> list[str]:
    """Remove what killed processes of this host left half done; the names removed."""
    names = [name for name in os.listdir(folder) if name.endswith(".tmp") and left_over(name)]
    for path in (folder / name for name in names):
        with suppress(OSError):  # another process may clean at the same time
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else os.unlink(path)
    return names


def left_over(name: str) -> bool:
    found = TEMPORARY.fullmatch(name)
    return found is not None and found["host"] == socket.gethostname() and not alive(int(found["pid"]))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        return True
    return True


def whole_folder_(path: Path, name: str, data: bytes) -> None:
    """Create a folder that holds one file from the first moment it can be seen; whoever comes first wins."""
    temporary = temporary_name(path)
    try:
        os.mkdir(temporary)
        write(temporary / name, data)
        os.rename(temporary, path)
        sync(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise full(path / name, len(data), error) from None


def remove_folder_(path: Path) -> None:
    """Out of sight at once, then deleted; what a kill leaves is cleaned later."""
    temporary = temporary_name(path)
    with suppress(FileNotFoundError):
        os.rename(path, temporary)
        sync(path.parent)
        shutil.rmtree(temporary)
