"""Append-only JSON lines, each sealed by a checksum of its own bytes: {"cycle":0,...,"crc32":"1a2b3c4d"}."""

import fcntl
import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from scyc.store import files
from scyc.store.files import Integrity

SEAL = b',"crc32":"%08x"}'  # over the bytes before it, so that checking needs no second serialisation
LENGTH = len(SEAL % 0)
LAST = 1 << 14  # bytes, in which most last lines lie
PATIENCE = 10.0  # seconds to wait for another writer, who needs milliseconds
SEALED = re.compile(rb',"crc32":"[0-9a-f]{8}"\}')


def canonical(value: Any) -> bytes:
    """One spelling per value: sorted keys, no spaces, no NaN."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        why = f"{misfit(value)} cannot be stored as JSON ({error})"
        raise ValueError(f"{why}; store finite numbers, text, lists or None") from None


def misfit(value: Any, place: tuple[str, ...] = ()) -> str:
    """Where in a nested value the first part lies that JSON has no word for, and what it is."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in inner if len(place) < 20 else ():  # a list may hold itself
        try:
            json.dumps({key: item}, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError):
            return misfit(item, (*place, str(key)))
    return f"{'.'.join(place) or 'value'} = {' '.join(repr(value).split())[:60]}"


def parse(text: bytes) -> Any:
    """JSON as we write it: UTF-8, no NaN or Infinity; anything else is a ValueError."""
    return from_json(text, allow_inf_nan=False)


def seal(row: Mapping[str, Any]) -> bytes:
    if not row or "crc32" in row:
        raise ValueError(f"row {dict(row)!r} cannot be sealed: give it at least one field and none named 'crc32'")
    body = canonical(row)[:-1]
    parse(b"[" + body + b"}]")  # nothing is acknowledged that could not be read back, such as very deep nesting
    return body + SEAL % zlib.crc32(body)


def intact(line: bytes) -> bool:
    return line[-LENGTH:] == SEAL % zlib.crc32(line[:-LENGTH])


def unseal(data: bytes, path: Path, start: str = "") -> list[dict[str, Any]]:
    """The rows of whole lines; a line whose checksum is wrong is named. `start` as for `read`."""
    lines = data.split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        if not intact(line):
            raise damaged(path, number)
    bodies = [shortened(line, b',"%s":' % start.encode()) if start else line[:-LENGTH] for line in lines]
    text = b"[" + b"},".join(bodies) + b"}]"  # one call for all lines is faster
    try:
        rows = parse(text) if lines else []
    except ValueError as error:
        raise Integrity(f"{path}: expected a JSON object on every line ({error}); restore it from a copy") from None
    if len(rows) != len(lines) or not all(type(row) is dict for row in rows):
        raise Integrity(f"{path}: expected one JSON object on every line; restore it from a copy")
    return rows


def shortened(line: bytes, key: bytes) -> bytes:
    """A line's body without the fields before a key of its own: in a string the key's quotes would be escaped."""
    place = line.find(key)
    return line[:-LENGTH] if place < 0 or line.find(b"{", 1, place) > 0 else b"{" + line[place + 1 : -LENGTH]


def damaged(path: Path, number: int) -> Integrity:
    fix = "restore the file from a copy, or remove the run to compute it again"
    return Integrity(f"{path}: line {number} does not match its checksum, it was changed after it was written; {fix}")


def split(data: bytes, path: Path) -> tuple[bytes, bytes]:
    """Whole lines, and what an interrupted writer left of a last one; one that only lacks its newline is whole."""
    end = data.rfind(b"\n") + 1
    tail = data[end:]
    if tail and intact(tail):
        return data + b"\n", b""
    if any(intact(tail[: found.end()]) for found in SEALED.finditer(tail)):  # no torn write goes on after a whole line
        raise damaged(path, data.count(b"\n") + 1)
    return data[:end], tail


def read(path: Path, start: str = "") -> tuple[list[dict[str, Any]], bool]:
    """The rows, and whether a torn last line (an append that was interrupted, so never acknowledged) was left out.

    Keys are sorted: with `start` only the fields from this one on are parsed, which saves the time of long ones before.
    """
    whole, torn = split(files.read(path), path)
    return unseal(whole, path, start), bool(torn)


def last(path: Path) -> dict[str, Any]:
    """The last row, without looking at those before it; empty where there is none."""
    length = LAST
    with files.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        while True:
            begin = max(0, size - length)
            lines = os.pread(file.fileno(), size - begin, begin).split(b"\n")
            if begin == 0 or (len(lines) > 2 and not lines[-1]):  # else the line reaches further back, or it is torn
                break
            length *= 4
    if begin == 0 or not intact(lines[-2]):  # let the careful way say what is wrong, and where
        rows, _ = read(path)
        return rows[-1] if rows else {}
    return unseal(lines[-2] + b"\n", path)[0]


def append_(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add rows durably, all or none; returns how many bytes of a torn last line were cut off first."""
    data = b"".join(seal(row) + b"\n" for row in rows)
    try:
        fd = files.plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise files.full(path, len(data), error) from None
    try:
        alone_(fd, path)
        return extend_(fd, data, path)
    finally:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)  # a worker forked meanwhile has the descriptor too
        os.close(fd)


def alone_(fd: int, path: Path) -> None:
    """Wait until nobody else appends, so that no tail is cut that another process is still writing."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ValueError(f"{path}: another process keeps it locked for writing; stop it and repeat") from None
        time.sleep(0.001)


def extend_(fd: int, data: bytes, path: Path) -> int:
    former = os.pread(fd, os.fstat(fd).st_size, 0)
    whole, torn = split(former, path)
    size = min(len(whole), len(former))
    try:
        if torn:
            os.ftruncate(fd, size)
        files.write_all(fd, whole[size:] + data)  # whole[size:] is the newline that the last line lacks
        os.fsync(fd)
        if not former:
            files.sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(fd, size)
            os.fsync(fd)
        raise files.full(path, len(data), error) from None
    return len(torn)
