"""Batches: who sees what when, and numbers that numpy finds too."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from examples import colour, digit_images
from scyc.data import Dataset, Images
from scyc.data.feed import EVALUATED_ROWS, Feed
from scyc.data.split import split


def numbered(count: int = 100, held_out: int = 0, classes: int = 100) -> Dataset:
    """Images whose labels say which they are, and whose pixels say so too."""

    def part(first: int, size: int) -> Images:
        labels = torch.arange(first, first + size)
        return Images(labels.to(torch.uint8)[:, None, None, None].expand(size, 1, 8, 8).contiguous(), labels)

    return Dataset(part(0, count), part(count, held_out) if held_out else None, classes, mean=(0.0,), std=(1 / 255,))


def feed(*seeds: int, dataset: Dataset | None = None, **options: Any) -> Feed:
    return Feed(dataset or numbered(), seeds or (0,), **{"batch": 7, "dtype": torch.float64, **options})


def labels(one: Feed, cycle: int, steps: range) -> list[list[list[int]]]:
    """Of each step, of each run, the batch."""
    return [one.train(cycle, step)[1].tolist() for step in steps]


def test_pixels_and_labels_stay_together() -> None:
    x, y = feed(0, 1).train(0, 3)
    assert x.shape == (2, 7, 1, 8, 8)
    assert torch.allclose(x, y[..., None, None, None].double().expand_as(x))


def test_an_epoch_shows_every_training_image_once_and_drops_the_rest() -> None:
    one = feed(4)
    train = set(split(100, 0, "paper", 4).train.tolist())
    assert one.epoch_steps == 8  # 60 // 7
    epochs = [labels(one, 0, range(8 * epoch, 8 * epoch + 8)) for epoch in range(3)]
    for epoch in epochs:
        seen = [label for step in epoch for label in step[0]]
        assert len(seen) == len(set(seen)) == 56
        assert set(seen) <= train
    assert len({tuple(itertools.chain.from_iterable(step[0] for step in epoch)) for epoch in epochs}) == 3
    assert len({frozenset(itertools.chain.from_iterable(step[0] for step in epoch)) for epoch in epochs}) > 1


def test_every_cycle_has_an_order_of_its_own() -> None:
    one = feed(0)
    assert len({str(labels(one, cycle, range(8))) for cycle in range(3)}) == 3


def test_runs_of_one_seed_see_the_same_and_others_do_not() -> None:
    batches = feed(3, 5, 3).train(1, 11)[1]
    assert torch.equal(batches[0], batches[2])
    assert not torch.equal(batches[0], batches[1])


@pytest.mark.parametrize("augment", [False, True])
def test_who_shares_the_stack_does_not_matter(augment: bool) -> None:
    alone = feed(3, dataset=colour(), augment=augment)
    among = feed(9, 3, 1, 3, dataset=colour(), augment=augment)
    for step in (0, 6, 4, 25):  # in any order, back and forth
        for mine, theirs in zip(alone.train(2, step), among.train(2, step), strict=True):
            assert torch.equal(mine[0], theirs[1])
            assert torch.equal(mine[0], theirs[3])
    for part in ("validation", "test"):
        for (x, y), (xs, ys) in zip(alone.rows(part), among.rows(part), strict=True):
            assert torch.equal(x[0], xs[1])
            assert torch.equal(y[0], ys[1])
    assert torch.equal(alone.drop_keys(1, 2)[0], among.drop_keys(1, 2)[1])


def test_augmentation_changes_training_batches_alone() -> None:
    bare, augmented = (feed(3, dataset=colour(), augment=augment) for augment in (False, True))
    assert not torch.equal(bare.train(0, 0)[0], augmented.train(0, 0)[0])
    assert torch.equal(bare.train(0, 0)[1], augmented.train(0, 0)[1])
    for one, other in zip(bare.rows("validation"), augmented.rows("validation"), strict=True):
        assert torch.equal(one[0], other[0])
    for one, other in zip(bare.scoring(1, 2), augmented.scoring(1, 2), strict=True):
        assert torch.equal(one[0], other[0])


def test_augmentation_differs_by_seed_cycle_and_step() -> None:
    """The same image, seen again, is cropped anew."""
    one = Feed(numbered(10), [0, 1], batch=6, augment=True)
    one.images = torch.randint(0, 255, (1, 1, 16, 16), dtype=torch.uint8).expand(10, 1, 16, 16)  # all alike
    seen = {str(x.tolist()) for cycle in (0, 1) for step in (0, 1, 2) for x in one.train(cycle, step)[0]}
    assert len(seen) == 12


def test_dropout_keys_differ_by_seed_cycle_and_step() -> None:
    keys = [int(key) for cycle in (0, 1) for step in (0, 1, 2) for key in feed(0, 1).drop_keys(cycle, step)]
    assert len(set(keys)) == 12
    assert torch.equal(feed(4, 4).drop_keys(0, 3)[0], feed(4, 4).drop_keys(0, 3)[1])


# Evaluation and scores


@pytest.mark.parametrize("part", ["validation", "test"])
def test_rows_are_every_image_of_a_part_once(part: str) -> None:
    dataset = digit_images()
    one = Feed(dataset, [0, 1], batch=128)
    passes = list(one.rows(part))
    assert [y.shape[1] for _, y in passes] == [{"validation": 360, "test": 359}[part]]
    for run, seed in enumerate((0, 1)):
        index = getattr(split(1797, 0, "paper", seed), part)
        assert torch.equal(passes[0][1][run], dataset.train.labels[index])


def test_many_rows_come_in_passes() -> None:
    assert EVALUATED_ROWS == 500
    one = Feed(digit_images(), [0], batch=128)
    assert [y.shape[1] for _, y in one.scoring(1, "all")] == [500, 500, 78]


def test_scoring_batches_are_of_the_training_split_and_keyed_by_cycle() -> None:
    one = feed(2)
    train = set(split(100, 0, "paper", 2).train.tolist())
    first, again, other = ([y[0].tolist() for _, y in one.scoring(cycle, 3)] for cycle in (1, 1, 2))
    assert first == again != other
    assert [len(batch) for batch in first] == [7, 7, 7]
    seen = list(itertools.chain.from_iterable(first))
    assert len(set(seen)) == 21
    assert set(seen) <= train
    assert first != [batch[0] for batch in labels(one, 1, range(3))]  # not those it trains on next
    assert len(list(one.scoring(1, 1000))) == 8  # no more than an epoch has
    assert sorted(label for _, y in one.scoring(1, "all") for label in y[0].tolist()) == sorted(train)


# Normalisation


def test_own_data_is_normalised_by_its_training_split() -> None:
    dataset = colour(90)
    one = Feed(dataset, [0, 1], batch=9, dtype=torch.float64)
    for run, seed in enumerate((0, 1)):
        parts = split(90, 0, "paper", seed)
        pixels = dataset.train.images.numpy().astype(np.float64) / 255
        mean, std = (reduce(pixels[parts.train.numpy()], axis=(0, 2, 3), keepdims=True) for reduce in (np.mean, np.std))
        x = next(one.rows("validation"))[0][run]
        np.testing.assert_allclose(x.numpy(), (pixels[parts.validation.numpy()] - mean) / std, atol=1e-12)
        trained = torch.cat([x for x, _ in one.scoring(1, "all")], 1)[run]
        np.testing.assert_allclose(trained.mean((0, 2, 3)), 0, atol=1e-12)
        np.testing.assert_allclose(trained.std((0, 2, 3), correction=0), 1, atol=1e-12)


def test_known_sets_are_normalised_by_their_constants() -> None:
    bright = colour(60)
    dataset = Dataset(bright.train, None, 3, mean=(0.5, 0.25, 0.0), std=(0.25, 0.5, 1.0))
    one = Feed(dataset, [0], batch=9, dtype=torch.float64)
    parts = split(60, 0, "paper", 0)
    pixels = bright.train.images[parts.test].double() / 255
    expected = torch.stack([(pixels[:, 0] - 0.5) * 4, (pixels[:, 1] - 0.25) * 2, pixels[:, 2]], 1)
    torch.testing.assert_close(next(one.rows("test"))[0][0], expected)


def test_a_channel_of_one_value_is_not_divided_by_zero() -> None:
    flat = Images(torch.full((50, 1, 8, 8), 200, dtype=torch.uint8), torch.arange(50) % 2)
    x, _ = Feed(Dataset(flat, None, 2, mean=None, std=None), [0], batch=5).train(0, 0)
    assert x.abs().max() < 1e-6


def test_images_stay_bytes_and_batches_have_the_precision_of_the_run() -> None:
    for dtype in (torch.float32, torch.float64):
        one = feed(0, dtype=dtype)
        assert one.images.dtype == torch.uint8
        assert one.train(0, 0)[0].dtype == dtype


# The official split, limits, errors


def test_official_tests_on_the_sets_own_images() -> None:
    one = feed(0, 1, dataset=numbered(80, 20), how="official")
    test = next(one.rows("test"))[1]
    assert sorted(test[0].tolist()) == sorted(test[1].tolist()) == list(range(80, 100))
    assert one.epoch_steps == 64 // 7


def test_limit_makes_an_epoch_short() -> None:
    one = feed(0, limit=50)
    assert one.epoch_steps == 30 // 7
    assert next(one.rows("validation"))[1].shape == (1, 10)


def test_a_batch_larger_than_the_training_split_is_refused() -> None:
    with pytest.raises(ValueError, match="batch = 61 is larger than the 60 training images; use a batch of at most 60"):
        feed(0, batch=61)
    assert feed(0, batch=60).epoch_steps == 1


@pytest.mark.parametrize(("how", "limit"), [("paper", 2), ("paper", 1), ("official", 1)])
def test_a_part_without_images_is_refused(how: str, limit: int) -> None:
    """Its mean loss would be 0/0, and no step of a cycle its best."""
    with pytest.raises(
        ValueError, match=rf"split '{how}' of \d images leaves none for (train|validation|test); use more images"
    ):
        feed(0, dataset=numbered(80, 20), how=how, limit=limit, batch=1)
