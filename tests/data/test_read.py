import inspect
from pathlib import Path

import numpy as np
import pytest
from tiny_files import BINARY_FILES, write

from scyc.data import DATASETS, READERS, DataError, read
from scyc.data.digits import digits
from scyc.registry import UnknownName

IMAGES, LABELS = np.zeros((2, 4, 4), np.uint8), np.array([0, 1])


def test_every_reader_takes_a_root_and_says_in_one_line_what_it_reads() -> None:
    for name in READERS.names():
        reader = DATASETS[name]
        root, *fields = inspect.signature(reader).parameters.values()
        assert root.name == "root"
        assert all(field.kind is field.KEYWORD_ONLY for field in fields), name
        assert reader.__doc__, name
        assert "\n" not in reader.__doc__, name


def test_digits_need_no_root() -> None:
    assert read("digits", {}, ()).digest() == digits(Path()).digest()


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown data 'fashion_mnist'; did you mean 'fashion-mnist'"):
        read("fashion_mnist", {}, ())


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        ("npz", {}, "data set 'npz': missing a required argument: 'path'; its fields are path"),
        ("digits", {"path": "a"}, "data set 'digits': .*'path'; its fields are none"),
        ("folder", {"path": "a", "width": 3}, "data set 'folder': .*'width'; its fields are path, size"),
    ],
)
def test_wrong_fields_are_one_line(name: str, fields: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        read(name, fields, ())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("fashion-mnist", "fashion-mnist/train-images-idx3-ubyte"),
        ("mnist", "mnist/train-images-idx3-ubyte"),
        ("cifar10", "cifar-10-batches-bin/data_batch_1.bin"),
        ("imagenet200", "tiny-imagenet-200/val/val_annotations.txt"),
    ],
)
def test_a_missing_set_is_named_with_where_it_was_looked_for_and_how_to_get_it(
    tmp_path: Path, name: str, file: str
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with pytest.raises(DataError) as error:
        read(name, {}, (one, two))
    line = f"{name}: {one / file} is missing; looked in {one}, {two}; get it with `scyc data get {name}`"
    assert str(error.value) == line


def test_of_several_roots_the_fullest_ones_gap_is_named(tmp_path: Path) -> None:
    write(tmp_path / "two/cifar-10-batches-bin", dict(list(BINARY_FILES.items())[:2]))
    with pytest.raises(DataError, match=r"two/cifar-10-batches-bin/data_batch_3\.bin is missing"):
        read("cifar10", {}, (tmp_path / "one", tmp_path / "two"))


def test_a_damaged_file_is_an_error_even_if_a_later_root_has_it_whole(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "own.npz", images=IMAGES, labels=LABELS)
    assert read("npz", {"path": "own.npz"}, (tmp_path / "none", tmp_path / "two")).classes == 2
    (tmp_path / "one/own.npz").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"one/own\.npz cannot be read"):
        read("npz", {"path": "own.npz"}, (tmp_path / "one", tmp_path / "two"))


def test_a_damaged_published_file_says_how_to_get_it_anew(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"mnist/{part}-{kind}": b"short"
            for part in ("train", "t10k")
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        },
    )
    line = "is truncated: 5 of 47040016 bytes; remove it and get it anew with `scyc data get mnist`"
    with pytest.raises(DataError, match=f"mnist/train-images-idx3-ubyte {line}"):
        read("mnist", {}, (tmp_path,))


def test_a_path_is_meant_from_here_and_then_from_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "root/own.npz", images=IMAGES, labels=LABELS)
    assert read("npz", {"path": "own.npz"}, (tmp_path / "root",)).train.images.max() == 0
    np.savez(tmp_path / "own.npz", images=IMAGES + 1, labels=LABELS)
    assert read("npz", {"path": "own.npz"}, (tmp_path / "root",)).train.images.max() == 1
    assert read("npz", {"path": str(tmp_path / "root/own.npz")}, ()).train.images.max() == 0
    with pytest.raises(DataError, match=r"npz: none.npz is missing; looked in \., .*root$"):
        read("npz", {"path": "none.npz"}, (tmp_path / "root",))
