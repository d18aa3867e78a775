import gzip
from itertools import count
from pathlib import Path

import pytest

from scyc.data import DataError
from scyc.data.checksum import Known, content, verified

HELLO = Known(5, "5d41402abc4b2a76b9719d911017c592")  # the well-known md5 of "hello"


@pytest.mark.parametrize("level", [None, 1, 9])
def test_the_same_content_verifies_however_it_is_packed(tmp_path: Path, level: int | None) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"hello" if level is None else gzip.compress(b"hello", level))
    assert verified(file, HELLO) == b"hello"


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (b"hell", "is truncated: 4 of 5 bytes"),
        (b"hello!", "is not the published file: more than 5 bytes"),
        (b"hallo", "md5 598d4c200461b81522a3328565c25f7c, expected 5d41402abc4b2a76b9719d911017c592"),
        (gzip.compress(b"hello")[:-4], "cannot be read: Compressed file ended"),
        (gzip.compress(b"hello")[:-8] + bytes(8), "cannot be read: CRC check failed"),
        (gzip.compress(b"hello")[:10] + b"\xff" * 10, "cannot be read: Error -3 while decompressing"),
        (gzip.compress(b"hello!"), "more than 5 bytes"),
    ],
    ids=count(),  # gzip notes the time
)
def test_another_file_is_one_line(tmp_path: Path, written: bytes, line: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(written)
    with pytest.raises(DataError, match=line) as error:
        verified(file, HELLO)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bomb_is_unpacked_no_further_than_one_byte_too_many(tmp_path: Path) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(bytes(10_000_000)))
    assert len(content(file, 1000)) == 1001


def test_a_folder_in_place_of_a_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        verified(tmp_path, HELLO)
