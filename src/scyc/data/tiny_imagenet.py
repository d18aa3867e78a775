"""ImageNet-200: the folder of Tiny-ImageNet, whose 10,000 validation pictures are the labelled test set."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from scyc.data.cache import cached, key
from scyc.data.dataset import DataError, Dataset, Images, Missing, checked
from scyc.data.locate import home
from scyc.data.pictures import decoded, pictures

FOLDER = "tiny-imagenet-200"
MEAN, STD = (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)


@dataclass(frozen=True)
class Extent:
    """How much of everything the published set has: no checksums of its pictures are published."""

    classes: int = 200
    train: int = 500  # pictures of each class
    test: int = 10_000
    size: int = 64


def imagenet200(root: Path) -> Dataset:
    """ImageNet-200 (Tiny-ImageNet): 64x64 colour photographs, 100,000 to train and 10,000 to test"""
    place = find_tiny(root)
    return read_tiny(place, Extent(), (place.parent / ".scyc-cache", home(os.environ) / ".cache/scyc/decoded"))


def find_tiny(root: Path) -> Path:
    for place in (root / FOLDER, root):
        if (place / "val/val_annotations.txt").is_file():
            return place
    raise Missing(root / FOLDER / "val/val_annotations.txt")


def read_tiny(place: Path, extent: Extent, caches: Sequence[Path]) -> Dataset:
    """The set in this folder; decoded pictures are kept in the first of `caches` that can be written."""
    classes = class_names(place, extent)
    train, test = labelled_train(place, classes, extent), labelled_test(place, classes, extent)

    def build() -> Dataset:
        decoded_train, decoded_test = (images(files, extent, place) for files in (train, test))
        return Dataset(decoded_train, decoded_test, extent.classes, mean=None, std=None)

    return replace(cached(caches, "imagenet200", key([*train, *test]), build), mean=MEAN, std=STD)


def class_names(place: Path, extent: Extent) -> list[str]:
    """The sorted classes: wnids.txt lists them, but copies exist in which it was cut, so the folders decide."""
    if not (place / "train").is_dir():
        raise DataError(f"{place / 'train'} is missing; the set is incomplete")
    names = sorted(entry.name for entry in (place / "train").iterdir() if entry.is_dir())
    listed = (place / "wnids.txt").read_text().split() if (place / "wnids.txt").is_file() else []
    absent = sorted({*listed} - {*names})
    if absent:
        raise DataError(f"{place / 'train' / absent[0]} is missing; wnids.txt lists it")
    if len(names) != extent.classes:
        raise DataError(f"{place / 'train'} has {len(names)} class folders, not {extent.classes}")
    if len({*listed}) != len(names):
        warnings.warn(
            f"{place / 'wnids.txt'} lists {len({*listed})} of {len(names)} classes; the folders count", stacklevel=2
        )
    return names


def labelled_train(place: Path, classes: list[str], extent: Extent) -> dict[Path, int]:
    files: dict[Path, int] = {}
    for label, name in enumerate(classes):
        found = pictures(place / "train" / name)
        if len(found) != extent.train:
            raise DataError(f"{place / 'train' / name} holds {len(found)} pictures, not {extent.train}")
        files |= dict.fromkeys(found, label)
    return files


def labelled_test(place: Path, classes: list[str], extent: Extent) -> dict[Path, int]:
    labels, files = (
        {name: label for label, name in enumerate(classes)},
        {file.name: file for file in pictures(place / "val")},
    )
    annotations, found = place / "val/val_annotations.txt", {}
    for number, line in enumerate(annotations.read_text().splitlines(), 1):
        name, label, *_ = (*line.split("\t"), "")
        if name not in files or label not in labels:
            raise DataError(f"{annotations}, line {number}: no picture {name!r} or no class {label!r}")
        found[files[name]] = labels[label]
    if len(found) != extent.test:
        raise DataError(f"{annotations} names {len(found)} pictures, not {extent.test}")
    return found


def images(files: dict[Path, int], extent: Extent, place: Path) -> Images:
    tensor = decoded(list(files), "RGB", (extent.size, extent.size))
    return checked(tensor, torch.tensor(list(files.values())), extent.classes, place)
