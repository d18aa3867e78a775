import os
from pathlib import Path

import pytest
from tiny_files import picture, tiny_imagenet

from scyc.data import DataError, Dataset, roots
from scyc.data.dataset import Missing
from scyc.data.tiny_imagenet import Extent, find_tiny, images, labelled_test, labelled_train, read_tiny

TINY = Extent(classes=2, train=2, test=3, size=8)
ONE, TWO = "n00000001", "n00000002"


def read_it(place: Path, *caches: Path) -> Dataset:
    return read_tiny(place, TINY, caches)


def test_classes_are_the_sorted_names_and_val_is_the_test_set(tmp_path: Path) -> None:
    found = read_it(tiny_imagenet(tmp_path))
    assert found.train.images.shape == (4, 3, 8, 8)
    assert found.train.images[:, 0, 0, 0].tolist() == [100, 110, 0, 10]  # n00000001, listed second, is class 0
    assert found.train.labels.tolist() == [0, 0, 1, 1]
    assert found.test is not None
    assert found.test.images[:, 0, 0, 0].tolist() == [0, 50, 100]
    assert found.test.labels.tolist() == [1, 0, 1]
    assert (found.classes, found.mean) == (2, (0.4802, 0.4481, 0.3975))


def test_the_folder_itself_may_be_the_root(tmp_path: Path) -> None:
    place = tiny_imagenet(tmp_path)
    assert find_tiny(tmp_path) == find_tiny(place) == place
    with pytest.raises(Missing, match=r"none/tiny-imagenet-200/val/val_annotations\.txt is missing"):
        find_tiny(tmp_path / "none")


def test_grey_pictures_among_the_coloured_become_colour(tmp_path: Path) -> None:
    place = tiny_imagenet(tmp_path)
    picture(place / f"train/{ONE}/images/{ONE}_0.JPEG", 77, mode="L")
    assert read_it(place).train.images[0, :, 0, 0].tolist() == [77, 77, 77]


@pytest.mark.parametrize("listed", [ONE, None])
def test_a_cut_list_of_classes_is_said_and_the_folders_count(tmp_path: Path, listed: str | None) -> None:
    place = tiny_imagenet(tmp_path)
    (place / "wnids.txt").unlink() if listed is None else (place / "wnids.txt").write_text(listed)
    with pytest.warns(UserWarning, match=r"wnids\.txt lists [01] of 2 classes; the folders count"):
        assert read_it(place).train.labels.tolist() == [0, 0, 1, 1]


def test_decoded_pictures_are_kept_and_follow_a_change(tmp_path: Path) -> None:
    place, cache = tiny_imagenet(tmp_path), tmp_path / "cache"
    first = read_it(place, cache)
    kept = (cache / "imagenet200.safetensors").stat().st_mtime_ns
    assert read_it(place, cache).digest() == first.digest()
    assert (cache / "imagenet200.safetensors").stat().st_mtime_ns == kept
    picture(place / f"train/{ONE}/images/{ONE}_0.JPEG", (200, 200, 200))
    assert read_it(place, cache).train.images[0, 0, 0, 0] == 200


def cut(place: Path, name: str, old: str, new: str) -> None:
    content = (place / name).read_text()
    assert old in content
    (place / name).write_text(content.replace(old, new))


def test_what_is_missing_or_wrong_is_one_line(tmp_path: Path) -> None:
    faults = {
        "two": (
            lambda place: (place / f"train/{TWO}").rename(place / "away"),
            f"train/{TWO} is missing; wnids.txt lists",
        ),
        "none": (lambda place: (place / "train").rename(place / "away"), "train is missing; the set is incomplete"),
        "more": (lambda place: (place / "train/n00000003").mkdir(), "train has 3 class folders, not 2"),
        "few": (lambda place: (place / f"train/{ONE}/images/{ONE}_1.JPEG").unlink(), f"{ONE} holds 1 pictures, not 2"),
        "val": (lambda place: (place / "val/images/val_2.JPEG").unlink(), "line 3: no picture 'val_2.JPEG'"),
        "label": (lambda place: cut(place, "val/val_annotations.txt", ONE, "n9"), "line 2: .* or no class 'n9'"),
        "short": (lambda place: cut(place, "val/val_annotations.txt", "val_2", "val_0"), "names 2 pictures, not 3"),
        "form": (lambda place: cut(place, "val/val_annotations.txt", "\t", " "), "line 1: no picture"),
        "size": (lambda place: picture(place / "val/images/val_0.JPEG", 0, (9, 8), "L"), "is 9x8 pixels, not 8x8"),
        "jpeg": (lambda place: (place / "val/images/val_0.JPEG").write_bytes(b"torn"), "val_0.JPEG cannot be decoded"),
    }
    for name, (damage, line) in faults.items():
        place = tiny_imagenet(tmp_path / name)
        damage(place)
        with pytest.raises(DataError, match=line) as error:
            read_it(place)
        assert "\n" not in str(error.value)


def test_the_real_set_has_its_published_extent() -> None:
    place = next(
        (root / "tiny-imagenet-200" for root in roots(None, os.environ) if (root / "tiny-imagenet-200").is_dir()), None
    )
    if place is None:
        pytest.skip("the real files are not here")
    extent, classes = Extent(), sorted(entry.name for entry in (place / "train").iterdir())
    test = labelled_test(place, classes, extent)
    assert [*labelled_train(place, classes, extent).values()][499:501] == [0, 1]
    assert sorted(test.values()) == [label for label in range(200) for _ in range(50)]
    some = dict([*test.items()][:200])
    assert images(some, extent, place).images.shape == (200, 3, 64, 64)
