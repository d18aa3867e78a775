"""Activations by name."""

from collections.abc import Callable

from torch import nn

from scyc.registry import nearest

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "prelu": nn.PReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def activate(name: str) -> nn.Module:
    """A new activation of this name; every place has its own, so that hooks can tell them apart."""
    if name not in ACTIVATIONS:
        raise nearest("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()
