"""Decoded images kept in a file that proves its own content: a damaged or old one is built anew, never believed."""

import contextlib
import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from scyc.data.dataset import Dataset, Images


def key(files: Iterable[Path]) -> str:
    """Names, sizes and times of the files: another key means that the images must be decoded again."""
    digest = hashlib.sha256()
    for file in files:
        state = file.stat()
        digest.update(f"{file.parent.name}/{file.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def cached(folders: Sequence[Path], name: str, key: str, build: Callable[[], Dataset]) -> Dataset:
    """The data set from the first folder that has it whole, else built and kept in the first that can be written."""
    files = [folder / f"{name}.safetensors" for folder in folders]
    for file in files:
        found = load(file, key)
        if found is not None:
            return found
    dataset = build()
    any(save(dataset, file, key) for file in files)  # nowhere to keep it is no error: it is built again next time
    return dataset


def load(file: Path, key: str) -> Dataset | None:
    """The file's data set, or None if the file is absent, of other pictures, or damaged."""
    if not file.is_file():
        return None
    try:
        with safe_open(file, framework="pt") as tensors:
            about = tensors.metadata() or {}
            if about.get("key") != key:
                return None
            train, test = (
                Images(tensors.get_tensor(f"{part}_images"), tensors.get_tensor(f"{part}_labels"))
                for part in ("train", "test")
            )
        dataset = Dataset(train, test, int(about["classes"]), mean=None, std=None)
        if dataset.digest() == about["digest"]:
            return dataset
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError):
        pass
    warnings.warn(f"{file} is damaged; the images are decoded again", stacklevel=2)
    return None


def save(dataset: Dataset, file: Path, key: str) -> bool:
    """Whether the data set could be written: under a temporary name, then renamed."""
    assert dataset.test is not None
    parts = {"train": dataset.train, "test": dataset.test}
    tensors = {f"{name}_images": part.images for name, part in parts.items()}
    tensors |= {f"{name}_labels": part.labels for name, part in parts.items()}
    temporary = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        about = {"key": key, "digest": dataset.digest(), "classes": str(dataset.classes)}
        save_file(tensors, temporary, metadata=about)
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)  # the folder may be shared, and safetensors writes for its user alone
        temporary.replace(file)
    except (OSError, SafetensorError):
        with contextlib.suppress(OSError):
            temporary.unlink()
        return False
    return True
