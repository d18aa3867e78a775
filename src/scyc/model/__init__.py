"""The networks, by name: each entry is called as `entry(input shape, classes, **fields)`."""

from collections.abc import Callable

from torch import nn

from scyc.model.activation import ACTIVATIONS
from scyc.model.mlp import mlp
from scyc.model.resnet import resnet20, resnet50

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "resnet20": resnet20,
    "resnet50": resnet50,
}

__all__ = ["ACTIVATIONS", "MODELS"]
