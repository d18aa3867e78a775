import os
from functools import partial
from pathlib import Path

import pytest
from tiny_files import BINARY_FILES, IDX_FILES, forms, gzipped, idx_set, tar_gz, tiny_imagenet, write

from scyc.data import DATASETS, check, present, roots
from scyc.data.cifar import find
from scyc.data.digits import FILE
from scyc.data.inventory import PUBLISHED, Published, check_cifar, check_idx, check_tiny, place_idx
from scyc.data.tiny_imagenet import Extent, find_tiny

TINY = {
    "grey": Published(partial(place_idx, idx_set()), partial(check_idx, idx_set())),
    "colour": Published(lambda root: find(root, forms())[0], partial(check_cifar, forms())),
    "pictures": Published(find_tiny, partial(check_tiny, Extent(classes=2, train=2, test=3, size=8))),
}


def test_what_is_present_is_named_with_its_place_and_nothing_is_read(tmp_path: Path) -> None:
    write(tmp_path / "two/tiny", dict.fromkeys(gzipped(IDX_FILES), b"damaged"))
    write(tmp_path / "one", {"bin.tar.gz": b"damaged"})
    rows = present((tmp_path / "one", tmp_path / "two"), TINY)
    assert {row.name: row.place for row in rows} == {
        "grey": tmp_path / "two/tiny",
        "colour": tmp_path / "one/bin.tar.gz",
        "pictures": None,
    }


def test_an_incomplete_set_is_not_present(tmp_path: Path) -> None:
    write(tmp_path / "tiny", dict(list(IDX_FILES.items())[:3]))
    assert present((tmp_path,), TINY)[0].place is None


def test_digits_are_always_present_and_whole(tmp_path: Path) -> None:
    assert [row.place for row in present((tmp_path,)) if row.name == "digits"] == [FILE]
    assert check("digits", ()) == [(FILE, "ok")]


def test_every_file_gets_its_state(tmp_path: Path) -> None:
    write(tmp_path / "tiny", IDX_FILES | {"t10k-labels-idx1-ubyte": b"short"})
    states = dict(check("grey", (tmp_path,), TINY))
    assert [path.name for path in states] == list(IDX_FILES)
    assert list(states.values())[:3] == ["ok"] * 3
    assert list(states.values())[3].endswith("tiny/t10k-labels-idx1-ubyte is truncated: 5 of 10 bytes")


def test_the_first_root_that_has_the_set_is_checked(tmp_path: Path) -> None:
    write(tmp_path / "one/bin", dict(list(BINARY_FILES.items())[:1]))
    write(tmp_path / "two/bin", BINARY_FILES | {"data_batch_2.bin": bytes(6146)})
    states = check("colour", (tmp_path / "one", tmp_path / "two", tmp_path / "three"), TINY)
    assert [path for path, _ in states] == [tmp_path / "two/bin" / name for name in BINARY_FILES]
    assert [state == "ok" for _, state in states] == [True, False, True]


@pytest.mark.parametrize(("content", "ok"), [(tar_gz("bin", BINARY_FILES), True), (b"no archive", False)])
def test_an_archive_is_checked_in_place(tmp_path: Path, content: bytes, ok: bool) -> None:
    write(tmp_path, {"bin.tar.gz": content})
    ((path, state),) = check("colour", (tmp_path,), TINY)
    assert path == tmp_path / "bin.tar.gz"
    assert (state == "ok") == ok


def test_pictures_are_decoded(tmp_path: Path) -> None:
    place = tiny_imagenet(tmp_path)
    assert check("pictures", (tmp_path,), TINY) == [(place, "ok")]
    (place / "val/images/val_1.JPEG").write_bytes(b"torn")
    ((_, state),) = check("pictures", (tmp_path,), TINY)
    assert "val_1.JPEG cannot be decoded" in state


def test_where_no_root_has_the_set_the_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "two/tiny", dict(list(IDX_FILES.items())[:2]))
    found = check("grey", (tmp_path / "one", tmp_path / "two"), TINY)
    assert found == [(tmp_path / "two/tiny/t10k-images-idx3-ubyte", "missing")]


def test_a_set_of_the_users_own_has_nothing_to_be_checked_against() -> None:
    with pytest.raises(
        ValueError, match="data set 'npz' has no published files to check; those that have: digits, fash"
    ):
        check("npz", ())


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist", "cifar10"])
def test_the_real_files_are_the_published_ones(name: str) -> None:
    places = roots(None, os.environ)
    if {row.name: row.place for row in present(places)}[name] is None:
        pytest.skip("the real files are not here")
    assert {state for _, state in check(name, places)} == {"ok"}


def test_every_published_set_can_be_read_by_its_name() -> None:
    assert set(PUBLISHED) <= set(DATASETS)
