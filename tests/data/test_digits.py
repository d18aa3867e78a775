from pathlib import Path

import pytest
import torch

from scyc.data import DataError
from scyc.data.checksum import Known, verified
from scyc.data.digits import FILE, KNOWN, digits

NOWHERE = Path("nowhere")


def test_digits_come_with_the_package_whatever_the_root() -> None:
    found = digits(NOWHERE)
    assert found.train.images.shape == (1797, 1, 8, 8)
    assert (found.test, found.classes, found.mean, found.std) == (None, 10, None, None)


def test_every_class_has_the_images_that_scikit_learn_counts() -> None:
    assert digits(NOWHERE).train.labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_values_are_the_files_times_15() -> None:
    images = digits(NOWHERE).train.images
    assert (images[0, 0, :2] // 15).tolist() == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]
    assert torch.equal(images % 15, torch.zeros_like(images))
    assert int(images.max()) == 240


def test_the_file_is_compared_with_its_checksum() -> None:
    with pytest.raises(DataError, match=r"digits\.csv\.gz is not the published file"):
        verified(FILE, Known(KNOWN.size, "0" * 32))
