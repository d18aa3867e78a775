"""AlexNet in torchvision's shape, for images of any size."""

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from scyc.model.activation import activate
from scyc.model.facts import declare_
from scyc.model.fields import check, scaled
from scyc.model.grid import Grid
from scyc.model.initial import he_
from scyc.model.mlp import dense

SMALLEST = 63  # the stem and three poolings leave one pixel of it
SIDE = 6  # of the grid the head looks at


class Resize(nn.Module):
    """Images to size x size by bilinear interpolation, on the device they are on."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(
        self,
        x: Tensor,  # (batch, channels, height, width)
    ) -> Tensor:  # (batch, channels, size, size)
        return F.interpolate(x, size=(self.size, self.size), mode="bilinear", align_corners=False)

    def extra_repr(self) -> str:
        return str(self.size)


def alexnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    resize: int = 224,
    dropout: float = 0.0,
    activation: str = "relu",
) -> nn.Module:
    """AlexNet with two hidden layers of 4096 units; images are resized to `resize` pixels inside the network."""
    check("alexnet", shape, classes)
    if resize < SMALLEST:
        raise ValueError(f"model field resize = {resize}; give at least {SMALLEST} pixels (224 is AlexNet's own size)")
    features = _features(shape[0], width, activation)
    inputs = scaled((256,), width)[0] * SIDE**2
    head = dense(inputs, scaled((4096, 4096), width), classes, dropout=dropout, activation=activation)
    layers = OrderedDict[str, nn.Module](resize=Resize(resize), features=features, grid=Grid(SIDE))
    layers |= {"flatten": nn.Flatten(), "classifier": nn.Sequential(head)}
    return declare_(he_(nn.Sequential(layers)))


def _features(inputs: int, width: float, activation: str) -> nn.Sequential:
    """Five convolutions; max pooling after the first, second and fifth."""
    layers = OrderedDict[str, nn.Module]()
    plan = ((11, 4, 2, True), (5, 1, 2, True), (3, 1, 1, False), (3, 1, 1, False), (3, 1, 1, True))
    for i, outputs in enumerate(scaled((64, 192, 384, 256, 256), width), start=1):
        kernel, stride, padding, pooled = plan[i - 1]
        layers[f"conv{i}"] = nn.Conv2d(inputs, outputs, kernel, stride, padding)
        layers[f"act{i}"] = activate(activation)
        if pooled:
            layers[f"pool{i}"] = nn.MaxPool2d(3, stride=2)
        inputs = outputs
    return nn.Sequential(layers)
