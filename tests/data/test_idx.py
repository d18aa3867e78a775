import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_files import IDX_FILES, gzipped, idx, idx_set, write

from scyc.data import DataError, Dataset, roots
from scyc.data.dataset import Missing
from scyc.data.idx import fashion_mnist, mnist, read_idx

SET = idx_set()


def changed(name: str, content: bytes) -> dict[str, bytes]:
    assert name in IDX_FILES
    return IDX_FILES | {name: content}


@pytest.mark.parametrize("folder", ["tiny", "."])
@pytest.mark.parametrize("files", [IDX_FILES, gzipped(IDX_FILES)])
def test_plain_and_gzipped_files_read_the_same(tmp_path: Path, folder: str, files: dict[str, bytes]) -> None:
    write(tmp_path / folder, files)
    found = read_idx(tmp_path, SET)
    assert found.train.images.tolist()[:2] == [[[[0, 1, 2], [3, 4, 5]]], [[[6, 7, 8], [9, 10, 11]]]]
    assert found.train.labels.tolist() == [0, 1, 2, 1]
    assert found.test is not None
    assert found.test.images[1].tolist() == [[[106, 107, 108], [109, 110, 111]]]
    assert found.test.labels.tolist() == [2, 0]
    assert (found.classes, found.mean, found.std) == (3, (0.5,), (0.25,))


def test_some_files_may_be_gzipped(tmp_path: Path) -> None:
    write(tmp_path, dict(list(IDX_FILES.items())[:2]) | dict(list(gzipped(IDX_FILES).items())[2:]))
    assert read_idx(tmp_path, SET).train.labels.tolist() == [0, 1, 2, 1]


def test_the_first_missing_file_of_the_fullest_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path, dict(list(IDX_FILES.items())[:1]))
    write(tmp_path / "tiny", dict(list(IDX_FILES.items())[:3]))
    with pytest.raises(Missing, match="tiny/t10k-labels-idx1-ubyte is missing") as error:
        read_idx(tmp_path, SET)
    assert error.value.found == 3


@pytest.mark.parametrize("name", IDX_FILES)
@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda content: content[:-1], "is truncated"),
        (lambda content: content + b"\0", "more than"),
        (lambda content: content[:-1] + b"\x63", "is not the published file: md5"),
        (lambda content: gzip.compress(content)[:-9], "cannot be read"),
        (lambda content: gzip.compress(bytes(1_000_000)), "more than"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: Callable[[bytes], bytes], line: str) -> None:
    write(tmp_path, changed(name, damage(IDX_FILES[name])))
    with pytest.raises(DataError, match=f"{name} .*{line}"):
        read_idx(tmp_path, SET)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("train-labels-idx1-ubyte", idx(bytes((0, 1, 3, 1)), 4), "label 3 of image 2 is out of range"),
        ("train-labels-idx1-ubyte", idx(bytes((0, 1, 2)), 3), r"labels of shape \(3,\) for 4 images"),
        ("train-images-idx3-ubyte", idx(bytes(24), 24), "starts with 00000801; IDX .* start with 00000803"),
        ("train-images-idx3-ubyte", b"\0\0\x0d\x03" + idx(bytes(24), 4, 2, 3)[4:], "starts with 00000d03"),
        ("train-images-idx3-ubyte", b"", "starts with ;"),
        ("train-images-idx3-ubyte", idx(bytes(24), 4, 2, 3)[:9], "starts with 00000803"),
        (
            "train-images-idx3-ubyte",
            idx(bytes(24), 4, 2, 4),
            r"holds 24 bytes after its header, which says \(4, 2, 4\)",
        ),
        ("train-images-idx3-ubyte", idx(b"", *(2**32 - 1,) * 3), "holds 0 bytes after its header"),
        ("train-images-idx3-ubyte", b"\0\0\x08\x03" + struct.pack(">3I", 0, 2, 3), "images of shape"),
    ],
)
def test_a_wrong_format_is_named(tmp_path: Path, name: str, content: bytes, line: str) -> None:
    write(tmp_path, changed(name, content))
    with pytest.raises(DataError, match=line):
        read_idx(tmp_path, idx_set(changed(name, content)))


def test_files_of_another_set_are_not_there_rather_than_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = changed("train-labels-idx1-ubyte", idx(bytes(4), 4))
    monkeypatch.setattr("scyc.data.idx.MNIST", idx_set(others))
    write(tmp_path, others)
    with pytest.raises(Missing, match="tiny/train-images-idx3-ubyte is missing"):
        read_idx(tmp_path, SET)
    write(tmp_path / "tiny", IDX_FILES)
    assert read_idx(tmp_path, SET).train.labels.tolist() == [0, 1, 2, 1]


def real(reader: Callable[[Path], Dataset]) -> Dataset:
    for root in roots(None, os.environ):
        try:
            return reader(root)
        except Missing:
            continue
    pytest.skip("the real files are not here")


@pytest.mark.parametrize("reader", [fashion_mnist, mnist])
def test_the_real_sets_have_their_published_extent_and_statistics(reader: Callable[[Path], Dataset]) -> None:
    found = real(reader)
    assert found.train.images.shape == (60_000, 1, 28, 28)
    assert found.test is not None
    assert found.test.images.shape == (10_000, 1, 28, 28)
    assert found.mean is not None
    assert found.std is not None
    histogram = found.train.images.flatten().bincount(minlength=256).double() / found.train.images.numel()
    values = torch.arange(256) / 255
    mean = float((histogram * values).sum())
    assert mean == pytest.approx(found.mean[0], abs=5e-5)
    assert float((histogram * (values - mean) ** 2).sum().sqrt()) == pytest.approx(found.std[0], abs=5e-5)


def test_the_real_fashion_mnist_is_balanced_and_starts_with_a_boot() -> None:
    found = real(fashion_mnist)
    assert found.train.labels.bincount().tolist() == [6000] * 10
    assert int(found.train.labels[0]) == 9  # ankle boot, the example of its documentation
