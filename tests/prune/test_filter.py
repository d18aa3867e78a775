"""Whole filters: their L1 norms, what goes with them, and outputs that are exactly zero."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune as torch_prune

from scyc import mask, prune
from scyc.model import MODELS


def whole_numbers_(net: nn.Module) -> None:
    """Weights whose sums are exact, and filters whose norms do not tie."""
    for p in net.parameters():
        if p.dim() == 4:
            norms = torch.randperm(len(p)).float() * 1000
            p.data.copy_(torch.randint(-9, 10, p.shape).float())
            p.data[:, 0, 0, 0] = norms * (torch.randint(0, 2, norms.shape) * 2 - 1)


@pytest.mark.parametrize("amount", [0.2, 0.5])
def test_filters_go_by_l1_norm_as_torch_has_it(amount: float) -> None:
    ours = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 10, 3))
    whole_numbers_(ours)
    theirs = copy.deepcopy(ours)
    masks = mask.ones_like(ours)
    for _ in range(3):
        masks = prune.step(ours, masks, scope="layer", unit="filter", amount=amount)
        for name in ("0", "2"):
            torch_prune.ln_structured(theirs.get_submodule(name), "weight", amount, n=1, dim=0)
            assert torch.equal(theirs.get_buffer(f"{name}.weight_mask").bool(), masks[f"{name}.weight"])


def test_under_global_all_filters_compete_by_their_norms() -> None:
    net = nn.Sequential(nn.Conv2d(1, 5, 3), nn.Conv2d(5, 7, 1), nn.Flatten(), nn.Linear(7, 2))
    norms = [np.abs(net[i].weight.detach().double().numpy()).sum((1, 2, 3)) for i in (0, 1)]
    goes = np.argsort(np.concatenate(norms))[: round(0.4 * 12)]
    masks = prune.step(net, mask.ones_like(net), scope="global", unit="filter", amount=0.4)
    kept = torch.cat([masks[f"{i}.weight"].flatten(1).all(1) for i in (0, 1)])
    assert sorted((~kept).nonzero()[:, 0].tolist()) == sorted(goes.tolist())
    assert masks["3.weight"].all()  # linear layers have no filters


def test_layers_that_were_not_chosen_stay_whole_again_and_again() -> None:
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1))
    net.prune_coupled = {"0.weight": ("0.bias", "1.weight", "1.bias"), "2.weight": ("2.bias",)}  # type: ignore[assignment]
    masks = mask.ones_like(net, where=lambda name, _: name == "0.weight")
    for left in (4, 2):
        masks = prune.step(net, masks, unit="filter", amount=0.5)
        assert set(masks) == {"0.weight", "0.bias", "1.weight", "1.bias"}
        assert masks["0.bias"].sum() == left
    assert net[2].weight.all()
    assert list(prune.starting(net, "filter", where=lambda name, _: name == "2.weight")) == ["2.weight", "2.bias"]


def test_a_filter_loses_all_of_its_weights_or_none() -> None:
    net = nn.Sequential(nn.Conv1d(3, 20, 5), nn.Conv3d(2, 30, 2))
    masks = prune.step(net, mask.ones_like(net), unit="filter", amount=0.5)
    for m in masks.values():
        assert torch.equal(m.flatten(1).any(1), m.flatten(1).all(1))
    assert sum(int(m.flatten(1).all(1).sum()) for m in masks.values()) == 25


def test_of_every_layer_one_filter_stays() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Conv2d(3, 4, 1))
    net[0].weight.data.mul_(1e-3)  # all of the first would be the first to go
    masks = mask.ones_like(net)
    for _ in range(5):
        masks = prune.step(net, masks, unit="filter", amount=0.6)
    assert [int(m.flatten(1).all(1).sum()) for m in masks.values()] == [1, 1]


# What goes with a filter

NETS: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
    ("resnet20", (3, 8, 8), {"width": 0.25}),
    ("vgg16", (3, 32, 32), {"width": 0.05}),  # no BatchNorm: biases
    ("vgg19_light", (1, 32, 32), {"width": 0.05}),
]


def pruned_net(name: str, shape: tuple[int, int, int], fields: dict[str, Any]) -> tuple[nn.Module, mask.Masks]:
    """A network with nothing zero in it by chance, two prunings later."""
    net = MODELS[name](shape, 4, **fields)
    for p in net.parameters():
        p.data.add_(torch.rand_like(p) + 0.1 if p.dim() == 1 else 0.0)
    masks = prune.starting(net, "filter")
    for _ in range(2):
        masks = prune.step(net, masks, unit="filter", scope="layer", amount=0.3)
    return net, masks


def convolutions(net: nn.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    couplings = net.prune_coupled
    assert isinstance(couplings, dict)
    assert couplings
    yield from couplings.items()


@pytest.mark.parametrize(("name", "shape", "fields"), NETS)
def test_bias_scale_and_shift_go_with_their_filter(
    name: str, shape: tuple[int, int, int], fields: dict[str, Any]
) -> None:
    net, masks = pruned_net(name, shape, fields)
    for weight, vectors in convolutions(net):
        kept = masks[weight].flatten(1).all(1)
        assert 0 < kept.sum() <= len(kept)
        assert vectors
        for vector in vectors:
            assert torch.equal(masks[vector], kept)
            assert torch.equal(net.get_parameter(vector) != 0, kept)
    assert any(not masks[weight].all() for weight, _ in convolutions(net))
    linear = [key for key, p in net.named_parameters() if p.dim() == 2]
    assert linear
    assert all(masks[key].all() for key in linear if key in masks)


@pytest.mark.parametrize(("name", "shape", "fields"), NETS)
@pytest.mark.parametrize("training", [True, False])
def test_the_output_of_a_pruned_filter_is_exactly_zero(
    name: str, shape: tuple[int, int, int], fields: dict[str, Any], training: bool
) -> None:
    net, masks = pruned_net(name, shape, fields)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1)
    mask.attach_(optimizer, net, masks)
    for _ in range(3):  # statistics and momentum of their own
        optimizer.zero_grad()
        cross_entropy(net(torch.randn(4, *shape)), torch.arange(4)).backward()
        optimizer.step()
    outputs: dict[str, Tensor] = {}
    for weight, vectors in convolutions(net):
        last = net.get_submodule(vectors[-1].rpartition(".")[0])  # the BatchNorm; where there is none the convolution
        last.register_forward_hook(lambda _, __, y, weight=weight: outputs.__setitem__(weight, y))
    net.train(training)(torch.randn(4, *shape))
    for weight, y in outputs.items():
        kept = masks[weight].flatten(1).all(1)
        assert (y[:, ~kept] == 0).all()
        assert (y[:, kept] != 0).flatten(2).any(2).any(0).all()
    assert outputs.keys() == dict(convolutions(net)).keys()


def test_a_network_that_states_no_couplings_is_pruned_in_its_weights_alone() -> None:
    net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.BatchNorm2d(10))
    before = [p.clone() for p in (net[0].bias, net[1].weight, net[1].bias)]
    masks = prune.step(net, mask.ones_like(net), unit="filter", amount=0.5)
    assert list(masks) == ["0.weight"]
    assert all(torch.equal(a, b) for a, b in zip(before, (net[0].bias, net[1].weight, net[1].bias), strict=True))


def test_masks_of_weights_alone_gain_those_of_what_goes_with_a_filter() -> None:
    net = MODELS["resnet20"]((3, 8, 8), 4, width=0.25)
    masks = prune.step(net, mask.ones_like(net), unit="filter", amount=0.5)
    assert masks.keys() == prune.starting(net, "filter").keys()
    assert masks.keys() > mask.ones_like(net).keys()


def test_a_network_without_convolutions_has_no_filters_to_prune() -> None:
    net = MODELS["mlp"]((1, 4, 4), 3)
    for call in (
        lambda: prune.starting(net, "filter"),
        lambda: prune.step(net, mask.ones_like(net), unit="filter", amount=0.5),
    ):
        with pytest.raises(ValueError, match=r"unit 'filter' finds nothing to prune in .* use unit 'weight'"):
            call()
