from pathlib import Path

import pytest
from tiny_files import picture

from scyc.data import DataError, Dataset, read

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def folder(root: Path, **fields: object) -> Dataset:
    return read("folder", {"path": "own", **fields}, (root,))


def split(root: Path, test: str | None = "test") -> Path:
    """Two classes: cats are red, dogs are blue; the test set has one green dog and one green cat."""
    for name, colour in (("dog", BLUE), ("cat", RED)):
        for i in range(2):
            picture(root / f"own/train/{name}/{i}.png", colour, (3, 2))
        if test is not None:
            picture(root / f"own/{test}/{name}/0.png", GREEN, (3, 2))
    return root / "own"


@pytest.mark.parametrize("test", ["test", "val"])
def test_classes_are_numbered_by_name(tmp_path: Path, test: str) -> None:
    split(tmp_path, test)
    found = folder(tmp_path)
    assert found.train.images.shape == (4, 3, 2, 3)
    assert found.train.images[:, :, 0, 0].tolist() == [list(RED)] * 2 + [list(BLUE)] * 2
    assert found.train.labels.tolist() == [0, 0, 1, 1]
    assert found.test is not None
    assert found.test.images[:, :, 0, 0].tolist() == [list(GREEN)] * 2
    assert found.test.labels.tolist() == [0, 1]
    assert (found.classes, found.mean, found.std) == (2, None, None)


def test_a_test_folder_goes_before_a_val_folder(tmp_path: Path) -> None:
    split(tmp_path, "test")
    picture(tmp_path / "own/val/cat/0.png", RED, (3, 2))
    found = folder(tmp_path)
    assert found.test is not None
    assert len(found.test.labels) == 2


def test_without_a_test_folder_there_is_no_test_set(tmp_path: Path) -> None:
    split(tmp_path, None)
    assert folder(tmp_path).test is None


def test_classes_directly_in_the_folder(tmp_path: Path) -> None:
    split(tmp_path, None).joinpath("train").rename(tmp_path / "moved")
    (tmp_path / "own").rmdir()
    (tmp_path / "moved").rename(tmp_path / "own")
    found = folder(tmp_path)
    assert found.train.labels.tolist() == [0, 0, 1, 1]
    assert found.test is None


def test_grey_pictures_have_one_channel_unless_one_is_coloured(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / f"own/{name}/0.png", 100, mode="L")
    assert folder(tmp_path).train.images.shape == (2, 1, 8, 8)
    picture(tmp_path / "own/b/1.png", RED)
    assert folder(tmp_path).train.images[:, :, 0, 0].tolist() == [[100] * 3, [100] * 3, list(RED)]


def test_pictures_of_differing_sizes_need_a_size(tmp_path: Path) -> None:
    split(tmp_path)
    picture(tmp_path / "own/test/dog/9.png", GREEN, (5, 5))
    with pytest.raises(DataError, match=r"0\.png is 3x2 and .*9\.png is 5x5; give a size, say size=64"):
        folder(tmp_path)
    found = folder(tmp_path, size=4)
    assert found.train.images.shape == (4, 3, 4, 4)
    assert found.test is not None
    assert found.test.images.shape == (3, 3, 4, 4)


def test_a_size_must_be_a_pixel_at_least(tmp_path: Path) -> None:
    split(tmp_path)
    with pytest.raises(ValueError, match="size 0 of the pictures must be at least 1"):
        folder(tmp_path, size=0)


def test_a_class_without_pictures_is_an_error(tmp_path: Path) -> None:
    split(tmp_path)
    (tmp_path / "own/train/ant").mkdir()
    with pytest.raises(DataError, match="own/train/ant holds no picture"):
        folder(tmp_path)
    (tmp_path / "own/train/ant").rmdir()
    (tmp_path / "own/test/cat/0.png").unlink()
    with pytest.raises(DataError, match="own/test/cat holds no picture"):
        folder(tmp_path)


def test_a_test_class_the_training_folder_does_not_have_is_an_error(tmp_path: Path) -> None:
    split(tmp_path)
    picture(tmp_path / "own/test/eel/0.png", GREEN, (3, 2))
    with pytest.raises(DataError, match="own/test/eel is no class of the training folder"):
        folder(tmp_path)


def test_a_single_sub_folder_is_no_set_of_classes(tmp_path: Path) -> None:
    picture(tmp_path / "own/pictures/cat/0.png", RED)
    picture(tmp_path / "own/pictures/dog/0.png", RED)
    with pytest.raises(DataError, match="own has 1 sub-folders; it needs one for each class"):
        folder(tmp_path)


def test_a_test_folder_alone_is_an_error(tmp_path: Path) -> None:
    picture(tmp_path / "own/test/cat/0.png", RED)
    with pytest.raises(DataError, match="own has test/ but no train/"):
        folder(tmp_path)


def test_a_missing_folder_and_a_damaged_picture_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder: own is missing; looked in"):
        folder(tmp_path)
    split(tmp_path)
    (tmp_path / "own/train/cat/1.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"own/train/cat/1\.png is no picture"):
        folder(tmp_path)
