"""The networks, by name: each entry is called as `entry(input shape, classes, **fields)`."""

from collections.abc import Callable

from torch import nn

from scyc.model import alexnet, mlp, resnet, vgg, vit
from scyc.model.activation import ACTIVATIONS

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp.mlp,
    "alexnet": alexnet.alexnet,
    "resnet20": resnet.resnet20,
    "resnet50": resnet.resnet50,
    "vgg16": vgg.vgg16,
    "vgg19": vgg.vgg19,
    "vgg19_light": vgg.vgg19_light,
    "vit": vit.vit,
}

__all__ = ["ACTIVATIONS", "MODELS"]
