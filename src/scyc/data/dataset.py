"""What a reader returns, and what it raises."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor


class DataError(ValueError):
    """A data set is missing, truncated, damaged, or not what it is said to be."""


class Missing(DataError):
    """A file that is not there; `found` files of its set were, so that of many folders the fullest can be named."""

    def __init__(self, file: Path, found: int = 0) -> None:
        super().__init__(f"{file} is missing")
        self.file, self.found = file, found


@dataclass(frozen=True, eq=False)  # tensors have no single truth value to compare by
class Images:
    """Labelled images."""

    images: Tensor  # (n, channels, height, width) uint8
    labels: Tensor  # (n,) int64


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as its files have it: not split, not normalised."""

    train: Images
    test: Images | None  # None where the set has no official test images
    classes: int
    mean: tuple[float, ...] | None  # per channel, of pixels scaled to [0, 1]; None: taken from the training split
    std: tuple[float, ...] | None

    def __post_init__(self) -> None:
        train, test = (part and tuple(part.images.shape[1:]) for part in (self.train, self.test))
        if test is not None and test != train:
            raise DataError(f"test images are {test}, the training images {train}; they must have one shape")

    def digest(self) -> str:
        """Sha256 of the content alone: the same for every file format and place it was read from."""
        digest = hashlib.sha256(f"classes {self.classes}\n".encode())
        for name, part in (("train", self.train), ("test", self.test)):
            digest.update(f"{name} {tuple(part.images.shape) if part else None}\n".encode())
            if part is not None:
                digest.update(part.images.reshape(-1).numpy().data)
                digest.update(part.labels.numpy().astype("<i8").tobytes())
        return digest.hexdigest()


def checked(
    images: Tensor,  # (n, channels, height, width) uint8
    labels: Tensor,  # (n,) integers
    classes: int,
    source: object,
) -> Images:
    """The images with their labels, if both fit together; `source` is the place an error names."""
    if images.ndim != 4 or images.dtype != torch.uint8 or 0 in images.shape:
        raise DataError(
            f"{source}: images of shape {tuple(images.shape)}, {images.dtype}; they must be uint8 (n, c, h, w)"
        )
    if labels.shape != images.shape[:1]:
        raise DataError(
            f"{source}: labels of shape {tuple(labels.shape)} for {len(images)} images; one for each is needed"
        )
    wrong = ((labels < 0) | (labels >= classes)).nonzero().flatten()
    if len(wrong):
        index = int(wrong[0])
        raise DataError(
            f"{source}: label {int(labels[index])} of image {index} is out of range; the labels are 0 to {classes - 1}"
        )
    return Images(images.contiguous(), labels.long())
