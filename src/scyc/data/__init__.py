"""Data sets: where they lie, whether they are whole, and their images and labels as tensors."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scyc.data.arrays import npz, safetensors
from scyc.data.cifar import cifar10
from scyc.data.dataset import DataError, Dataset, Images, Missing
from scyc.data.digits import digits
from scyc.data.folders import folder
from scyc.data.idx import fashion_mnist, mnist
from scyc.data.inventory import check, present
from scyc.data.locate import roots
from scyc.data.sources import SOURCES
from scyc.data.tiny_imagenet import imagenet200
from scyc.registry import Kind

__all__ = ["DATASETS", "READERS", "DataError", "Dataset", "Images", "check", "present", "read", "roots"]

DATASETS: dict[str, Callable[..., Dataset]] = {  # reader(root, **fields)
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "cifar10": cifar10,
    "imagenet200": imagenet200,
    "folder": folder,
    "npz": npz,
    "safetensors": safetensors,
}
READERS = Kind("data", DATASETS, arguments=1, imports=True)


def read(name: str, fields: Mapping[str, Any], roots: tuple[Path, ...], *, trust: bool = False) -> Dataset:
    """The data set from the first root that has it; what is there but damaged is an error at once."""
    reader = READERS.find(name, trust=trust)
    accepts(name, reader, fields)
    places = (Path(), *roots) if "path" in fields else roots or (Path(),)  # a path is meant from here, then from a root
    absent: list[Missing] = []
    for root in places:
        try:
            return reader(root, **fields)  # type: ignore[no-any-return]
        except Missing as error:
            absent.append(error)
        except DataError as error:
            raise DataError(f"{name}: {error}{remedy(name, '; remove it and get it anew')}") from error
    fullest = max(absent, key=lambda error: error.found)
    looked = ", ".join(map(str, places))
    raise DataError(f"{name}: {fullest}; looked in {looked}{remedy(name, '; get it')}") from fullest


def accepts(name: str, reader: Callable[..., Dataset], fields: Mapping[str, Any]) -> None:
    try:
        inspect.signature(reader).bind(Path(), **fields)
    except TypeError as error:
        known = list(inspect.signature(reader).parameters)[1:]
        raise ValueError(f"data set {name!r}: {error}; its fields are {', '.join(known) or 'none'}") from error


def remedy(name: str, words: str) -> str:
    return f"{words} with `scyc data get {name}`" if name in SOURCES else ""
