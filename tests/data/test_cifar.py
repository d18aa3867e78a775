import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_files import BINARY_FILES, PIXELS, PYTHON_FILES, binary_batch, forms, tar_gz, write

from scyc.data import DataError, Dataset, roots
from scyc.data.cifar import cifar10, read_cifar
from scyc.data.dataset import Missing

FORMS = forms()
ARCHIVES = {"bin.tar.gz": tar_gz("bin", BINARY_FILES), "py.tar.gz": tar_gz("py", PYTHON_FILES)}


def assert_is_the_tiny_set(found: Dataset) -> None:
    assert found.train.labels.tolist() == [6, 9, 0, 4]
    assert found.train.images.shape == (4, 3, 32, 32)
    assert bytes(found.train.images.flatten().tolist()) == PIXELS["data_batch_1"] + PIXELS["data_batch_2"]
    assert found.test is not None
    assert found.test.labels.tolist() == [3, 8]
    assert bytes(found.test.images.flatten().tolist()) == PIXELS["test_batch"]
    assert found.mean == (0.4914, 0.4822, 0.4465)


@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("bin", BINARY_FILES),
        ("py", PYTHON_FILES),
        (".", BINARY_FILES),
        (".", PYTHON_FILES),
        (".", {"bin.tar.gz": ARCHIVES["bin.tar.gz"]}),
        (".", {"py.tar.gz": ARCHIVES["py.tar.gz"]}),
    ],
)
def test_all_forms_read_the_same(tmp_path: Path, folder: str, files: dict[str, bytes]) -> None:
    write(tmp_path / folder, files)
    assert_is_the_tiny_set(read_cifar(tmp_path, FORMS))


def test_a_whole_form_is_read_where_another_has_gaps(tmp_path: Path) -> None:
    write(tmp_path / "bin", dict(list(BINARY_FILES.items())[:2]))
    write(tmp_path, {"py.tar.gz": ARCHIVES["py.tar.gz"]})
    assert_is_the_tiny_set(read_cifar(tmp_path, FORMS))


def test_the_gap_of_the_fullest_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path / "py", dict(list(PYTHON_FILES.items())[:2]))
    with pytest.raises(Missing, match="py/test_batch is missing"):
        read_cifar(tmp_path, FORMS)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda content: content[:-1], "is truncated: 6145 of 6146 bytes"),
        (lambda content: content + b"\0", ".*more than 6146 bytes"),
        (lambda content: b"\5" + content[1:], "is not the published file: md5"),
    ],
)
def test_a_damaged_batch_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], line: str) -> None:
    write(tmp_path / "bin", BINARY_FILES | {"data_batch_2.bin": damage(BINARY_FILES["data_batch_2.bin"])})
    with pytest.raises(DataError, match=f"data_batch_2.bin {line}"):
        read_cifar(tmp_path, FORMS)


def test_a_member_of_the_right_size_and_wrong_content_is_named(tmp_path: Path) -> None:
    files = BINARY_FILES | {"test_batch.bin": bytes(6146)}
    write(tmp_path, {"bin.tar.gz": tar_gz("bin", files)})
    with pytest.raises(DataError, match=r"bin\.tar\.gz: bin/test_batch\.bin is not the published file"):
        read_cifar(tmp_path, FORMS)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\x0a" + binary_batch("test_batch")[1:], "test_batch.bin: label 10 of image 0 is out of range"),
        (bytes(3072), "holds 3072 bytes, not rows of 3073"),
        (b"", "images of shape"),
    ],
)
def test_a_wrong_binary_batch_is_named(tmp_path: Path, content: bytes, line: str) -> None:
    files = BINARY_FILES | {"test_batch.bin": content}
    write(tmp_path / "bin", files)
    with pytest.raises(DataError, match=line):
        read_cifar(tmp_path, forms(binary=files))


def real() -> Dataset:
    for root in roots(None, os.environ):
        try:
            return cifar10(root)
        except Missing:
            continue
    pytest.skip("the real files are not here")


def test_the_real_set_has_its_published_extent_and_statistics() -> None:
    found = real()
    assert found.train.images.shape == (50_000, 3, 32, 32)
    assert found.train.labels.bincount().tolist() == [5000] * 10
    assert found.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert found.test is not None
    assert found.test.labels.bincount().tolist() == [1000] * 10
    values = torch.arange(256) / 255
    for channel, (mean, std) in enumerate(zip((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), strict=True)):
        pixels = found.train.images[:, channel].flatten()
        shares = pixels.bincount(minlength=256).double() / pixels.numel()
        average = float((shares * values).sum())
        assert average == pytest.approx(mean, abs=6e-5)
        assert float((shares * (values - average) ** 2).sum().sqrt()) == pytest.approx(std, abs=6e-5)
