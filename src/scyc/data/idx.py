"""The IDX format of MNIST and Fashion-MNIST: big-endian magic number and sizes, then bytes; plain or gzipped."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from scyc.data.checksum import Known, content, md5, verified
from scyc.data.dataset import DataError, Dataset, Images, Missing, checked

UNSIGNED_BYTE = 0x08  # the third byte of the magic number; the fourth is the number of dimensions
IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
LABELS_FILE = f"train-{LABELS}"  # the small file that tells sets apart


@dataclass(frozen=True)
class IdxSet:
    """Four IDX files: their folders under a root, their published content, their pixels' mean and deviation."""

    folders: tuple[str, ...]
    files: Mapping[str, Known]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


FASHION_MNIST = IdxSet(
    folders=("fashion-mnist", "FashionMNIST/raw", "Fashion-MNIST/raw", "Fashion-MNIST", "."),
    files={
        "train-images-idx3-ubyte": Known(47_040_016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        "train-labels-idx1-ubyte": Known(60_008, "9018921c3c673c538a1fc5bad174d6f9"),
        "t10k-images-idx3-ubyte": Known(7_840_016, "8181f5470baa50b63fa0f6fddb340f0a"),
        "t10k-labels-idx1-ubyte": Known(10_008, "15d484375f8d13e6eb1aabb0c3f46965"),
    },
    classes=10,
    mean=(0.2860,),
    std=(0.3530,),
)
MNIST = IdxSet(
    folders=("mnist", "MNIST/raw", "MNIST", "."),
    files={
        "train-images-idx3-ubyte": Known(47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
        "train-labels-idx1-ubyte": Known(60_008, "a25bea736e30d166cdddb491f175f624"),
        "t10k-images-idx3-ubyte": Known(7_840_016, "2646ac647ad5339dbf082846283269ea"),
        "t10k-labels-idx1-ubyte": Known(10_008, "27ae3e4e09519cfbb04c329615203637"),
    },
    classes=10,
    mean=(0.1307,),
    std=(0.3081,),
)


def fashion_mnist(root: Path) -> Dataset:
    """Fashion-MNIST: 28x28 grey images of clothes, 60,000 to train and 10,000 to test"""
    return read_idx(root, FASHION_MNIST)


def mnist(root: Path) -> Dataset:
    """MNIST: 28x28 grey handwritten digits, 60,000 to train and 10,000 to test"""
    return read_idx(root, MNIST)


def read_idx(root: Path, known: IdxSet) -> Dataset:
    paths = idx_files(root, known)
    train, test = (images(paths, known, part) for part in ("train", "t10k"))
    return Dataset(train, test, known.classes, known.mean, known.std)


def idx_files(root: Path, known: IdxSet) -> dict[str, Path]:
    """The path of each file, all from the folder that holds most of them; Missing names the first absent one."""
    folders = [present(root / folder, known) for folder in known.folders]
    best = max(range(len(folders)), key=lambda i: len(folders[i]))  # the first of equals
    for name in known.files:
        if name not in folders[best]:
            raise Missing(root / known.folders[best] / name, found=len(folders[best]))
    return folders[best]


def present(folder: Path, known: IdxSet) -> dict[str, Path]:
    """The set's files in a folder: none if they are another set's, for all sets name their files the same."""
    paths = {name: path for name in known.files if (path := plain_or_gzip(folder / name))}
    return {} if LABELS_FILE in paths and of_another(paths[LABELS_FILE], known) else paths


def of_another(path: Path, known: IdxSet) -> bool:
    others = {one.files[LABELS_FILE].md5 for one in (FASHION_MNIST, MNIST)} - {known.files[LABELS_FILE].md5}
    try:
        return md5(content(path, known.files[LABELS_FILE].size)) in others
    except DataError:
        return False  # damaged: reading it will say so


def plain_or_gzip(path: Path) -> Path | None:
    packed = path.with_name(f"{path.name}.gz")
    return next((file for file in (path, packed) if file.is_file()), None)


def images(paths: Mapping[str, Path], known: IdxSet, part: str) -> Images:
    pixels, labels = (
        parse(verified(paths[name], known.files[name]), paths[name], dimensions)
        for name, dimensions in ((f"{part}-{IMAGES}", 3), (f"{part}-{LABELS}", 1))
    )
    return checked(
        torch.from_numpy(pixels)[:, None], torch.from_numpy(labels), known.classes, paths[f"{part}-{LABELS}"]
    )


def parse(content: bytes, source: object, dimensions: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The array of an IDX file of bytes with this number of dimensions."""
    magic, start = bytes((0, 0, UNSIGNED_BYTE, dimensions)), 4 + 4 * dimensions
    if content[:4] != magic or len(content) < start:
        raise DataError(
            f"{source} starts with {content[:4].hex()}; IDX bytes in {dimensions} dimensions start with {magic.hex()}"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    array = np.frombuffer(bytearray(content[start:]), np.uint8)  # writable, as torch wants it
    if len(array) != math.prod(shape):
        raise DataError(f"{source} holds {len(array)} bytes after its header, which says {shape}")
    return array.reshape(shape)
