"""Channels that are zero whatever a network sees: found by hand, and taken out only where all agree."""

import sys
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from scyc import prune
from scyc.model import MODELS
from scyc.silent import filters, silent, without_silent
from scyc.trained import apart


def test_a_layer_is_silent_where_its_weights_and_bias_are_zero() -> None:
    conv, linear, norm = nn.Conv2d(2, 4, 3), nn.Linear(3, 4), nn.BatchNorm2d(4)
    with torch.no_grad():
        for layer in (conv, linear, norm):
            layer.weight.fill_(1.0)
            layer.weight[1:3] = 0
            layer.bias.fill_(1.0)
            layer.bias[2:] = 0
        conv.weight[1, 0, 0, 0] = 1e-30
        conv.weight[3] = 0
    assert [silent(layer).tolist() for layer in (conv, linear, norm)] == [
        [False, False, True, True],
        [False, False, True, False],
        [False, False, True, False],
    ]
    assert silent(nn.Conv2d(1, 2, 1, bias=False)).tolist() == [False, False]


def test_filters_are_counted() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Conv2d(3, 5, 1), nn.Linear(1, 1))
    nn.init.zeros_(net[1].weight[1:3])
    assert filters(net) == (8, 2)


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    with pytest.raises(
        ValueError, match=r"torch-pruning, which is not installed; add it with: pip install 'scyc\[shrink\]'"
    ):
        without_silent(nn.Linear(1, 1), torch.zeros(2, 1))


# Removal

IMAGES = (8, 3, 8, 8)


def scattered(net: nn.Module) -> nn.Module:
    """Statistics, scales and shifts of a network that was trained."""
    torch.manual_seed(3)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                    tensor.uniform_(0.5, 1.5)
    return net.eval()


@torch.no_grad()
def silence_(net: nn.Module, weight: str, channels: Iterable[int]) -> None:
    """Zero filters as pruning does, with what goes with them."""
    for name in (weight, *net.prune_coupled[weight]):
        net.get_parameter(name)[list(channels)] = 0


def widths(net: nn.Module) -> dict[str, int]:
    return {name: m.out_channels for name, m in net.named_modules() if isinstance(m, nn.Conv2d)}


def residual() -> nn.Module:
    """ResNet-20 of 4, 4, 8 and 16 channels."""
    return scattered(MODELS["resnet20"]((3, 8, 8), 5, width=0.25))


SUMMED = ("stem.conv.weight", *(f"stage1.{block}.residual.conv2.weight" for block in range(3)))


@pytest.mark.slow
def test_inner_filters_go_and_a_sums_where_all_its_members_agree() -> None:
    net, images = residual(), torch.randn(IMAGES)
    silence_(net, "stage1.0.residual.conv1.weight", [1, 3])
    for name in SUMMED:
        silence_(net, name, [0])
    silence_(net, SUMMED[0], [2])  # the others still write this channel
    silence_(net, SUMMED[2], [3])
    before = widths(net)
    narrow = without_silent(net, images)
    changed = {"stage1.0.residual.conv1": 2, **{name.removesuffix(".weight"): 3 for name in SUMMED}}
    assert widths(narrow) == {**before, **changed}
    assert narrow.stage1[1].residual.conv1.in_channels == narrow.stage2[0].shortcut.conv.in_channels == 3
    assert apart(narrow(images), net(images)) < 1e-6
    assert widths(net) == before  # the network itself stays


@pytest.mark.slow
@pytest.mark.parametrize("leftover", ["stage1.1.residual.bn2.bias", "stage1.1.residual.bn2.weight"])
def test_a_shift_or_scale_that_is_not_zero_keeps_its_channel(leftover: str) -> None:
    net, images = residual(), torch.randn(IMAGES)
    for name in SUMMED:
        silence_(net, name, [0])
    with torch.no_grad():
        net.get_parameter(leftover)[0] = 0.1
    assert widths(without_silent(net, images)) == widths(net)


@pytest.mark.slow
def test_of_a_layer_that_is_silent_as_a_whole_one_channel_stays() -> None:
    net, images = residual(), torch.randn(IMAGES)
    silence_(net, "stage2.1.residual.conv1.weight", range(8))
    narrow = without_silent(net, images)
    assert widths(narrow) == {**widths(net), "stage2.1.residual.conv1": 1}
    assert apart(narrow(images), net(images)) < 1e-6


NETWORKS: dict[str, dict[str, Any]] = {
    "resnet20": {"width": 0.5},
    "resnet50": {"width": 0.125},
    "vgg16": {"width": 0.1},  # no BatchNorm: biases; and a grid of one pixel as 7 x 7
    "vgg19_light": {"width": 0.1},
    "alexnet": {"width": 0.1, "resize": 63},
}


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "prelu", "gelu", "tanh"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_computes_the_same_without_its_pruned_filters(name: str, activation: str) -> None:
    shape = (3, 32, 32)
    net = scattered(MODELS[name](shape, 5, **NETWORKS[name], activation=activation)).double()
    masks = prune.starting(net, "filter")
    for _ in range(3):
        masks = prune.step(net, masks, unit="filter", scope="layer", amount=0.4)
    images = torch.randn(4, *shape, dtype=torch.float64)
    narrow = without_silent(net, images)
    assert apart(narrow(images), net(images)) < 1e-12
    assert filters(narrow)[0] < 0.7 * filters(net)[0]
    if not name.startswith("resnet"):  # nothing is summed: what is pruned is gone
        assert filters(narrow)[1] == 0


class Joined(nn.Module):
    """Two layers whose channels stand side by side, then each channel on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(3, 5, 1, bias=False)
        self.each = nn.Conv2d(9, 9, 3, groups=9, bias=False)
        self.last = nn.Linear(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        side_by_side = torch.cat([self.one(x), self.other(x)], 1)
        y: Tensor = self.last(self.each(side_by_side.relu()).mean((2, 3)))
        return y


@pytest.mark.slow
def test_channels_that_are_joined_and_filtered_one_by_one() -> None:
    net, images = Joined().eval(), torch.randn(IMAGES)
    with torch.no_grad():
        net.one.weight[1] = 0
        net.other.weight[2:4] = 0
        net.each.weight[[1, 6, 8]] = 0  # the channels of one[1], other[2] and other[4]
    narrow = without_silent(net, images)
    assert widths(narrow) == {"one": 3, "other": 4, "each": 7}
    assert (narrow.each.groups, narrow.last.in_features) == (7, 7)
    assert apart(narrow(images), net(images)) < 1e-6


class Logits(nn.Module):
    """Nobody reads the last layer: its channels are the answer, silent or not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(4, 3, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.conv(x).relu()).mean((2, 3))
        return y


@pytest.mark.slow
def test_an_answer_that_is_always_zero_stays_an_answer() -> None:
    net = Logits()
    nn.init.zeros_(net.last.weight[1:2])
    nn.init.zeros_(net.conv.weight[2:3])
    assert widths(without_silent(net, torch.randn(IMAGES))) == {"conv": 3, "last": 3}


class OneByOne(Logits):
    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            raise RuntimeError("one image at a time\nplease")
        return super().forward(x)


@pytest.mark.slow
def test_a_network_that_cannot_be_followed_is_said_in_one_line() -> None:
    with pytest.raises(ValueError) as error:
        without_silent(OneByOne(), torch.randn(IMAGES))
    said = "torch-pruning cannot follow this network: one image at a time; nothing was removed"
    assert str(error.value) == said
