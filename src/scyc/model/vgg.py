"""VGG networks: 3x3 convolutions in five blocks, each ending in max pooling."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from scyc.model.activation import activate
from scyc.model.facts import declare_
from scyc.model.fields import check, check_dropout, scaled
from scyc.model.grid import Grid
from scyc.model.initial import he_
from scyc.model.mlp import dense

SMALLEST = 32  # five poolings halve the image; from here on one pixel is left for the head
SIDE = 7  # the head of 4096 units looks at a grid of 7x7, whatever the image: this gives the paper's parameter counts
CHANNELS = (64, 128, 256, 512, 512)


def vgg16(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    bn: bool = False,
    dropout: float = 0.0,
    activation: str = "relu",
) -> nn.Module:
    """VGG-16 with two hidden layers of 4096 units; `bn` puts batch normalisation after each convolution."""
    check("vgg16", shape, classes, SMALLEST)
    features = _features(shape[0], scaled(CHANNELS, width), (2, 2, 3, 3, 3), bn, activation)
    return _wide(features, classes, width, dropout, activation)


def vgg19(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    bn: bool = True,
    dropout: float = 0.0,
    activation: str = "relu",
) -> nn.Module:
    """VGG-19 with batch normalisation and two hidden layers of 4096 units."""
    check("vgg19", shape, classes, SMALLEST)
    features = _features(shape[0], scaled(CHANNELS, width), (2, 2, 4, 4, 4), bn, activation)
    return _wide(features, classes, width, dropout, activation)


def vgg19_light(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    bn: bool = True,
    dropout: float = 0.0,
    activation: str = "relu",
) -> nn.Module:
    """VGG-19 with batch normalisation, global average pooling and one linear layer."""
    check("vgg19_light", shape, classes, SMALLEST)
    check_dropout(dropout)
    channels = scaled(CHANNELS, width)
    layers = OrderedDict[str, nn.Module](features=_features(shape[0], channels, (2, 2, 4, 4, 4), bn, activation))
    layers |= {"average": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    if dropout:
        layers["dropout"] = nn.Dropout(dropout)
    layers["fc"] = nn.Linear(channels[-1], classes)
    return declare_(he_(nn.Sequential(layers)))


def _features(inputs: int, channels: Sequence[int], convs: Sequence[int], bn: bool, activation: str) -> nn.Sequential:
    """The convolutions by the names of the VGG paper: conv3_2 is the second of the third block."""
    layers = OrderedDict[str, nn.Module]()
    for i, (outputs, count) in enumerate(zip(channels, convs, strict=True), start=1):
        for j in range(1, count + 1):
            layers[f"conv{i}_{j}"] = nn.Conv2d(inputs, outputs, 3, padding=1)
            if bn:
                layers[f"bn{i}_{j}"] = nn.BatchNorm2d(outputs)
            layers[f"act{i}_{j}"] = activate(activation)
            inputs = outputs
        layers[f"pool{i}"] = nn.MaxPool2d(2)
    return nn.Sequential(layers)


def _wide(features: nn.Sequential, classes: int, width: float, dropout: float, activation: str) -> nn.Module:
    """The convolutions, a grid of 7x7 and the head of 4096 units."""
    inputs = scaled(CHANNELS, width)[-1] * SIDE**2
    head = dense(inputs, scaled((4096, 4096), width), classes, dropout=dropout, activation=activation)
    layers = OrderedDict(features=features, grid=Grid(SIDE), flatten=nn.Flatten(), classifier=nn.Sequential(head))
    return declare_(he_(nn.Sequential(layers)))
