import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from scyc.model import MODELS
from scyc.model.resnet import Residual

Shape = tuple[int, int, int]


def sizes(net: nn.Module, shape: Shape) -> dict[str, int]:
    """Width in pixels of what every layer gives, by name."""
    found: dict[str, int] = {}
    for name, module in net.named_modules():
        module.register_forward_hook(lambda _, __, y, name=name: found.update({name: y.shape[-1]}))
    net(torch.empty(2, *shape, device="meta"))
    return found


@pytest.mark.parametrize(
    ("name", "billions"),
    [  # multiplications for one ImageNet image, from torchvision's table of its weights
        ("alexnet", 0.71),
        ("resnet50", 4.09),
        ("vgg16", 15.47),
        ("vgg19", 19.63),
    ],
)
def test_costs_what_torchvision_says(name: str, billions: float) -> None:
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        MODELS[name]((3, 224, 224), 1000)(torch.empty(1, 3, 224, 224))
    assert counter.get_total_flops() / 2e9 == pytest.approx(billions, abs=0.006)  # it counts additions too


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("resnet20", (3, 32, 32), {"stem": 32, "stage1": 32, "stage2": 16, "stage3": 8}),
        ("resnet50", (3, 64, 64), {"stem": 32, "pool": 16, "stage1": 16, "stage2": 8, "stage3": 4, "stage4": 2}),
        ("vgg16", (3, 32, 32), {f"features.pool{i}": 32 >> i for i in range(1, 6)} | {"grid": 7}),
        ("vgg19_light", (3, 32, 32), {f"features.pool{i}": 32 >> i for i in range(1, 6)} | {"average": 1}),
        ("alexnet", (3, 32, 32), {"resize": 224, "features.conv1": 55, "features.pool2": 13, "features": 6, "grid": 6}),
    ],
)
def test_images_shrink_as_in_the_papers(name: str, shape: Shape, expected: dict[str, int]) -> None:
    with torch.device("meta"):
        found = sizes(MODELS[name](shape, 10, width=0.05), shape)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "kernel", "stride", "count"),
    [("alexnet", 3, 2, 3), ("resnet20", 0, 0, 0), ("resnet50", 3, 2, 1), ("vgg16", 2, 2, 5), ("vgg19_light", 2, 2, 5)],
)
def test_pools_by_the_maximum(name: str, kernel: int, stride: int, count: int) -> None:
    with torch.device("meta"):
        net = MODELS[name]((3, 32, 32), 10, width=0.05)
    pools = [(m.kernel_size, m.stride) for m in net.modules() if isinstance(m, nn.MaxPool2d)]
    assert pools == [(kernel, stride)] * count


def test_a_block_activates_after_the_sum() -> None:
    block = Residual(nn.Identity(), nn.Identity(), nn.ReLU())
    assert block(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 4.0]


def test_layers_stand_in_the_order_linear_bn_activation_dropout() -> None:
    net = MODELS["mlp"]((1, 2, 2), 3, widths=(4,), bn=True, dropout=0.1)
    assert [name for name, _ in net.named_children()] == ["flatten", "fc1", "bn1", "act1", "dropout1", "fc"]
