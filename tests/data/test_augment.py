"""Augmentation: true crops of the zero-padded image, a draw of its own for every image."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from scyc.data.augment import crop_and_flip
from scyc.draw import key


def keys(*seeds: int) -> Tensor:
    return torch.tensor([key("augment", seed, 0) for seed in seeds])


def images(runs: int, rows: int, channels: int = 3, height: int = 16, width: int = 16) -> Tensor:
    return torch.randint(1, 256, (runs, rows, channels, height, width), dtype=torch.uint8)


def found(image: Tensor, crop: Tensor, pad: int) -> list[tuple[int, int, int]]:
    """Every (top, left, flip) that makes the crop of the padded image, by trying them all in numpy."""
    padded = np.pad(image.numpy(), ((0, 0), (pad, pad), (pad, pad)))
    _, height, width = image.shape
    places = []
    for top in range(2 * pad + 1):
        for left in range(2 * pad + 1):
            window = padded[:, top : top + height, left : left + width]
            for flip, seen in ((0, window), (1, window[:, :, ::-1])):
                if np.array_equal(seen, crop.numpy()):
                    places.append((top, left, flip))
    return places


@pytest.mark.parametrize(
    ("channels", "height", "width", "pad"), [(3, 32, 32, 4), (1, 64, 64, 8), (3, 16, 24, 2), (3, 8, 8, 1)]
)
def test_each_image_becomes_a_crop_of_itself(channels: int, height: int, width: int, pad: int) -> None:
    before = images(2, 6, channels, height, width)
    kept = before.clone()
    after = crop_and_flip(before, keys(1, 2), 5)
    assert after.shape == before.shape
    assert after.dtype == torch.uint8
    assert torch.equal(before, kept)
    for run in range(2):
        for row in range(6):
            assert len(found(before[run, row], after[run, row], pad)) == 1


def draws(count: int, step: int = 0, seed: int = 1) -> list[tuple[int, int, int]]:
    """What happened to each of many copies of one image."""
    image = images(1, 1).expand(1, count, 3, 16, 16)
    after = crop_and_flip(image, keys(seed), step)[0]
    places = [found(image[0, 0], crop, 2) for crop in after]
    assert {len(place) for place in places} == {1}
    return [place[0] for place in places]


def test_every_place_and_both_directions_come_equally_often() -> None:
    seen = draws(1500)
    assert {draw[0] for draw in seen} == {draw[1] for draw in seen} == set(range(5))
    for axis, bound in ((0, 5), (1, 5), (2, 2)):
        assert stats.chisquare(np.bincount([draw[axis] for draw in seen], minlength=bound)).pvalue > 1e-4
    assert len(set(seen)) == 50  # all combinations: the three are drawn apart


def test_rows_steps_and_seeds_have_draws_of_their_own() -> None:
    first = draws(30)
    assert len(set(first)) > 10
    assert draws(30) == first
    assert draws(30, step=1) != first
    assert draws(30, seed=2) != first


def test_no_image_depends_on_others() -> None:
    batch = images(2, 8)
    whole = crop_and_flip(batch, keys(1, 2), 3)
    other = batch.clone()
    other[0] = images(1, 8)[0]
    other[1, 5:] = images(1, 3)[0]
    assert torch.equal(crop_and_flip(other, keys(9, 2), 3)[1, :5], whole[1, :5])  # other rows, other runs
    assert torch.equal(crop_and_flip(batch[1:, :4], keys(2), 3)[0], whole[1, :4])  # fewer of both
