"""Files are read whole, never beyond the size they must have, and compared with their published checksums."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from scyc.data.dataset import DataError

GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Known:
    """The size and checksum a file's content must have, unpacked: the same however it was compressed."""

    size: int
    md5: str


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def content(path: Path, limit: int) -> bytes:
    """At most `limit` + 1 bytes of a file, unpacked where it is gzipped: one byte more says that it is too large."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            return gzip.GzipFile(fileobj=file).read(limit + 1) if packed else file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def verify(content: bytes, known: Known, source: object) -> bytes:
    """The content itself, if it has the size and the checksum it must have."""
    if len(content) < known.size:
        raise DataError(f"{source} is truncated: {len(content)} of {known.size} bytes")
    if len(content) > known.size:
        raise DataError(f"{source} is not the published file: more than {known.size} bytes")
    if md5(content) != known.md5:
        raise DataError(f"{source} is not the published file: md5 {md5(content)}, expected {known.md5}")
    return content


def verified(path: Path, known: Known) -> bytes:
    """A file's content, unpacked, if it is the published one."""
    return verify(content(path, known.size), known, path)
