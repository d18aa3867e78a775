"""Picture files (PNG, JPEG, ...) listed and decoded to bytes."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from scyc.data.dataset import DataError

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"))
UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError)
GREY, DEEP = ("1", "L"), ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")

Mode = Literal["L", "RGB"]


@dataclass(frozen=True)
class Header:
    mode: str
    size: tuple[int, int]  # width, height


def pictures(folder: Path) -> list[Path]:
    """The picture files anywhere under a folder, sorted; hidden files and everything else are passed over."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and not file.name.startswith("."))
    return sorted(file for file in files if file.is_file())


def header(path: Path) -> Header:
    try:
        with Image.open(path) as image:
            found = Header(image.mode, image.size)
    except UNREADABLE as error:
        raise DataError(f"{path} is no picture: {error}") from error
    if found.mode in DEEP:
        raise DataError(f"{path} has more than 8 bits per channel ({found.mode}); convert it to 8 bits")
    return found


def decoded(paths: Sequence[Path], mode: Mode, size: tuple[int, int], fit: bool = False) -> Tensor:
    """All pictures as one tensor (n, channels, height, width); `fit` crops and resizes those of another size."""
    width, height = size
    images = np.empty((len(paths), len(mode), height, width), np.uint8)
    for row, path in zip(images, paths, strict=True):
        row[:] = pixels(path, mode, size, fit)
    return torch.from_numpy(images)


def pixels(path: Path, mode: Mode, size: tuple[int, int], fit: bool) -> NDArray[np.uint8]:
    """One picture, (channels, height, width)."""
    try:
        with Image.open(path) as image:
            picture = image.convert(mode)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be decoded: {error}") from error
    if picture.size != size:
        if not fit:
            raise DataError(f"{path} is {picture.width}x{picture.height} pixels, not {size[0]}x{size[1]}")
        picture = ImageOps.fit(picture, size, Image.Resampling.BILINEAR)
    return np.asarray(picture).reshape(size[1], size[0], len(mode)).transpose(2, 0, 1)
