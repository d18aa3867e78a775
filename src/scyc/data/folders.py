"""Folders of pictures, one sub-folder for each class."""

from pathlib import Path

import torch

from scyc.data.dataset import DataError, Dataset, Images, Missing, checked
from scyc.data.pictures import Header, Mode, decoded, header, pictures

GREY = ("1", "L")


def folder(root: Path, *, path: str, size: int | None = None) -> Dataset:
    """pictures in PATH/train/CLASS/ and, to test, PATH/test/CLASS/ or PATH/val/CLASS/; or in PATH/CLASS/"""
    train, test = parts(root / Path(path).expanduser())
    classes = sorted(entry.name for entry in train.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if len(classes) < 2:
        raise DataError(f"{train} has {len(classes)} sub-folders; it needs one for each class, two at least")
    files = {place: labelled(place, classes) for place in (train, test) if place is not None}
    mode, shape = form({file: header(file) for place in files.values() for file in place}, size)
    train_images, *test_images = (images(place, files[place], classes, mode, shape, size) for place in files)
    return Dataset(train_images, test_images[0] if test_images else None, len(classes), mean=None, std=None)


def parts(top: Path) -> tuple[Path, Path | None]:
    """The folders of the training and of the test pictures."""
    if not top.is_dir():
        raise Missing(top)
    test = next((top / name for name in ("test", "val") if (top / name).is_dir()), None)
    if (top / "train").is_dir():
        return top / "train", test
    if test is not None:
        raise DataError(f"{top} has {test.name}/ but no train/; add it, or move the classes up into {top}")
    return top, None


def labelled(place: Path, classes: list[str]) -> dict[Path, int]:
    """Each picture's label: the place of its class among the sorted names of the training folder's classes."""
    files: dict[Path, int] = {}
    for label, name in enumerate(classes):
        found = pictures(place / name)
        if not found:
            raise DataError(f"{place / name} holds no picture; each class needs one at least")
        files |= dict.fromkeys(found, label)
    unknown = sorted({entry.name for entry in place.iterdir() if entry.is_dir() and entry.name[0] != "."} - {*classes})
    if unknown:
        raise DataError(f"{place / unknown[0]} is no class of the training folder")
    return files


def form(headers: dict[Path, Header], size: int | None) -> tuple[Mode, tuple[int, int]]:
    """Grey if every picture is; the common size, or the one that was asked for."""
    mode: Mode = "L" if all(found.mode in GREY for found in headers.values()) else "RGB"
    if size is not None:
        if size < 1:
            raise ValueError(f"size {size} of the pictures must be at least 1 pixel")
        return mode, (size, size)
    first, *others = headers
    odd = next((path for path in others if headers[path].size != headers[first].size), None)
    if odd is not None:
        sizes = " and ".join(f"{path} is {headers[path].size[0]}x{headers[path].size[1]}" for path in (first, odd))
        raise DataError(f"pictures differ in size: {sizes}; give a size, say size=64, to crop and resize them all")
    return mode, headers[first].size


def images(
    place: Path, files: dict[Path, int], classes: list[str], mode: Mode, shape: tuple[int, int], size: int | None
) -> Images:
    tensor = decoded(list(files), mode, shape, fit=size is not None)
    return checked(tensor, torch.tensor(list(files.values())), len(classes), place)
