"""Images and labels from the arrays of an .npz or .safetensors file."""

import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open
from torch import Tensor

from scyc.data.dataset import DataError, Dataset, Images, Missing, checked

NAMES = (("images", "labels", "test_images", "test_labels"), ("x_train", "y_train", "x_test", "y_test"))
CHANNELS = (1, 3)
LARGE, TIMES = 1 << 30, 200  # from so many bytes on, images unpack to no more than so many times their packed size
LARGEST = 64 << 30  # bytes one array may unpack to: more is a damaged header, or fits no machine
UNREADABLE = (OSError, EOFError, ValueError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error, SafetensorError)
TO_BYTES = "convert with (255 * images).round().astype('uint8')"


def npz(root: Path, *, path: str) -> Dataset:
    """a .npz file with the arrays images, labels and, if there is a test set, test_images, test_labels"""
    return read_arrays(existing(root, path), npz_arrays)


def safetensors(root: Path, *, path: str) -> Dataset:
    """a .safetensors file with the tensors images, labels and, if there is a test set, test_images, test_labels"""
    return read_arrays(existing(root, path), safetensors_arrays)


def existing(root: Path, path: str) -> Path:
    file = root / Path(path).expanduser()
    if not file.is_file():
        raise Missing(file)
    return file


def read_arrays(file: Path, load: Callable[[Path], dict[str, Tensor]]) -> Dataset:
    try:
        arrays = load(file)
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    names = next((names for names in NAMES if names[0] in arrays), None)
    if names is None:
        raise DataError(f"{file} holds {', '.join(arrays) or 'nothing'}; it needs {' and '.join(NAMES[0][:2])}")
    classes = counted(labels_of(arrays, names[1], file), file)
    train = part(arrays, *names[:2], classes, file)
    tested = any(name in arrays for name in names[2:])
    return Dataset(train, part(arrays, *names[2:], classes, file) if tested else None, classes, mean=None, std=None)


def part(arrays: Mapping[str, Tensor], images: str, labels: str, classes: int, file: Path) -> Images:
    pixels = channels_first(entry(arrays, images, file), f"{file}: {images}")
    return checked(pixels, labels_of(arrays, labels, file), classes, f"{file}: {labels}")


def entry(arrays: Mapping[str, Tensor], name: str, file: Path) -> Tensor:
    if name not in arrays:
        raise DataError(f"{file} holds {', '.join(arrays)}; it lacks {name}")
    return arrays[name]


def labels_of(arrays: Mapping[str, Tensor], name: str, file: Path) -> Tensor:
    labels = entry(arrays, name, file)
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise DataError(f"{file}: {name} are {labels.dtype}; labels must be integers, 0 for the first class")
    return (labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels).long()


def counted(labels: Tensor, file: Path) -> int:  # labels: (n,) int64
    """The number of classes, each of which must have an image: a gap is a wrong label or a count from 1."""
    present = np.unique(labels.numpy()).tolist()
    absent = next((label for label, value in enumerate(present) if label != value), None)
    if absent is not None:
        raise DataError(
            f"{file}: no image has label {absent}, the labels are {present[0]} to {present[-1]}; "
            "number them from 0 without gaps"
        )
    return len(present)


def channels_first(images: Tensor, source: str) -> Tensor:  # (n, h, w), (n, h, w, c) or (n, c, h, w) -> (n, c, h, w)
    if images.dtype != torch.uint8:
        raise DataError(f"{source} are {images.dtype}; images must be uint8, 0 to 255: {TO_BYTES}")
    if images.ndim == 3:
        return images[:, None]
    first, last = (images.ndim == 4 and images.shape[axis] in CHANNELS for axis in (1, -1))
    if first == last:
        raise DataError(
            f"{source} have shape {tuple(images.shape)}; save them as (n, h, w), (n, h, w, c) or (n, c, h, w), c 1 or 3"
        )
    return images if first else images.permute(0, 3, 1, 2)


def safetensors_arrays(file: Path) -> dict[str, Tensor]:
    with safe_open(file, framework="pt") as tensors:
        return {name: tensors.get_tensor(name) for name in wanted(tensors.keys())}


def npz_arrays(file: Path) -> dict[str, Tensor]:
    with zipfile.ZipFile(file) as archive:
        sizes = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {name: torch.from_numpy(npy_array(archive, sizes[name])) for name in wanted(sizes)}


def npy_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """One member, unpacked only where its header, its size in the archive and the bound agree."""
    with archive.open(info) as member:
        read_header = npy.read_array_header_1_0 if npy.read_magic(member) == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(member)
        size = member.tell() + dtype.itemsize * math.prod(shape)
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds Python objects, not numbers")
    if size != info.file_size or size > LARGEST:
        raise ValueError(f"{info.filename} should unpack to {size} bytes and says {info.file_size}")
    if size > LARGE and size > TIMES * info.compress_size:
        raise ValueError(f"{info.filename} unpacks from {info.compress_size} bytes to {size}: these are no images")
    with archive.open(info) as member:
        return npy.read_array(member, allow_pickle=False)


def wanted(names: Mapping[str, object] | list[str]) -> list[str]:
    known = {name for names in NAMES for name in names}
    return [name for name in names if name in known]
