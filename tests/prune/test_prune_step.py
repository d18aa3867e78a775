"""Pruning as a user calls it: `prune.step` on a network and its masks."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from scyc import draw, mask, prune


def linear() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def test_what_goes_is_zero_in_the_network_and_the_rest_is_untouched() -> None:
    net = linear()
    before = copy.deepcopy(net.state_dict())
    masks = prune.step(net, mask.ones_like(net), amount=0.5)
    assert sum(int(m.sum()) for m in masks.values()) == 9
    for name, value in net.state_dict().items():
        kept = masks.get(name, torch.ones_like(value, dtype=torch.bool))
        assert torch.equal(value[kept], before[name][kept])
        assert not value[~kept].any()


def test_the_masks_given_are_not_changed_and_the_new_ones_are_their_own() -> None:
    net = linear()
    masks = mask.ones_like(net)
    fresh = prune.step(net, masks, amount=0.5)
    assert all(m.all() for m in masks.values())
    assert list(fresh) == list(masks)
    assert prune.step(net, fresh, amount=0.5) is not fresh


def test_masks_of_some_layers_prune_those_layers() -> None:
    net = linear()
    masks = prune.step(net, mask.ones_like(net, ["2.weight"]), amount=0.5)
    assert list(masks) == ["2.weight"]
    assert masks["2.weight"].sum() == 3
    assert net[0].weight.all()


def test_parameters_that_are_no_weights_can_be_pruned_by_name() -> None:
    net = linear()
    masks = prune.step(net, {"0.bias": torch.ones(3, dtype=torch.bool)}, amount=0.34)
    assert masks["0.bias"].sum() == 2


def test_random_pruning_is_a_matter_of_its_generator() -> None:
    net = nn.Linear(50, 2)
    chosen = [
        prune.step(copy.deepcopy(net), mask.ones_like(net), score="random", amount=0.5, rng=draw.generator("own", seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(chosen[0]["weight"], chosen[1]["weight"])
    assert not torch.equal(chosen[0]["weight"], chosen[2]["weight"])


WHOLE = {"0.weight": torch.ones(3, 4, dtype=torch.bool)}


@pytest.mark.parametrize(
    ("masks", "options", "said"),
    [
        ({}, {}, "no masks; make them with mask.ones_like(net)"),
        ({"1.weight": WHOLE["0.weight"]}, {}, "mask '1.weight' fits no parameter"),
        ({"0.weight": torch.ones(4, 3, dtype=torch.bool)}, {}, "of its parameter's (3, 4)"),
        ({"0.weight": torch.ones(3, 4)}, {}, "mask '0.weight' is torch.float32 (3, 4); it must be torch.bool"),
        (WHOLE, {"score": "magnitud"}, "unknown score 'magnitud'; did you mean 'magnitude'?"),
        (WHOLE, {"scope": "layers"}, "unknown scope 'layers'; did you mean 'layer'?"),
        (WHOLE, {"unit": "filters"}, "unknown unit 'filters'; did you mean 'filter'?"),
        (WHOLE, {"amount": 0.0}, "amount = 0.0: must lie between 0 and 1"),
        (WHOLE, {"amount": 1.0}, "amount = 1.0: must lie between 0 and 1"),
        (WHOLE, {"amount": float("nan")}, "amount = nan: must lie between 0 and 1"),
        (WHOLE, {"amount": "0.2"}, "amount = '0.2': must lie between 0 and 1"),
        (WHOLE, {"score": "gradient"}, "score 'gradient' needs grads=prune.gradients(net, batches, loss)"),
        (WHOLE, {"score": "gradient", "grads": {}}, "score 'gradient' needs grads=prune.gradients"),
        (WHOLE, {"unit": "filter"}, "unit 'filter' finds nothing to prune in 0.weight; use unit 'weight'"),
    ],
)
def test_errors_say_what_is_wrong_and_change_nothing(
    masks: dict[str, torch.Tensor], options: dict[str, Any], said: str
) -> None:
    net = linear()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(ValueError) as error:
        prune.step(net, masks, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_network_with_nan_is_not_pruned() -> None:
    net = linear()
    net[0].weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"a score is NaN: .* prune a network that is finite"):
        prune.step(net, mask.ones_like(net))
    assert net[0].weight[1:].all()
