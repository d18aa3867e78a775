import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scyc.data import Dataset, Images
from scyc.data.cache import cached, key


def dataset(value: int) -> Dataset:
    images = torch.full((2, 1, 4, 4), value, dtype=torch.uint8)
    return Dataset(Images(images, torch.tensor([0, 1])), Images(images[:1] + 1, torch.tensor([1])), 2, None, None)


def failing() -> Dataset:
    raise AssertionError("built although it was kept")


def test_what_was_built_is_kept_and_not_built_again(tmp_path: Path) -> None:
    built = cached([tmp_path / "new"], "set", "k", lambda: dataset(7))
    kept = cached([tmp_path / "new"], "set", "k", failing)
    assert kept.digest() == built.digest() == dataset(7).digest()
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["set.safetensors"]


def test_another_key_builds_anew_and_replaces(tmp_path: Path) -> None:
    cached([tmp_path], "set", "k", lambda: dataset(7))
    assert cached([tmp_path], "set", "other", lambda: dataset(8)).digest() == dataset(8).digest()
    assert cached([tmp_path], "set", "other", failing).digest() == dataset(8).digest()


@pytest.mark.torture
def test_a_flipped_bit_anywhere_is_never_believed(
    tmp_path: Path, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    """ImageNet-200's cache; a bit may make it the file of other pictures, which is no damage to speak of."""
    cached([tmp_path], "set", "k", lambda: dataset(7))
    file, draw, aloud, count = tmp_path / "set.safetensors", random.Random(0), 0, size(150, 2000)
    whole = file.read_bytes()
    assert len(whole) > 8 + int.from_bytes(whole[:8], "little") + 7
    for number in range(count):
        place, bit = len(whole) * number // count, draw.randrange(8)
        file.write_bytes(whole[:place] + bytes((whole[place] ^ 1 << bit,)) + whole[place + 1 :])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert cached([tmp_path], "set", "k", lambda: dataset(9)).digest() == dataset(9).digest(), (place, bit)
        assert [str(warning.message) for warning in said] in ([], [f"{file} is damaged; the images are decoded again"])
        aloud += len(said)
        assert cached([tmp_path], "set", "k", failing).digest() == dataset(9).digest()  # and replaced by a whole one
    assert aloud > 0.7 * count
    figure(f"one flipped bit in a cache of decoded images: {count}, decoded again every time, {aloud} of them aloud")


def test_a_truncated_file_is_built_anew_and_said(tmp_path: Path) -> None:
    cached([tmp_path], "set", "k", lambda: dataset(7))
    file = tmp_path / "set.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"set\.safetensors is damaged"):
        found = cached([tmp_path], "set", "k", lambda: dataset(7))
    assert found.digest() == dataset(7).digest()
    assert cached([tmp_path], "set", "k", failing).digest() == dataset(7).digest()


def test_the_next_folder_is_used_where_the_first_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder would have to be made")
    folders = [tmp_path / "file/cache", tmp_path / "own"]
    cached(folders, "set", "k", lambda: dataset(7))
    assert (tmp_path / "own/set.safetensors").is_file()
    assert cached(folders, "set", "k", failing).digest() == dataset(7).digest()


def test_nowhere_to_keep_it_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cached([tmp_path / "file/cache"], "set", "k", lambda: dataset(7)).digest() == dataset(7).digest()


def test_the_key_follows_names_sizes_and_times(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for file in (one, two):
        file.write_bytes(b"abc")
        os.utime(file, ns=(0, 1_000))
    first = key([one, two])
    assert key([one, two]) == first
    assert len({first, key([two, one]), key([one])}) == 3
    os.utime(two, ns=(0, 2_000))
    assert key([one, two]) != first
    two.write_bytes(b"abcd")
    os.utime(two, ns=(0, 1_000))
    assert key([one, two]) != first
