"""CIFAR-10 in its official forms: binary or python batches, in a folder or still in the .tar.gz."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scyc.data.archive import members
from scyc.data.checksum import Known, verified, verify
from scyc.data.dataset import DataError, Dataset, Images, Missing, checked
from scyc.data.pickled import batch

PIXELS = 3 * 32 * 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Form:
    """One form the set is published in; the last of its files holds the test images."""

    folder: str
    archive: str
    files: Mapping[str, Known]
    parse: Callable[[bytes, object], tuple[NDArray[np.uint8], NDArray[np.int64]]]  # pixels (n, 3072), labels (n,)


def rows(content: bytes, source: object) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels and labels of a binary batch, whose rows are a label and 3,072 pixels."""
    if len(content) % (1 + PIXELS):
        raise DataError(f"{source} holds {len(content)} bytes, not rows of {1 + PIXELS}")
    table = np.frombuffer(bytearray(content), np.uint8).reshape(-1, 1 + PIXELS)
    return table[:, 1:], table[:, 0].astype(np.int64)


BINARY = Form(
    folder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    files={
        "data_batch_1.bin": Known(30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        "data_batch_2.bin": Known(30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
        "data_batch_3.bin": Known(30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        "data_batch_4.bin": Known(30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        "data_batch_5.bin": Known(30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
        "test_batch.bin": Known(30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    },
    parse=rows,
)
PYTHON = Form(
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    files={
        "data_batch_1": Known(31_035_704, "c99cafc152244af753f735de768cd75f"),
        "data_batch_2": Known(31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
        "data_batch_3": Known(31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
        "data_batch_4": Known(31_035_696, "634d18415352ddfa80567beed471001a"),
        "data_batch_5": Known(31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        "test_batch": Known(31_035_526, "40351d587109b95175f43aff81a1287e"),
    },
    parse=batch,
)
FORMS = (BINARY, PYTHON)


def cifar10(root: Path) -> Dataset:
    """CIFAR-10: 32x32 colour photographs, 50,000 to train and 10,000 to test"""
    return read_cifar(root, FORMS)


def read_cifar(root: Path, forms: tuple[Form, ...]) -> Dataset:
    place, form = find(root, forms)
    batches = {name: parsed(content, form, place / name) for name, content in contents(place, form)}
    *train, test = (batches[name] for name in form.files)
    joined = Images(torch.cat([part.images for part in train]), torch.cat([part.labels for part in train]))
    return Dataset(joined, test, 10, MEAN, STD)


def find(root: Path, forms: tuple[Form, ...]) -> tuple[Path, Form]:
    """The first folder with all files of a form, else the first archive; Missing names the fullest folder's gap."""
    absent = []
    for form in forms:
        for place in (root / form.folder, root):
            lacking = [name for name in form.files if not (place / name).is_file()]
            if not lacking:
                return place, form
            absent.append(Missing(place / lacking[0], found=len(form.files) - len(lacking)))
    for form in forms:
        if (root / form.archive).is_file():
            return root / form.archive, form
    raise max(absent, key=lambda error: error.found)


def contents(place: Path, form: Form) -> Iterator[tuple[str, bytes]]:
    """Each file's name and its content, if it is the published one."""
    if place.is_dir():
        yield from ((name, verified(place / name, known)) for name, known in form.files.items())
        return
    for name, content in members(place, {f"{form.folder}/{name}": known.size for name, known in form.files.items()}):
        file = name.removeprefix(f"{form.folder}/")
        yield file, verify(content, form.files[file], f"{place}: {name}")


def parsed(content: bytes, form: Form, source: object) -> Images:
    pixels, labels = form.parse(content, source)
    return checked(torch.from_numpy(pixels).reshape(-1, 3, 32, 32), torch.from_numpy(labels), 10, source)
