"""Tiny data sets in the true formats, written byte by byte as the formats' descriptions have them."""

import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from scyc.data.checksum import Known
from scyc.data.cifar import Form, rows
from scyc.data.idx import IdxSet
from scyc.data.pickled import batch


def known(content: bytes) -> Known:
    return Known(len(content), hashlib.md5(content).hexdigest())


def idx(values: bytes, *shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + b"".join(struct.pack(">I", size) for size in shape) + values


IDX_FILES = {
    "train-images-idx3-ubyte": idx(bytes(range(24)), 4, 2, 3),
    "train-labels-idx1-ubyte": idx(bytes((0, 1, 2, 1)), 4),
    "t10k-images-idx3-ubyte": idx(bytes(range(100, 112)), 2, 2, 3),
    "t10k-labels-idx1-ubyte": idx(bytes((2, 0)), 2),
}


def idx_set(files: Mapping[str, bytes] = IDX_FILES, folders: tuple[str, ...] = ("tiny", ".")) -> IdxSet:
    checksums = {name: known(content) for name, content in files.items()}
    return IdxSet(folders, checksums, classes=3, mean=(0.5,), std=(0.25,))


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def gzipped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


# Two batches to train and one to test, of two images each: label, then its 3,072 pixels.
LABELS = {"data_batch_1": (6, 9), "data_batch_2": (0, 4), "test_batch": (3, 8)}
PIXELS = {name: bytes((7 * k + start) % 251 for k in range(2 * 3072)) for start, name in enumerate(LABELS)}


def binary_batch(name: str) -> bytes:
    return b"".join(bytes((label,)) + PIXELS[name][i * 3072 : (i + 1) * 3072] for i, label in enumerate(LABELS[name]))


def python_batch(name: str, module: bytes = b"numpy.core.multiarray", dtype: bytes = b"u1") -> bytes:
    """A dictionary as Python 2 pickled it (protocol 2): the array by numpy's own reduction, strings as bytes."""
    labels = b"".join(b"K" + bytes((label,)) for label in LABELS[name])
    array = b"c" + module + b"\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87R"
    described = (
        b"cnumpy\ndtype\nq\x09U\x02"
        + dtype
        + b"K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    raw = PIXELS[name]
    state = b"(K\x01M" + struct.pack("<H", 2) + b"M" + struct.pack("<H", 3072) + b"\x86" + described
    state += b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    return b"\x80\x02}q\x01(U\x06labelsq\x02](" + labels + b"eU\x04dataq\x03" + array + state + b"u."


BINARY_FILES = {f"{name}.bin": binary_batch(name) for name in LABELS}
PYTHON_FILES = {name: python_batch(name) for name in LABELS}


def forms(binary: Mapping[str, bytes] = BINARY_FILES, python: Mapping[str, bytes] = PYTHON_FILES) -> tuple[Form, Form]:
    return (
        Form("bin", "bin.tar.gz", {name: known(content) for name, content in binary.items()}, rows),
        Form("py", "py.tar.gz", {name: known(content) for name, content in python.items()}, batch),
    )


def tar_gz(folder: str, files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def picture(path: Path, colour: tuple[int, int, int] | int, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **({"quality": 100} if path.suffix == ".JPEG" else {}))
    return path


def tiny_imagenet(root: Path, names: tuple[str, ...] = ("n00000002", "n00000001")) -> Path:
    """Two classes of two pictures, three to test; wnids.txt is not sorted, as the published one is not."""
    place = root / "tiny-imagenet-200"
    for k, name in enumerate(names):
        for i in range(2):
            picture(place / f"train/{name}/images/{name}_{i}.JPEG", (100 * k + 10 * i,) * 3)
    for i in range(3):
        picture(place / f"val/images/val_{i}.JPEG", (50 * i,) * 3)
    (place / "wnids.txt").write_text("\n".join(names))
    answers = [f"val_{i}.JPEG\t{names[i % 2]}\t0\t0\t7\t7\n" for i in range(3)]
    (place / "val/val_annotations.txt").write_text("".join(answers))
    return place
