"""Whatever is trained and pruned: zeros stay zero after every step, masks only shrink, counts are exact."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import TINY_RESNET, colour, finished, small, stack_of
from scyc.stack import Stack

OPTIMIZERS = st.sampled_from(
    [
        {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-2},
        {"name": "sgd", "momentum": 0.5, "nesterov": True},
        {"name": "adam", "weight_decay": 1e-2},
        {"name": "rmsprop", "momentum": 0.9, "weight_decay": 1e-2},
    ]
)
PRUNINGS = st.fixed_dictionaries(
    {
        "amount": st.sampled_from([0.05, 0.2, 0.5, 0.9, 0.99]),
        "score": st.sampled_from(["magnitude", "gradient", "random"]),
        "scope": st.sampled_from(["global", "layer"]),
        "rewind": st.sampled_from(["none", "init", "reinit", {"name": "step", "k": 1}]),
        "score_batches": st.just(1),
    }
)
MODELS = st.builds(
    lambda widths, bn, dropout: {"name": "mlp", "widths": widths, "bn": bn, "dropout": dropout},
    st.lists(st.integers(1, 9), max_size=3),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)


def assert_exact(before: dict[str, int], after: dict[str, int], pruning: dict[str, Any], guarded: bool) -> None:
    """As many as asked for, of all or of every layer; fewer only where the guard says that it acted."""
    assert min(after.values()) >= 1  # no layer is emptied
    groups = [list(before)] if pruning["scope"] == "global" else [[name] for name in before]
    for group in groups:
        left, gone = sum(before[name] for name in group), sum(before[name] - after[name] for name in group)
        wanted = round(pruning["amount"] * left)
        assert gone == min(wanted, left - len(group))
        assert gone == wanted or guarded


@pytest.mark.torture
@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_zeros_stay_zero_masks_only_shrink_counts_are_exact(
    engine: str, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    guarded = 0

    @settings(max_examples=size(15, 950))
    @given(MODELS, OPTIMIZERS, PRUNINGS, st.integers(0, 99), st.sampled_from([0.001, 0.1, 3.0]))
    def check(model: dict[str, Any], optimizer: dict[str, Any], pruning: dict[str, Any], seed: int, lr: float) -> None:
        nonlocal guarded
        peak = {"name": "fixed", "lr": lr}
        common = {"model": model, "optimizer": optimizer, "pruning": pruning, "steps": 2, "precision": "float32"}
        stack = stack_of([small(seed=seed + k, peak=peak, **common) for k in range(2)], engine=engine)
        masks = [{name: mask.clone() for name, mask in stack.masks.items()}]

        def look(made: Stack) -> None:
            weights = made.engine.weights()
            assert not any(bool(weights[name][~mask].any()) for name, mask in made.masks.items())
            if made.cycle == len(masks):
                for name, mask in made.masks.items():
                    assert not bool((mask & ~masks[-1][name]).any())
                masks.append({name: mask.clone() for name, mask in made.masks.items()})

        records = finished(stack, look)
        guarded += sum(row["guarded"] for rows in records for row in rows)
        for k, rows in enumerate(records):
            if "diverged" not in rows[-1]:
                for m in range(1, 3):
                    before, after = ({n: int(t[k].sum()) for n, t in masks[c].items()} for c in (m - 1, m))
                    assert_exact(before, after, pruning, rows[m]["guarded"])

    check()
    assert guarded
    figure(
        f"training with {engine}: {size(15, 950)} examples, no violation; the guard acted, and said so, {guarded} times"
    )


@pytest.mark.torture
@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_the_same_of_convolutions_by_weight_and_by_filter(
    engine: str, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    @settings(max_examples=size(2, 50))
    @given(OPTIMIZERS, st.sampled_from(["weight", "filter"]), st.sampled_from([0.2, 0.9]), st.integers(0, 99))
    def check(optimizer: dict[str, Any], unit: str, amount: float, seed: int) -> None:
        pruning = {"unit": unit, "amount": amount, "scope": "layer"}
        common = {"model": TINY_RESNET, "optimizer": optimizer, "pruning": pruning, "steps": 1, "cycles": 2}
        stack = stack_of([small(seed=seed, **common)], colour(), engine=engine)
        before = {name: mask.clone() for name, mask in stack.masks.items()}
        finished(stack)
        weights = stack.engine.weights()
        for name, mask in stack.masks.items():
            assert not bool(weights[name][~mask].any())
            assert not bool((mask & ~before[name]).any())
            assert bool(mask.any())
        assert torch.cat([~mask.flatten() for mask in stack.masks.values()]).any()

    check()
    figure(f"training a network of convolutions with {engine}: {size(2, 50)} examples, no violation")
