"""Residual networks: ResNet-20 for CIFAR and ResNet-50, with projection shortcuts where the shape changes."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from scyc.model.activation import activate
from scyc.model.facts import declare_
from scyc.model.fields import check, check_dropout, scaled
from scyc.model.initial import he_


class Residual(nn.Module):
    """activation(residual(x) + shortcut(x))."""

    def __init__(self, residual: nn.Module, shortcut: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.residual, self.shortcut, self.activation = residual, shortcut, activation

    def forward(
        self,
        x: Tensor,  # (batch, channels, height, width)
    ) -> Tensor:
        y: Tensor = self.activation(self.residual(x) + self.shortcut(x))
        return y


def resnet20(
    shape: tuple[int, int, int], classes: int, *, width: float = 1.0, dropout: float = 0.0, activation: str = "relu"
) -> nn.Module:
    """ResNet-20 for CIFAR: three stages of three basic blocks; its classifier is never pruned."""
    check("resnet20", shape, classes)
    stem, *channels = scaled((16, 16, 32, 64), width)
    layers = OrderedDict[str, nn.Module](stem=_stem(shape[0], stem, 3, 1, activation))
    layers |= _stages(basic, stem, channels, (3, 3, 3), activation)
    return declare_(he_(_classified(layers, channels[-1], classes, dropout)), exempt=("fc.weight",))


def resnet50(
    shape: tuple[int, int, int], classes: int, *, width: float = 1.0, dropout: float = 0.0, activation: str = "relu"
) -> nn.Module:
    """ResNet-50: a 7x7 stem of stride 2 and max pooling, then bottleneck blocks, as for ImageNet."""
    check("resnet50", shape, classes)
    stem, *channels = scaled((64, 64, 128, 256, 512), width)
    layers = OrderedDict[str, nn.Module](stem=_stem(shape[0], stem, 7, 2, activation))
    layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    layers |= _stages(bottleneck, stem, channels, (3, 4, 6, 3), activation)
    return declare_(he_(_classified(layers, 4 * channels[-1], classes, dropout)))


def basic(inputs: int, channels: int, stride: int, activation: str) -> tuple[Residual, int]:
    """Two 3x3 convolutions beside a shortcut, and the channels they end in."""
    residual = OrderedDict[str, nn.Module](
        conv1=_conv(inputs, channels, 3, stride),
        bn1=nn.BatchNorm2d(channels),
        act1=activate(activation),
        conv2=_conv(channels, channels, 3),
        bn2=nn.BatchNorm2d(channels),
    )
    return Residual(nn.Sequential(residual), _shortcut(inputs, channels, stride), activate(activation)), channels


def bottleneck(inputs: int, channels: int, stride: int, activation: str) -> tuple[Residual, int]:
    """1x1, 3x3 and 1x1 convolutions beside a shortcut, and the channels they end in, four times the inner ones."""
    outputs = 4 * channels
    residual = OrderedDict[str, nn.Module](
        conv1=_conv(inputs, channels, 1),
        bn1=nn.BatchNorm2d(channels),
        act1=activate(activation),
        conv2=_conv(channels, channels, 3, stride),
        bn2=nn.BatchNorm2d(channels),
        act2=activate(activation),
        conv3=_conv(channels, outputs, 1),
        bn3=nn.BatchNorm2d(outputs),
    )
    return Residual(nn.Sequential(residual), _shortcut(inputs, outputs, stride), activate(activation)), outputs


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _stem(inputs: int, outputs: int, kernel: int, stride: int, activation: str) -> nn.Sequential:
    conv, bn = _conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs)
    return nn.Sequential(OrderedDict[str, nn.Module](conv=conv, bn=bn, act=activate(activation)))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(
        OrderedDict[str, nn.Module](conv=_conv(inputs, outputs, 1, stride), bn=nn.BatchNorm2d(outputs))
    )


def _stages(
    block: Callable[[int, int, int, str], tuple[Residual, int]],
    inputs: int,
    channels: Sequence[int],
    blocks: Sequence[int],
    activation: str,
) -> OrderedDict[str, nn.Module]:
    """The stages by name; every stage but the first halves height and width in its first block."""
    stages = OrderedDict[str, nn.Module]()
    for i, (inner, count) in enumerate(zip(channels, blocks, strict=True), start=1):
        stage = nn.Sequential()
        for j in range(count):
            residual, inputs = block(inputs, inner, 2 if i > 1 and j == 0 else 1, activation)
            stage.append(residual)
        stages[f"stage{i}"] = stage
    return stages


def _classified(layers: OrderedDict[str, nn.Module], inputs: int, classes: int, dropout: float) -> nn.Sequential:
    """The stages, global average pooling and the classifier `fc`."""
    head = OrderedDict[str, nn.Module](average=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten())
    check_dropout(dropout)
    if dropout:
        head["dropout"] = nn.Dropout(dropout)
    head["fc"] = nn.Linear(inputs, classes)
    return nn.Sequential(OrderedDict[str, nn.Module](**layers, **head))
