import math

import pytest
import torch
from torch import nn

from scyc.model import MODELS
from scyc.model.initial import he_


@pytest.mark.parametrize(
    ("name", "key", "fan_in"),
    [
        ("mlp", "fc1.weight", 64 * 64 * 3),
        ("mlp", "fc2.weight", 256),
        ("resnet20", "stage3.2.residual.conv2.weight", 64 * 9),
        ("resnet20", "stage3.0.residual.conv1.weight", 32 * 9),  # fan-out would be 64 * 9
        ("vgg19_light", "features.conv5_4.weight", 512 * 9),
    ],
)
def test_weights_have_the_standard_deviation_of_he(name: str, key: str, fan_in: int) -> None:
    torch.manual_seed(1)
    weight = MODELS[name]((3, 64, 64), 10).get_parameter(key)
    assert weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.02)
    assert weight.mean().item() == pytest.approx(0, abs=5 * math.sqrt(2 / fan_in / weight.numel()))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_biases_are_zero_and_bn_is_the_identity(name: str) -> None:
    net = MODELS[name]((3, 32, 32), 10, width=0.05)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert layer.weight.count_nonzero() == layer.weight.numel()
            assert layer.bias is None or not layer.bias.any()
        if isinstance(layer, nn.BatchNorm2d):
            assert (layer.weight == 1).all()
            assert not layer.bias.any()


def test_the_seed_of_torch_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        net = MODELS["resnet20"]((3, 8, 8), 10, width=0.25)
        return nn.utils.parameters_to_vector(net.parameters())

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_he_returns_the_network_it_was_given() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    assert he_(net) is net
