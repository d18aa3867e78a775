"""What a pruning took, against norms computed by hand."""

import math

import pytest
import torch

from scyc import prune


def test_share_and_norm_over_all_layers_and_run_by_run() -> None:
    """Five weights are left, of norm 5; the first run loses 2 and 0, the second nothing, the third all of them."""
    first, second = [[1.0, 2.0], [2.0, 0.0]], [[4.0, 0.0]]
    weights = {"a": torch.tensor([first] * 3), "b": torch.tensor([second] * 3)}
    before = {"a": torch.tensor([[[1, 1], [1, 0]]] * 3).bool(), "b": torch.ones(3, 1, 2).bool()}
    after = {"a": before["a"].clone(), "b": before["b"].clone()}
    after["a"][0, 0, 1] = after["b"][0, 0, 1] = False
    after["a"][2], after["b"][2] = False, False
    found = prune.removed(weights, before, after)
    assert found["pruned_share"].tolist() == pytest.approx([0.4, 0, 1], rel=1e-15)
    assert found["pruned_norm"].tolist() == pytest.approx([0.4, 0, 1], rel=1e-15)
    assert {tensor.dtype for tensor in found.values()} == {torch.float64}


def test_large_weights_do_not_overflow_in_their_own_type() -> None:
    weights = {"a": torch.tensor([[3e30, 4e30]])}  # the squares are more than float32 has numbers for
    before, after = {"a": torch.ones(1, 2).bool()}, {"a": torch.tensor([[False, True]])}
    assert prune.removed(weights, before, after)["pruned_norm"].tolist() == pytest.approx([0.6], rel=1e-6)


def test_a_number_has_twelve_digits_or_is_none() -> None:
    assert prune.number(torch.tensor(1 / 3, dtype=torch.float64)) == 0.333333333333
    assert prune.number(2e-9 / 3) == 6.66666666667e-10
    assert prune.number(math.nan) is prune.number(torch.tensor(math.inf)) is None
