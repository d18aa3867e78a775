import pytest
import torch
from torch import nn

from scyc.model import MODELS

CIFAR, FASHION = (3, 32, 32), (1, 28, 28)


def on_meta(name: str, shape: tuple[int, int, int], classes: int, **fields: object) -> nn.Module:
    with torch.device("meta"):  # counts without memory
        return MODELS[name](shape, classes, **fields)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "fields", "expected"),
    [  # spec.md §4
        ("mlp", FASHION, 10, {}, 335_114),
        ("mlp", FASHION, 10, {"bn": True}, 336_650),
        ("alexnet", (3, 224, 224), 10, {}, 57_044_810),
        ("alexnet", CIFAR, 10, {}, 57_044_810),
        ("resnet20", CIFAR, 10, {}, 272_474),
        ("vgg16", CIFAR, 10, {}, 134_301_514),
        ("vgg16", CIFAR, 10, {"bn": True}, 134_309_962),
        ("vgg19", CIFAR, 10, {}, 139_622_218),
        ("vgg19_light", CIFAR, 10, {}, 20_040_522),
        ("resnet50", (3, 64, 64), 200, {}, 23_917_832),
    ],
)
def test_trainable_parameters(
    name: str, shape: tuple[int, int, int], classes: int, fields: dict[str, object], expected: int
) -> None:
    net = on_meta(name, shape, classes, **fields)
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == expected


def test_width_scales_every_hidden_count_and_leaves_input_and_classes() -> None:
    net = on_meta("mlp", (1, 8, 8), 10, widths=(100, 40), width=0.5)
    assert [tuple(p.shape) for p in net.parameters() if p.dim() == 2] == [(50, 64), (20, 50), (10, 20)]
    net = on_meta("resnet20", CIFAR, 7, width=0.25)
    shapes = [tuple(p.shape) for p in net.parameters() if p.dim() > 1]
    assert (shapes[0], shapes[-2], shapes[-1]) == ((4, 3, 3, 3), (16, 16, 3, 3), (7, 16))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_width_leaves_at_least_one_of_everything(name: str) -> None:
    net = on_meta(name, CIFAR, 10, width=1e-6)
    assert all(min(p.shape) >= 1 for p in net.parameters())
    bodies = [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert set(bodies) <= {1, 4}  # 4: the ends of bottlenecks


@pytest.mark.parametrize(("name", "bn"), [("vgg19", False), ("vgg19_light", False), ("vgg16", True), ("mlp", True)])
def test_bn_is_a_field(name: str, bn: bool) -> None:
    net = on_meta(name, CIFAR, 10, bn=bn)
    assert any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in net.modules()) is bn


@pytest.mark.parametrize(
    ("completed", "printed"), [(3, 51.3), (4, 41.1), (5, 32.9), (7, 21.1), (10, 10.9), (13, 5.72), (18, 2.03)]
)
def test_resnet20_reaches_the_printed_densities_with_its_classifier_exempt(completed: int, printed: float) -> None:
    net = on_meta("resnet20", CIFAR, 10)
    weights = {name: p.numel() for name, p in net.named_parameters() if p.dim() > 1}
    exempt = sum(weights[name] for name in net.prune_exempt)
    remaining = sum(weights.values()) - exempt
    for _ in range(completed):
        remaining -= round(0.2 * remaining)
    assert exempt == 640
    assert 100 * (remaining + exempt) / sum(weights.values()) == pytest.approx(printed, abs=0.06)


def test_only_resnet20_and_vit_exempt_anything() -> None:
    exempt = {name: on_meta(name, CIFAR, 10).prune_exempt for name in MODELS}
    assert exempt.pop("resnet20") == ("fc.weight",)
    assert exempt.pop("vit") == ("embed.weight", "fc.weight")
    assert set(exempt.values()) == {()}
