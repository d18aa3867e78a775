"""CIFAR-10's python batches are pickles of Python 2: read as data, nothing a file names is imported or run."""

import io
import pickle
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scyc.data.dataset import DataError


class Dtype:
    """Stands in for numpy.dtype: keeps the name it is built with."""

    def __init__(self, name: bytes, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment: of no concern for single bytes."""


class Array:
    """Stands in for an array of bytes: keeps the values its state holds."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], Dtype, bool, bytes]) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, Dtype) or dtype.name != b"u1":
            raise pickle.UnpicklingError("an array in it is not of bytes")
        self.values = np.frombuffer(bytearray(raw), np.uint8).reshape(shape, order="F" if fortran else "C")


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): Array,
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument
    ("numpy", "dtype"): Dtype,
}


class Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a batch of images does not need")
        return STAND_INS[module, name]

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to objects outside the file")


def batch(content: bytes, source: object) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The pixels, (n, 3072), and labels, (n,), of one batch."""
    try:
        entries = Reader(io.BytesIO(content), encoding="bytes").load()
        pixels, labels = entries[b"data"], entries[b"labels"]
        if not isinstance(pixels, Array) or not all(type(label) is int for label in labels):
            raise pickle.UnpicklingError("its data are no array, or its labels no integers")
        return pixels.values.reshape(-1, 3072), np.array(labels, np.int64)
    except Exception as error:  # the pickle format promises no particular ones for a damaged file
        raise DataError(f"{source} is not a CIFAR-10 batch: {error!r}") from error
