from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from scyc.model import MODELS
from scyc.model.facts import declare_

CONVOLUTIONAL = [
    ("alexnet", (3, 8, 8), {"resize": 63}),
    ("resnet20", (3, 8, 8), {}),
    ("resnet50", (3, 64, 64), {}),
    ("vgg16", (3, 32, 32), {"bn": False}),
    ("vgg16", (3, 32, 32), {"bn": True}),
    ("vgg19", (3, 32, 32), {}),
    ("vgg19_light", (3, 32, 32), {}),
]


def scattered(net: nn.Module) -> nn.Module:
    """Every parameter and statistic away from zero, so that a zero can only come from what a test zeroes."""
    with torch.no_grad():
        for tensor in (*net.parameters(), *(b for b in net.buffers() if b.is_floating_point())):
            tensor.uniform_(0.5, 1.5)
    return net


def responses(net: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """By convolution, what leaves it, after its BN: whatever BN runs right after it in the forward pass."""
    ran: list[tuple[str, nn.Module, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda m, _, y, name=name: ran.append((name, m, y.clone())))
        for name, module in net.named_modules()
        if not list(module.children())
    ]
    with torch.no_grad():
        net(images)
    for hook in hooks:
        hook.remove()
    return {
        f"{name}.weight": after if isinstance(following, nn.BatchNorm2d) else output
        for (name, module, output), (_, following, after) in pairwise(ran)
        if isinstance(module, nn.Conv2d)
    }


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("name", "shape", "fields"), CONVOLUTIONAL)
def test_a_filter_and_its_coupled_vectors_at_zero_silence_its_channel(
    name: str, shape: tuple[int, int, int], fields: dict[str, object], training: bool
) -> None:
    torch.manual_seed(0)
    net = scattered(MODELS[name](shape, 5, width=0.05, **fields)).double().train(training)
    images = torch.rand(3, *shape, dtype=torch.float64)
    before = responses(net, images)
    assert set(before) == set(net.prune_coupled)
    assert all(y[:, 0].any() for y in before.values())
    for weight, vectors in net.prune_coupled.items():
        with torch.no_grad():
            for key in (weight, *vectors):
                net.get_parameter(key)[0] = 0
        assert (responses(net, images)[weight][:, 0] == 0).all(), weight
        with torch.no_grad():  # a shift left behind would still speak
            net.get_parameter(vectors[-1])[0] = 1
        assert responses(net, images)[weight][:, 0].all(), weight
        scattered(net)


def test_couplings_of_resnet20_by_hand() -> None:
    net = MODELS["resnet20"]((3, 8, 8), 5, width=0.25)
    assert len(net.prune_coupled) == 21  # the stem, 18 in blocks, 2 projections
    assert net.prune_coupled["stem.conv.weight"] == ("stem.bn.weight", "stem.bn.bias")
    assert net.prune_coupled["stage2.0.shortcut.conv.weight"] == (
        "stage2.0.shortcut.bn.weight",
        "stage2.0.shortcut.bn.bias",
    )


def test_couplings_with_and_without_bn_by_hand() -> None:
    plain, normed = (MODELS["vgg16"]((3, 32, 32), 5, width=0.05, bn=bn).prune_coupled for bn in (False, True))
    assert plain["features.conv1_1.weight"] == ("features.conv1_1.bias",)
    assert normed["features.conv1_1.weight"] == (
        "features.conv1_1.bias",
        "features.bn1_1.weight",
        "features.bn1_1.bias",
    )


def test_a_network_without_convolutions_couples_nothing() -> None:
    assert MODELS["mlp"]((1, 8, 8), 5, bn=True).prune_coupled == {}


def test_a_convolution_outside_a_sequential_is_a_defect() -> None:
    with pytest.raises(AssertionError):
        declare_(nn.ModuleList([nn.Conv2d(1, 1, 1)]))


def test_exempting_an_unknown_weight_is_a_defect() -> None:
    with pytest.raises(AssertionError):
        declare_(nn.Sequential(nn.Linear(1, 1)), exempt=("fc.weight",))
