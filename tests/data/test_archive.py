import gzip
import io
import re
import stat
import tarfile
import zipfile
from itertools import count
from pathlib import Path

import pytest
from tiny_files import tar_gz

from scyc.data import DataError
from scyc.data.archive import SLACK, members, unzip

FILES = {"a": b"first", "readme": b"passed over", "b": b"second"}
SIZES = {"set/a": 5, "set/b": 6}
WANTED = re.compile(r"set/(list\.txt|deep/\d\.txt)")


def packed(folder: Path, content: bytes) -> Path:
    (folder / "set.tar.gz").write_bytes(content)
    return folder / "set.tar.gz"


def special(name: str, kind: bytes, link: str = "") -> bytes:
    """An archive whose only member is no plain file."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        archive.addfile(member)
    return written.getvalue()


def test_members_are_read_by_their_exact_names(tmp_path: Path) -> None:
    assert dict(members(packed(tmp_path, tar_gz("set", FILES)), SIZES)) == {"set/a": b"first", "set/b": b"second"}


@pytest.mark.parametrize("prefix", ["./set", "../set", "/set", "set/set"])
def test_similar_names_are_not_taken(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(DataError, match=r"set\.tar\.gz lacks set/a"):
        list(members(packed(tmp_path, tar_gz(prefix, FILES)), SIZES))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (tar_gz("set", {"a": b"first"}), "lacks set/b"),
        (tar_gz("set", FILES | {"a": b"longer"}), "set/a should be a file of 5 bytes"),
        (tar_gz("set", FILES | {"a": b""}), "set/a should be a file of 5 bytes"),
        (special("set/a", tarfile.SYMTYPE, "/etc/passwd"), "set/a should be a file of 5 bytes"),
        (special("set/a", tarfile.LNKTYPE, "set/b"), "set/a should be a file of 5 bytes"),
        (special("set/a", tarfile.FIFOTYPE), "set/a should be a file of 5 bytes"),
        (tar_gz("set", FILES)[:60], "cannot be read: Compressed file ended"),
        (gzip.compress(b"no tar archive"), "cannot be read"),
        (b"no gzip", "cannot be read: Not a gzipped file"),
        (b"", "cannot be read"),
    ],
    ids=count(),  # by its bytes a case would have another name every second: gzip notes the time
)
def test_a_damaged_or_forged_tar_is_one_line(tmp_path: Path, content: bytes, line: str) -> None:
    with pytest.raises(DataError, match=line) as error:
        list(members(packed(tmp_path, content), SIZES))
    assert "\n" not in str(error.value)


def test_a_bomb_before_the_members_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    bomb = packed(tmp_path, tar_gz("set", {"large": bytes(SLACK + 1000)} | FILES))
    with pytest.raises(DataError, match="unpacks to more than the published archive"):
        list(members(bomb, SIZES))


def zipped(folder: Path, files: dict[str, bytes], mode: int = 0o644) -> Path:
    with zipfile.ZipFile(folder / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return folder / "set.zip"


def test_only_wanted_members_are_written(tmp_path: Path) -> None:
    files = {"set/list.txt": b"1", "set/deep/7.txt": b"7", "set/other.txt": b"0"}
    evil = {
        "set/../../evil.txt": b"0",
        "/etc/evil": b"0",
        "set/deep/7.txt/../../../evil": b"0",
        "../set/list.txt": b"0",
    }
    unzip(zipped(tmp_path, files | evil), tmp_path / "in/out", WANTED, limit=2)
    written = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*.txt")}
    assert written == {"in/out/list.txt": b"1", "in/out/deep/7.txt": b"7"}


def test_a_zip_is_bounded(tmp_path: Path) -> None:
    bomb = zipped(tmp_path, {"set/list.txt": bytes(1_000_000), "set/deep/1.txt": b"1"})
    with pytest.raises(DataError, match=r"set\.zip cannot be unpacked: it unpacks to more than 1000 bytes"):
        unzip(bomb, tmp_path / "out", WANTED, limit=1000)
    assert not (tmp_path / "out").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    links = zipped(tmp_path, {"set/list.txt": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    with pytest.raises(DataError, match=r"set/list\.txt is a link"):
        unzip(links, tmp_path / "out", WANTED, limit=1000)


@pytest.mark.parametrize(
    ("start", "stop", "line"), [(0, -30, "File is not a zip file"), (0, 0, "File is not a zip file")]
)
def test_a_truncated_zip_is_one_line(tmp_path: Path, start: int, stop: int, line: str) -> None:
    file = zipped(tmp_path, {"set/list.txt": b"1"})
    file.write_bytes(file.read_bytes()[start:stop])
    with pytest.raises(DataError, match=line):
        unzip(file, tmp_path / "out", WANTED, limit=1000)


def test_a_flipped_bit_in_a_zip_is_one_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("set/list.txt", b"true words")
    content = (tmp_path / "set.zip").read_bytes()
    (tmp_path / "set.zip").write_bytes(content.replace(b"true words", b"tree words"))
    with pytest.raises(DataError, match="Bad CRC-32"):
        unzip(tmp_path / "set.zip", tmp_path / "out", WANTED, limit=1000)
