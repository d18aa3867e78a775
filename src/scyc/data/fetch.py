"""Data sets from their own pages: resumed where a transfer stopped, checked, put in place whole or not at all."""

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from scyc.data.dataset import DataError
from scyc.data.inventory import OK
from scyc.data.sources import SOURCES, Remote, Source

Progress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all
BLOCK = 1 << 16
TIMEOUT = 30  # seconds without a byte
UNSATISFIABLE = 416  # the answer to a range that starts beyond the file


def silent(file: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def fetch(name: str, folder: Path, progress: Progress = silent, sources: Mapping[str, Source] = SOURCES) -> Path:
    """Where the set lies under the folder, got from its own page unless it is there already."""
    if name not in sources:
        raise ValueError(f"data set {name!r} is not one to get; those that are: {', '.join(sources)}")
    source = sources[name]
    problem = lacking(source, folder)
    target = folder / source.folder
    if problem and source.unpack is None:
        for remote in source.remotes:
            download(remote, target / remote.name, progress)
    elif problem and target.exists():
        raise DataError(f"{target} is there, but {problem}; remove it and run `scyc data get {name}` again")
    elif problem:
        unpack(source, target, [download(remote, folder / remote.name, progress) for remote in source.remotes])
    return source.published.place(folder)


def lacking(source: Source, folder: Path) -> str:
    """What is wrong with the set in this folder; empty if it is there and whole."""
    try:
        return "; ".join(state for _, state in source.published.check(folder) if state != OK)
    except DataError as error:
        return str(error)


def unpack(source: Source, target: Path, archives: list[Path]) -> None:
    """Into a temporary folder, then renamed: a folder of that name is always complete."""
    assert source.unpack is not None
    temporary = target.with_name(f"{target.name}.part")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for archive in archives:
            source.unpack(archive, temporary)
        temporary.rename(target)
        for archive in archives:
            archive.unlink()
    except OSError as error:
        raise DataError(f"{temporary} cannot be written: {error}") from error


def download(remote: Remote, file: Path, progress: Progress) -> Path:
    """The published file, from where an earlier transfer stopped; tried again as long as that brings more of it."""
    if file.is_file() and file_md5(file) == remote.md5:
        return file
    part = file.with_name(f"{file.name}.part")
    while (before := size(part)) < remote.size:
        fault = transfer(remote, part, progress)
        if size(part) <= before:
            raise DataError(
                f"{remote.url}: {fault}; {size(part)} of {remote.size} bytes are in {part}, run again to go on"
            )
    if (found := file_md5(part)) != remote.md5:
        part.unlink()
        raise DataError(f"{remote.url}: md5 {found}, expected {remote.md5}; it was removed, run again")
    part.replace(file)
    return file


def transfer(remote: Remote, part: Path, progress: Progress) -> str:
    """Append to the part what the server still has to give, and tell why it stopped."""
    start = size(part)
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            goes_on = (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-")
            with part.open("ab" if goes_on else "wb") as out:
                copy(response, out, remote, progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == UNSATISFIABLE:
            part.unlink(missing_ok=True)
        return str(error)
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    return "the transfer broke off"


def copy(response: http.client.HTTPResponse, out: BinaryIO, remote: Remote, progress: Progress) -> None:
    done = out.tell()
    while block := response.read(BLOCK):
        done += len(block)
        if done > remote.size:
            out.truncate(0)
            raise DataError(f"{remote.url}: longer than the {remote.size} bytes that were published")
        out.write(block)
        progress(remote.name, done, remote.size)
    out.flush()
    os.fsync(out.fileno())


def size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def file_md5(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
