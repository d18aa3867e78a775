"""Where each data set is published, and how its archive is unpacked."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scyc.data.archive import unzip
from scyc.data.cifar import BINARY, Form, contents
from scyc.data.inventory import PUBLISHED, Published
from scyc.data.tiny_imagenet import FOLDER

TINY_MEMBERS = re.compile(
    rf"{FOLDER}/(wnids\.txt|words\.txt|train/(n\d{{8}})/(\2_boxes\.txt|images/\2_\d+\.JPEG)"
    r"|val/(val_annotations\.txt|images/val_\d+\.JPEG))"
)
TINY_LIMIT = 1 << 30  # bytes; the published pictures take a quarter of it


@dataclass(frozen=True)
class Remote:
    """One published file, as it is transferred."""

    url: str
    size: int
    md5: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """The folder a set gets, and its files; an archive is unpacked into that folder and removed."""

    folder: str
    remotes: tuple[Remote, ...]
    published: Published  # tells whether a folder has the set already
    unpack: Callable[[Path, Path], None] | None = None  # (archive, folder)


def unpack_cifar(form: Form, archive: Path, folder: Path) -> None:
    for name, content in contents(archive, form):
        (folder / name).write_bytes(content)


def unpack_tiny(archive: Path, folder: Path) -> None:
    unzip(archive, folder, TINY_MEMBERS, TINY_LIMIT)


FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
OSSCI = "https://ossci-datasets.s3.amazonaws.com/mnist"
TORONTO = "https://www.cs.toronto.edu/~kriz"
STANFORD = "https://cs231n.stanford.edu"
SOURCES = {
    "fashion-mnist": Source(
        "fashion-mnist",
        (
            Remote(f"{FASHION}/train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            Remote(f"{FASHION}/train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
            Remote(f"{FASHION}/t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
            Remote(f"{FASHION}/t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        PUBLISHED["fashion-mnist"],
    ),
    "mnist": Source(
        "mnist",
        (
            Remote(f"{OSSCI}/train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            Remote(f"{OSSCI}/train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
            Remote(f"{OSSCI}/t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
            Remote(f"{OSSCI}/t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        PUBLISHED["mnist"],
    ),
    "cifar10": Source(
        BINARY.folder,
        (Remote(f"{TORONTO}/{BINARY.archive}", 170_052_171, "c32a1d4ab5d03f1284b67883e8d87530"),),
        PUBLISHED["cifar10"],
        partial(unpack_cifar, BINARY),
    ),
    "imagenet200": Source(
        FOLDER,
        (Remote(f"{STANFORD}/tiny-imagenet-200.zip", 248_100_043, "90528d7ca1a48142e341f4ef8d21d0de"),),
        PUBLISHED["imagenet200"],
        unpack_tiny,
    ),
}
