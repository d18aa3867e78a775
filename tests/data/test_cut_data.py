"""Data files truncated at every percent, empty, missing or exchanged: one line, at once, whatever the format."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_files import BINARY_FILES, IDX_FILES, PYTHON_FILES, forms, gzipped, idx_set, tar_gz, tiny_imagenet, write

from scyc.data import DataError, read
from scyc.data.cifar import read_cifar
from scyc.data.idx import read_idx
from scyc.data.tiny_imagenet import Extent, read_tiny

IMAGES, LABELS = np.arange(600, dtype=np.uint8).reshape(6, 10, 10), np.array([0, 1, 2] * 2)
Reader = Callable[[], object]


def formats(folder: Path) -> dict[str, tuple[Path, Reader]]:
    """A file of every format, and what reads the set it belongs to."""
    write(folder / "idx", IDX_FILES)
    write(folder / "gz", gzipped(IDX_FILES))
    write(folder / "bin", BINARY_FILES)
    write(folder / "py", PYTHON_FILES)
    write(folder / "tar", {"bin.tar.gz": tar_gz("bin", BINARY_FILES)})
    np.savez(folder / "own.npz", images=IMAGES, labels=LABELS)
    np.savez_compressed(folder / "packed.npz", images=IMAGES, labels=LABELS)
    arrays = {"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS)}
    save_file(arrays, folder / "own.safetensors")
    place = tiny_imagenet(folder)
    return {
        "IDX": (folder / "idx/train-images-idx3-ubyte", lambda: read_idx(folder / "idx", idx_set())),
        "gzipped IDX": (folder / "gz/train-images-idx3-ubyte.gz", lambda: read_idx(folder / "gz", idx_set())),
        "binary batch": (folder / "bin/data_batch_2.bin", lambda: read_cifar(folder / "bin", forms()[:1])),
        "python batch": (folder / "py/data_batch_2", lambda: read_cifar(folder / "py", forms()[1:])),
        "tar.gz": (folder / "tar/bin.tar.gz", lambda: read_cifar(folder / "tar", forms()[:1])),
        "npz": (folder / "own.npz", lambda: read("npz", {"path": "own.npz"}, (folder,))),
        "packed npz": (folder / "packed.npz", lambda: read("npz", {"path": "packed.npz"}, (folder,))),
        "safetensors": (
            folder / "own.safetensors",
            lambda: read("safetensors", {"path": "own.safetensors"}, (folder,)),
        ),
        "JPEG": (place / "val/images/val_0.JPEG", lambda: read_tiny(place, Extent(2, 2, 3, 8), ())),
    }


def refused(reader: Reader) -> None:
    began = time.process_time()
    with pytest.raises(DataError) as error:
        print(reader())
    assert time.process_time() - began < 1
    assert "\n" not in str(error.value)


@pytest.mark.torture
def test_cut_empty_missing_or_exchanged_data_is_refused(
    tmp_path: Path, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    cut = exchanged = 0
    for name, (path, reader) in formats(tmp_path).items():
        assert reader()
        data = path.read_bytes()
        for percent in range(0, 100, size(13, 1)):
            path.write_bytes(data[: len(data) * percent // 100])
            if name == "tar.gz" and percent == 99:  # all files are in it, each proven by its checksum
                assert reader()
                continue
            refused(reader)
            cut += 1
        for other, (there, _) in formats(tmp_path / "others").items():
            if name not in other and other not in name:  # packed or not, the content is the same
                path.write_bytes(there.read_bytes())
                refused(reader)
                exchanged += 1
        path.unlink()
        refused(reader)
        path.write_bytes(data)
        assert reader()
    figure(f"data files cut to 0..99 %: {cut}, exchanged: {exchanged}, all refused in a line and in under a second")
