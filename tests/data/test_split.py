"""Splits: sizes, disjointness, and what the seed and the limit decide."""

import pytest
import torch

from scyc.data.split import Split, split


def sets(made: Split) -> list[set[int]]:
    return [set(part.tolist()) for part in (made.train, made.validation, made.test)]


def sizes(made: Split) -> tuple[int, int, int]:
    return len(made.train), len(made.validation), len(made.test)


def disjoint(made: Split) -> bool:
    return len(set.union(*sets(made))) == sum(sizes(made))


@pytest.mark.parametrize(
    ("labelled", "held_out", "expected"),
    [
        (50_000, 10_000, (36_000, 12_000, 12_000)),  # CIFAR-10
        (100_000, 10_000, (66_000, 22_000, 22_000)),  # ImageNet-200
        (1_797, 0, (1_078, 360, 359)),  # digits: 1078.2 and 1437.6 round to 1078 and 1438
        (10, 0, (6, 2, 2)),
    ],
)
def test_paper_pools_all_and_splits_60_20_20(labelled: int, held_out: int, expected: tuple[int, int, int]) -> None:
    made = split(labelled, held_out, "paper", 0)
    assert sizes(made) == expected
    assert set.union(*sets(made)) == set(range(labelled + held_out))


def test_official_keeps_the_sets_own_test_images() -> None:
    made = split(60_000, 10_000, "official", 3)  # Fashion-MNIST
    assert sizes(made) == (48_000, 12_000, 10_000)
    assert made.test.tolist() == list(range(60_000, 70_000))
    assert set.union(*sets(made)[:2]) == set(range(60_000))


def test_official_needs_test_images() -> None:
    with pytest.raises(ValueError, match=r"split 'official' needs test images .* use split = 'paper'"):
        split(100, 0, "official", 0)


@pytest.mark.parametrize("how", ["paper", "official"])
def test_the_seed_decides(how: str) -> None:
    first, again, other = (split(500, 100, how, seed) for seed in (1, 1, 2))
    assert torch.equal(first.train, again.train)
    assert torch.equal(first.validation, again.validation)
    assert sets(first)[0] != sets(other)[0]
    assert sorted(first.train.tolist()) != first.train.tolist()  # drawn, not cut


def test_paper_mixes_training_and_test_images() -> None:
    made = split(500, 500, "paper", 0)
    for part in sets(made):
        assert 0.3 < len({i for i in part if i < 500}) / len(part) < 0.7


@pytest.mark.parametrize(
    ("how", "limit", "expected"),
    [
        ("paper", 100, (60, 20, 20)),
        ("paper", 10_000, (420, 140, 140)),  # more than there are: all
        ("official", 100, (80, 20, 40)),  # test images in the same proportion
        ("official", 3, (2, 1, 1)),
        ("official", 500, (400, 100, 200)),
        ("official", 0, (400, 100, 200)),
    ],
)
def test_limit_takes_a_seeded_subset(how: str, limit: int, expected: tuple[int, int, int]) -> None:
    held_out = 200
    first, other = (split(500, held_out, how, seed, limit) for seed in (0, 1))
    assert sizes(first) == expected
    assert disjoint(first)
    if how == "official":
        assert min(sets(first)[2]) >= 500
        assert max(set.union(*sets(first)[:2])) < 500
    if 0 < limit < 500:
        assert set.union(*sets(first)) != set.union(*sets(other))
