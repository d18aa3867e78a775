"""Keyed randomness: every part of a key counts, and nothing else does."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from scyc.draw import generator, key, mixed, permutation, seeded, whole

PARTS = st.tuples(st.sampled_from(["a", "b", "ab"]), st.lists(st.integers(0, 200), max_size=4))


def test_a_key_is_made_of_a_sha256() -> None:
    digest = hashlib.sha256(b"order/3/0/12").digest()
    assert key("order", 3, 0, 12) == int.from_bytes(digest[:8], "little") // 4


@given(PARTS, PARTS)
def test_keys_differ_where_any_part_does(first: tuple[str, list[int]], second: tuple[str, list[int]]) -> None:
    keys = [key(purpose, *numbers) for purpose, numbers in (first, second)]
    assert (keys[0] == keys[1]) == (first == second)
    assert all(0 <= k < 2**62 for k in keys)  # so that a step can be added to it within 64 bits


def test_every_part_of_a_key_counts() -> None:
    keys = {key("x", *numbers) for numbers in ((1, 23), (12, 3), (1, 2, 3), (123,), (), (0,), (0, 0))}
    keys |= {key("y", 1, 23), key("x/1", 23, 4)}
    assert len(keys) == 9


def test_permutations_are_whole_reproducible_and_keyed() -> None:
    first = permutation(100, "order", 1, 2)
    assert sorted(first.tolist()) == list(range(100))
    torch.manual_seed(5)
    torch.rand(3)
    assert torch.equal(permutation(100, "order", 1, 2), first)
    for other in (("order", 1, 3), ("order", 2, 2), ("split", 1, 2)):
        assert not torch.equal(permutation(100, *other), first)


def test_generators_of_one_key_draw_the_same() -> None:
    draws = [torch.rand(4, generator=generator("score", seed)).tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_seeded_leaves_torchs_own_stream_as_it_was() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4).tolist()
    torch.manual_seed(3)
    drawn = []
    for seed in (1, 1, 2):
        with seeded("init", seed):
            drawn.append(torch.rand(2).tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.rand(4).tolist() == expected


def test_seeded_restores_the_stream_after_an_error() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4).tolist()
    torch.manual_seed(3)
    with pytest.raises(KeyError), seeded("init", 1):
        raise KeyError
    assert torch.rand(4).tolist() == expected


# whole(): many draws at once, without a generator


def keys(*seeds: int) -> Tensor:
    return torch.tensor([key("augment", seed, 0) for seed in seeds])


def splitmix64(word: int) -> int:
    """The finaliser as published, in unbounded integers."""
    word &= 2**64 - 1
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


@given(st.integers(-(2**63), 2**63 - 1))
def test_mixing_is_splitmix64(word: int) -> None:
    assert int(mixed(torch.tensor([word]))[0]) % 2**64 == splitmix64(word)


def test_mixing_gives_published_values() -> None:
    """The first outputs of splitmix64 from seed 1234567, as its test vectors have them."""
    gamma, published = 0x9E3779B97F4A7C15, [6457827717110365317, 3203168211198807973, 9817491932198370423]
    words = [(1234567 + gamma * (i + 1)) % 2**64 for i in range(3)]
    signed = torch.tensor([word - 2**64 if word >= 2**63 else word for word in words])
    assert [int(word) % 2**64 for word in mixed(signed)] == published


@pytest.mark.parametrize("bound", [2, 9, 17])
def test_draws_are_uniform(bound: int) -> None:
    (draws,) = whole(keys(1), 7, 20_000, (bound,))
    assert stats.chisquare(np.bincount(draws.flatten(), minlength=bound)).pvalue > 1e-4
    over_steps = torch.cat([whole(keys(1), step, 1, (bound,))[0].flatten() for step in range(5_000)])
    assert stats.chisquare(np.bincount(over_steps, minlength=bound)).pvalue > 1e-4
    over_seeds = whole(keys(*range(5_000)), 0, 1, (bound,))[0].flatten()
    assert stats.chisquare(np.bincount(over_seeds, minlength=bound)).pvalue > 1e-4
    assert set(draws.unique().tolist()) == set(range(bound))


def independent(first: Tensor, second: Tensor, bound: int) -> bool:
    """By the chi-square test of a table of both."""
    pairs = np.bincount(first.flatten() * bound + second.flatten(), minlength=bound * bound).reshape(bound, bound)
    return bool(stats.chi2_contingency(pairs).pvalue > 1e-4)


def test_lanes_rows_steps_and_seeds_are_independent() -> None:
    first, second = whole(keys(1), 3, 20_000, (9, 9))
    assert independent(first, second, 9)  # lanes
    assert independent(first[:, 1:], first[:, :-1], 9)  # neighbouring rows
    assert independent(first[:, 1:], second[:, :-1], 9)  # both
    assert independent(first, whole(keys(1), 4, 20_000, (9, 9))[0], 9)  # neighbouring steps
    assert independent(first, whole(keys(2), 3, 20_000, (9, 9))[0], 9)
    assert not independent(first, first, 9)  # the test can tell


def test_draws_depend_on_their_own_key_step_and_row_alone() -> None:
    both = whole(keys(1, 2), 5, 8, (9, 2))
    for k in (0, 1):
        alone = whole(keys(k + 1), 5, 3, (9, 2))
        for lane in (0, 1):
            assert torch.equal(both[lane][k, :3], alone[lane][0])


def test_the_largest_key_takes_the_largest_step() -> None:
    (draws,) = whole(torch.tensor([2**62 - 1]), 10**12, 4, (5,))
    assert draws.min() >= 0
    assert draws.max() < 5
