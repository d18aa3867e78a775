"""The exact selection: counts, ties, the guard; against numpy and a greedy loop that takes one unit at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from scyc import mask, prune
from scyc.model import MODELS
from scyc.prune import SCOPES, UNITS, pruned
from scyc.prune.select import select

Size = Callable[[int, int], int]
Figure = Callable[[str], None]


def masks_after(weights: dict[str, Tensor], amount: float, scope: str, count: int = 1) -> tuple[list[int], bool]:
    """How many weights each layer keeps after some prunings by magnitude, and whether the guard acted in the last."""
    masks = {name: torch.ones(1, *w.shape, dtype=torch.bool) for name, w in weights.items()}
    acted = torch.zeros(1)
    for _ in range(count):
        scores = {name: w.abs()[None] for name, w in weights.items()}
        masks, acted = pruned(scores, masks, scope=SCOPES[scope], unit=UNITS["weight"], amount=amount, coupled={})
    return [int(m.sum()) for m in masks.values()], bool(acted)


# Counts


def test_100_equal_weights_lose_exactly_a_fifth_of_what_is_left() -> None:
    kept = [masks_after({"a": torch.ones(100)}, 0.2, "global", count)[0] for count in range(1, 7)]
    assert kept == [[80], [64], [51], [41], [33], [26]]  # 12.8, 10.2, 8.2 and 6.6 round to 13, 10, 8 and 7


@pytest.mark.parametrize("scope", SCOPES)
def test_3000_equal_weights_lose_600(scope: str) -> None:
    """Where a quantile as threshold prunes none of them, or all."""
    kept, acted = masks_after({"a": torch.ones(1000), "b": torch.ones(2000)}, 0.2, scope)
    assert sum(kept) == 2400
    assert kept == ([400, 2000] if scope == "global" else [800, 1600])
    assert not acted


def test_ties_go_by_index() -> None:
    scores = torch.tensor([[2.0, 1.0, 1.0, 1.0, 3.0, 1.0]])
    gone, _ = select(scores, torch.ones(1, 6, dtype=torch.bool), [6], 0.5)
    assert gone.tolist() == [[False, True, True, True, False, False]]


def test_pruned_weights_do_not_count_and_do_not_go_again() -> None:
    alive = torch.tensor([[False, False, True, True, True, True]])
    gone, _ = select(torch.tensor([[0.0, 0.0, 4.0, 3.0, 2.0, 5.0]]), alive, [6], 0.5)
    assert gone.tolist() == [[False, False, False, True, True, False]]


def test_half_of_a_weight_rounds_as_python_rounds() -> None:
    assert masks_after({"a": torch.ones(5)}, 0.5, "global")[0] == [3]  # round(2.5) == 2
    assert masks_after({"a": torch.ones(7)}, 0.5, "global")[0] == [3]  # round(3.5) == 4


@pytest.mark.slow
def test_a_large_layer_is_counted_exactly() -> None:
    """In float32 a sum of ones stops at 16,777,216."""
    gone, _ = select(torch.zeros(1, 20_000_001), torch.ones(1, 20_000_001, dtype=torch.bool), [20_000_001], 0.2)
    assert int(gone.sum()) == 4_000_000
    assert gone[0, :4_000_000].all()


def test_the_paper_s_densities_of_resnet20() -> None:
    """Of all convolution and linear weights, with the classifier exempt, at m = 3, 4, 5, 7, 10, 13 and 18."""
    printed = {3: 51.3, 4: 41.1, 5: 32.9, 7: 21.1, 10: 10.9, 13: 5.72, 18: 2.03}
    net = MODELS["resnet20"]((3, 32, 32), 10)
    masks = mask.ones_like(net)
    every = {**mask.ones_like(net, mask.weights(net))}
    for m in range(1, 19):
        masks = prune.step(net, masks, score="random", amount=0.2)
        if m in printed:
            assert abs(100 * mask.density({**every, **masks}) - printed[m]) < 0.06
    assert set(every) - set(masks) == {"fc.weight"}


# Which weights


@pytest.mark.parametrize("amount", [0.1, 0.5, 0.8])
def test_the_smallest_go_as_numpy_finds_them(amount: float) -> None:
    draw = np.random.default_rng(5)
    weights = {name: draw.normal(size=size) for name, size in (("a", 40), ("b", 7), ("c", 150))}
    goal = round(amount * 197)
    flat = np.abs(np.concatenate(list(weights.values())))
    expected = np.ones(197, dtype=bool)
    expected[np.argsort(flat, kind="stable")[:goal]] = False
    made, acted = pruned(
        {name: torch.from_numpy(w).abs()[None] for name, w in weights.items()},
        {name: torch.ones(1, len(w), dtype=torch.bool) for name, w in weights.items()},
        scope=SCOPES["global"],
        unit=UNITS["weight"],
        amount=amount,
        coupled={},
    )
    assert np.array_equal(torch.cat(list(made.values()), 1)[0].numpy(), expected)
    assert not acted


def test_global_and_layer_differ_where_layers_do() -> None:
    weights = {"small": torch.arange(1.0, 11.0), "large": torch.arange(101.0, 111.0)}
    assert masks_after(weights, 0.4, "global") == ([2, 10], False)
    assert masks_after(weights, 0.4, "layer") == ([6, 6], False)


def test_infinite_scores_go_last_and_nan_is_an_error() -> None:
    alive = torch.ones(1, 3, dtype=torch.bool)
    gone, _ = select(torch.tensor([[torch.inf, 1.0, torch.inf]]), alive, [3], 0.67)
    assert gone.tolist() == [[True, True, False]]
    with pytest.raises(ValueError, match="a score is NaN"):
        select(torch.tensor([[1.0, torch.nan, 1.0]]), alive, [3], 0.5)


# The guard


def test_under_global_the_quota_passes_on() -> None:
    weights = {"low": torch.tensor([0.1, 0.3, 0.2]), "high": torch.arange(1.0, 11.0)}
    kept, acted = masks_after(weights, 0.5, "global")  # 6 of 13: two of the low ones, four of the high ones
    assert (kept, acted) == ([1, 6], True)
    assert masks_after(weights, 0.15, "global") == ([1, 10], False)  # 2 of 13, for which nobody needs a guard


def test_under_global_every_layer_keeps_one_and_then_nothing_is_left_to_prune() -> None:
    weights = {"a": torch.ones(3), "b": torch.ones(2), "c": torch.ones(1)}
    assert masks_after(weights, 0.9, "global") == ([1, 1, 1], True)  # 5 of 6 were asked for, 3 can go
    assert masks_after(weights, 0.9, "global", 2) == ([1, 1, 1], True)


def test_under_layer_fewer_are_pruned() -> None:
    weights = {"one": torch.ones(1), "two": torch.ones(2), "ten": torch.ones(10)}
    assert masks_after(weights, 0.9, "layer") == ([1, 1, 1], True)
    assert masks_after({"one": torch.ones(1), "ten": torch.ones(10)}, 0.9, "layer") == ([1, 1], True)
    assert masks_after({"ten": torch.ones(10)}, 0.9, "layer") == ([1], False)  # 9 of 10, as asked
    assert masks_after({"one": torch.ones(1)}, 0.4, "layer") == ([1], False)  # round(0.4) is 0, as asked


def test_the_one_that_stays_is_the_best() -> None:
    made, _ = pruned(
        {"a": torch.tensor([[3.0, 9.0, 9.0, 1.0]]), "b": torch.full((1, 40), 20.0)},
        {"a": torch.ones(1, 4, dtype=torch.bool), "b": torch.ones(1, 40, dtype=torch.bool)},
        scope=SCOPES["global"],
        unit=UNITS["weight"],
        amount=0.5,
        coupled={},
    )
    assert made["a"].tolist() == [[False, False, True, False]]  # of two that tie, ties by index take the first
    assert int(made["b"].sum()) == 21  # 22 of 44 asked, 3 of them from a


def greedy(scores: list[float], alive: list[bool], sizes: list[int], amount: float) -> tuple[list[bool], bool]:
    """One unit at a time, the smallest that may go; and whether one was passed over."""
    layers = [layer for layer, size in enumerate(sizes) for _ in range(size)]
    left = [sum(a for a, of in zip(alive, layers, strict=True) if of == layer) for layer in range(len(sizes))]
    wanted, gone, passed = round(amount * sum(alive)), [False] * len(scores), False
    for unit in sorted(range(len(scores)), key=lambda unit: (scores[unit], unit)):
        if alive[unit] and sum(gone) < wanted:
            if left[layers[unit]] == 1:
                passed = True
            else:
                gone[unit], left[layers[unit]] = True, left[layers[unit]] - 1
    return gone, passed


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[list[float]], list[list[bool]], list[int]]:
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any))
    runs, units = draw(st.integers(1, 3)), sum(sizes)
    row = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, 7.0]), min_size=units, max_size=units)
    flags = st.lists(st.booleans(), min_size=units, max_size=units)
    return [draw(row) for _ in range(runs)], [draw(flags) for _ in range(runs)], sizes


@pytest.mark.torture
def test_selection_is_the_greedy_one_in_every_run(size: Size, figure: Figure) -> None:
    @settings(max_examples=size(300, 8_000))
    @given(stacks(), st.floats(0.01, 0.99))
    def check(stack: Any, amount: float) -> None:
        scores, alive, sizes = stack
        gone, acted = select(torch.tensor(scores, dtype=torch.float64), torch.tensor(alive), sizes, amount)
        expected = [greedy(s, a, sizes, amount) for s, a in zip(scores, alive, strict=True)]
        assert gone.tolist() == [units for units, _ in expected]
        assert acted.tolist() == [passed for _, passed in expected]

    check()
    figure(f"exact counts, ties and the guard: {size(300, 8_000)} examples, no violation")


def conv_net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 3, 1), nn.Flatten(), nn.Linear(12, 5), nn.Linear(5, 2))


@pytest.mark.torture
def test_masks_only_shrink_and_no_layer_is_emptied(size: Size, figure: Figure) -> None:
    @settings(max_examples=size(60, 4_000))
    @given(
        st.integers(0, 2**20),
        st.sampled_from(sorted(SCOPES)),
        st.sampled_from(sorted(UNITS)),
        st.floats(0.05, 0.95),
        st.booleans(),
    )
    def check(seed: int, scope: str, unit: str, amount: float, tied: bool) -> None:
        net = conv_net()
        draw = torch.Generator().manual_seed(seed)
        for p in net.parameters():
            p.data.copy_(torch.ones_like(p) if tied else torch.randn(p.shape, generator=draw))
        masks = mask.ones_like(net)
        for _ in range(4):
            fresh = prune.step(net, masks, scope=scope, unit=unit, amount=amount)
            names = list(masks) if unit == "weight" else ["0.weight", "1.weight"]
            for name in masks:
                assert not (fresh[name] & ~masks[name]).any()
                assert fresh[name].any()
                assert name in names or fresh[name].all()
            before, after = (
                {n: m[n].flatten(1).any(1) if unit == "filter" else m[n] for n in names} for m in (masks, fresh)
            )
            groups = [names] if scope == "global" else [[name] for name in names]
            for group in groups:
                left = sum(int(before[name].sum()) for name in group)
                most = left - len(group)  # the guard's limit
                assert left - sum(int(after[name].sum()) for name in group) == min(round(amount * left), most)
            masks = fresh

    check()
    figure(f"masks only shrink, no layer is emptied: {size(60, 4_000)} examples, no violation")


# A stack at once


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("unit", UNITS)
def test_a_stack_of_three_is_pruned_as_each_run_alone(scope: str, unit: str) -> None:
    shapes = {"a": (4, 2, 3, 3), "b": (3, 4, 1, 1), "c": (5, 12)}
    coupled = {"a": ("a.bias",), "b": ("b.scale", "b.shift")} if unit == "filter" else {}
    vectors = {"a.bias": 4, "b.scale": 3, "b.shift": 3}
    scores = {name: torch.randint(0, 9, (3, *shape)).float() for name, shape in shapes.items()}
    scores["a"][1] = 0.0  # in one run, a is the first to go and the guard acts
    masks = {name: torch.rand(3, *shape) < 0.8 for name, shape in shapes.items()}
    masks |= {name: torch.ones(3, size, dtype=torch.bool) for name, size in vectors.items()}
    options: dict[str, Any] = {"scope": SCOPES[scope], "unit": UNITS[unit], "amount": 0.6, "coupled": coupled}
    together, acted = pruned(scores, masks, **options)
    for k in range(3):
        own = {name: score[k : k + 1] for name, score in scores.items()}
        alone, acted_alone = pruned(own, {name: m[k : k + 1] for name, m in masks.items()}, **options)
        assert acted_alone.tolist() == [acted[k]]
        assert all(torch.equal(alone[name][0], together[name][k]) for name in masks)
    assert any(not torch.equal(together["a"][0], together["a"][k]) for k in (1, 2))


def test_the_masks_that_were_given_stay_as_they_are() -> None:
    masks = {"a": torch.ones(1, 10, dtype=torch.bool)}
    pruned({"a": torch.ones(1, 10)}, masks, scope=SCOPES["layer"], unit=UNITS["weight"], amount=0.5, coupled={})
    assert masks["a"].all()
