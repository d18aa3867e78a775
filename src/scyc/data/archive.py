"""Members of archives by their exact names: bounded in size, never links, never written where a name says."""

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from scyc.data.dataset import DataError

SLACK = 1 << 20  # bytes for the headers and the small files (readme, class names) that are passed over


class Bounded(io.RawIOBase):
    """A stream that refuses to give more than `limit` bytes: what an archive unpacks to is not known before."""

    def __init__(self, stream: io.BufferedIOBase, limit: int) -> None:
        self.stream, self.left = stream, limit

    def read(self, size: int = -1) -> bytes:
        content = self.stream.read(self.left + 1 if size < 0 else size)
        self.left -= len(content)
        if self.left < 0:
            raise tarfile.ReadError("it unpacks to more than the published archive")
        return content


def members(path: Path, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """The named files of a .tar.gz, in its order, read as a stream and no further than the last of them."""
    left = set(sizes)
    try:
        with gzip.open(path) as unpacked, tarfile.open(fileobj=bounded(unpacked, sizes), mode="r|") as archive:
            for member in archive:
                if member.name in left:
                    left.remove(member.name)
                    yield member.name, file_bytes(archive, member, sizes[member.name])
                if not left:
                    return
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    raise DataError(f"{path} lacks {min(left)}")


def bounded(stream: gzip.GzipFile, sizes: Mapping[str, int]) -> Bounded:
    return Bounded(stream, sum(sizes.values()) + SLACK)


def file_bytes(archive: tarfile.TarFile, member: tarfile.TarInfo, size: int) -> bytes:
    file = archive.extractfile(member) if member.isreg() else None
    if file is None or member.size != size:
        raise tarfile.ReadError(
            f"{member.name} should be a file of {size} bytes, and is {member.size} bytes of another kind"
        )
    return file.read()


def unzip(path: Path, folder: Path, wanted: re.Pattern[str], limit: int) -> None:
    """Write the members of a .zip whose whole name matches into a folder that holds what their first folder held."""
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = [info for info in archive.infolist() if wanted.fullmatch(info.filename)]
            if sum(info.file_size for info in chosen) > limit:
                raise zipfile.BadZipFile(f"it unpacks to more than {limit} bytes")
            for info in chosen:
                write_member(archive, info, folder)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be unpacked: {error}") from error


def write_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, folder: Path) -> None:
    if stat.S_ISLNK(info.external_attr >> 16):
        raise zipfile.BadZipFile(f"{info.filename} is a link")
    _, *names = PurePosixPath(info.filename).parts
    file = folder.joinpath(*names)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(archive.read(info))  # no more than the size its entry says, which is within the limit
