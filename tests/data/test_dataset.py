import hashlib
from dataclasses import replace

import pytest
import torch

from scyc.data import DataError, Dataset, Images
from scyc.data.dataset import checked

IMAGES = torch.tensor([[[[7, 9]]], [[[1, 2]]]], dtype=torch.uint8)  # (2, 1, 1, 2)
LABELS = torch.tensor([1, 0])
TRAIN = Images(IMAGES, LABELS)
SET = Dataset(TRAIN, None, 2, mean=None, std=None)


def test_digest_is_sha256_of_shapes_images_labels_and_classes() -> None:
    content = b"classes 2\ntrain (2, 1, 1, 2)\n" + bytes((7, 9, 1, 2)) + bytes((1, 0, 0, 0, 0, 0, 0, 0)) + bytes(8)
    assert SET.digest() == hashlib.sha256(content + b"test None\n").hexdigest()


def test_digest_does_not_depend_on_memory_layout_or_normalisation() -> None:
    turned = IMAGES.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
    assert not turned.is_contiguous()
    assert replace(SET, train=Images(turned, LABELS), mean=(0.5,), std=(0.1,)).digest() == SET.digest()


@pytest.mark.parametrize(
    "other",
    [
        replace(SET, classes=3),
        replace(SET, test=TRAIN),
        replace(SET, train=Images(IMAGES, LABELS.flip(0))),
        replace(SET, train=Images(IMAGES + 1, LABELS)),
        replace(SET, train=Images(IMAGES.reshape(2, 1, 2, 1), LABELS)),
        replace(SET, train=Images(IMAGES.reshape(2, 2, 1, 1), LABELS)),
    ],
)
def test_digest_tells_other_content_apart(other: Dataset) -> None:
    assert other.digest() != SET.digest()


def test_checked_gives_int64_labels() -> None:
    images = checked(IMAGES, LABELS.to(torch.uint8), 2, "here")
    assert images.labels.dtype == torch.int64
    assert images.labels.tolist() == [1, 0]
    assert torch.equal(images.images, IMAGES)


@pytest.mark.parametrize(
    ("images", "labels", "line"),
    [
        (IMAGES.float(), LABELS, r"here: images of shape \(2, 1, 1, 2\), torch.float32"),
        (IMAGES[:, 0], LABELS, r"images of shape \(2, 1, 2\)"),
        (IMAGES[:0], LABELS[:0], r"images of shape \(0, 1, 1, 2\)"),
        (IMAGES, LABELS[:1], r"labels of shape \(1,\) for 2 images"),
        (IMAGES, LABELS[:, None], r"labels of shape \(2, 1\)"),
        (IMAGES, LABELS + 1, "label 2 of image 0 is out of range; the labels are 0 to 1"),
        (IMAGES, LABELS - 1, "label -1 of image 1 is out of range"),
    ],
)
def test_what_does_not_fit_is_one_line(images: torch.Tensor, labels: torch.Tensor, line: str) -> None:
    with pytest.raises(DataError, match=line) as error:
        checked(images, labels, 2, "here")
    assert "\n" not in str(error.value)
