import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from scyc.data import DataError, Dataset, read

GREY = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
COLOUR = np.arange(4 * 2 * 5 * 3, dtype=np.uint8).reshape(4, 2, 5, 3)  # channels last
LABELS = np.array([0, 1, 2, 0])


def from_npz(folder: Path, **arrays: Any) -> Dataset:
    np.savez(folder / "own.npz", **arrays)
    return read("npz", {"path": "own.npz"}, (folder,))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "names", [("images", "labels", "test_images", "test_labels"), ("x_train", "y_train", "x_test", "y_test")]
)
def test_both_sets_of_names(tmp_path: Path, save: Any, names: tuple[str, ...]) -> None:
    save(tmp_path / "own.npz", **dict(zip(names, (GREY, LABELS, GREY[:1], LABELS[1:2]), strict=True)))
    found = read("npz", {"path": "own.npz"}, (tmp_path,))
    assert found.train.images.tolist() == GREY[:, None].tolist()
    assert found.train.labels.tolist() == [0, 1, 2, 0]
    assert found.test is not None
    assert found.test.images.tolist() == [[[[0, 1, 2], [3, 4, 5]]]]
    assert found.test.labels.tolist() == [1]
    assert (found.classes, found.mean, found.std) == (3, None, None)


def test_layouts_read_the_same_from_both_formats(tmp_path: Path) -> None:
    last = from_npz(tmp_path, images=COLOUR, labels=LABELS)
    assert last.train.images.shape == (4, 3, 2, 5)
    assert last.train.images[1, 2, 0, 3] == COLOUR[1, 0, 3, 2]
    assert last.test is None
    first = from_npz(tmp_path, images=COLOUR.transpose(0, 3, 1, 2), labels=LABELS.astype(np.uint8)[:, None])
    assert first.digest() == last.digest()
    save_file({"images": torch.from_numpy(COLOUR), "labels": torch.from_numpy(LABELS)}, tmp_path / "own.safetensors")
    assert read("safetensors", {"path": "own.safetensors"}, (tmp_path,)).digest() == last.digest()


def test_other_arrays_are_passed_over(tmp_path: Path) -> None:
    found = from_npz(tmp_path, images=GREY, labels=LABELS, names=np.array(["a", "b"]), extra=np.array([None]))
    assert found.train.images.shape == (4, 1, 2, 3)


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"images": GREY / 255, "labels": LABELS}, r"images are torch.float64; .* convert with \(255 \* images\)"),
        ({"images": GREY.astype(np.int64), "labels": LABELS}, "images are torch.int64; images must be uint8"),
        ({"images": GREY, "labels": LABELS.astype(float)}, "labels are torch.float64; labels must be integers"),
        ({"images": GREY, "labels": LABELS == 1}, "labels are torch.bool"),
        ({"images": GREY, "labels": LABELS + 1}, "no image has label 0, the labels are 1 to 3; number them from 0"),
        ({"images": GREY, "labels": LABELS - 1}, "no image has label 0, the labels are -1 to 1"),
        ({"images": GREY, "labels": LABELS * 10**9}, "no image has label 1, the labels are 0 to 2000000000"),
        ({"images": GREY, "labels": LABELS[:3]}, r"labels of shape \(3,\) for 4 images"),
        ({"images": GREY}, "holds images; it lacks labels"),
        ({"pictures": GREY, "labels": LABELS}, "holds labels; it needs images and labels"),
        ({"images": GREY, "labels": LABELS, "test_images": GREY}, "it lacks test_labels"),
        ({"images": GREY, "labels": LABELS, "test_labels": LABELS}, "it lacks test_images"),
        ({"images": GREY, "labels": LABELS, "test_images": GREY, "test_labels": LABELS + 1}, "label 3 of image 2"),
        ({"images": GREY[..., None, None], "labels": LABELS}, r"have shape \(4, 2, 3, 1, 1\); save them as"),
        ({"images": COLOUR[:, :, :, :2], "labels": LABELS}, r"have shape \(4, 2, 5, 2\); save them as"),
        ({"images": COLOUR.reshape(4, 3, 10, 1), "labels": LABELS}, r"have shape \(4, 3, 10, 1\); save them as"),
        ({"images": GREY[0, 0], "labels": LABELS[:3]}, r"have shape \(3,\); save them as"),
        ({"images": np.array([{}, {}]), "labels": LABELS}, "images.npy holds Python objects"),
        ({"images": np.array(["a", "b"]), "labels": LABELS}, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, arrays: dict[str, Any], line: str) -> None:
    with pytest.raises(DataError, match=line) as error:
        from_npz(tmp_path, **arrays)
    assert str(error.value).startswith(f"npz: {tmp_path / 'own.npz'}")
    assert "\n" not in str(error.value)


def test_test_images_of_another_shape_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test images are \(1, 2, 2\), the training images \(1, 2, 3\)"):
        from_npz(tmp_path, images=GREY, labels=LABELS, test_images=GREY[:, :, :2], test_labels=LABELS)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"\x08" + bytes(7) + b'{"a": 1}'])
def test_a_file_of_another_format_is_an_error(tmp_path: Path, kind: str, content: bytes) -> None:
    (tmp_path / "own").write_bytes(content)
    with pytest.raises(DataError, match=f"{kind}: .*own cannot be read"):
        read(kind, {"path": "own"}, (tmp_path,))


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_truncated_file_is_an_error(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"own.{kind}"
    if kind == "npz":
        np.savez(file, images=GREY, labels=LABELS)
    else:
        save_file({"images": torch.from_numpy(GREY), "labels": torch.from_numpy(LABELS)}, file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read(kind, {"path": file.name}, (tmp_path,))


def test_flipped_bits_of_an_npz_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", images=GREY, labels=LABELS)
    content = (tmp_path / "own.npz").read_bytes()
    (tmp_path / "own.npz").write_bytes(content.replace(GREY.tobytes(), GREY[::-1].tobytes()))
    with pytest.raises(DataError, match="cannot be read: Bad CRC-32"):
        read("npz", {"path": "own.npz"}, (tmp_path,))


@pytest.mark.parametrize("count", [2**20, 2**50])
def test_a_header_that_claims_more_than_is_there_is_refused_before_memory_is_taken(tmp_path: Path, count: int) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (count, 8, 8)})
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue() + bytes(64))
    with pytest.raises(
        DataError, match=f"images.npy should unpack to {count * 64 + len(header.getvalue())} bytes and says"
    ):
        read("npz", {"path": "own.npz"}, (tmp_path,))
