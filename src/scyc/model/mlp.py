"""Fully connected networks, and the head that other networks end in."""

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from scyc.model.activation import activate
from scyc.model.facts import declare_
from scyc.model.fields import check, check_dropout, scaled
from scyc.model.initial import he_


def mlp(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    widths: Sequence[int] = (256, 256, 256),
    bn: bool = False,
    dropout: float = 0.0,
    activation: str = "relu",
) -> nn.Module:
    """Fully connected network; `widths` are its hidden layers, `bn` puts batch normalisation before each activation."""
    check("mlp", shape, classes)
    if any(count < 1 for count in widths):
        raise ValueError(f"model field widths = {tuple(widths)}; give hidden layers of at least 1 unit each")
    hidden = scaled(widths, width)
    layers = dense(math.prod(shape), hidden, classes, bn=bn, dropout=dropout, activation=activation)
    return declare_(he_(nn.Sequential(OrderedDict(flatten=nn.Flatten(), **layers))))


def dense(
    inputs: int, hidden: Sequence[int], classes: int, *, bn: bool = False, dropout: float, activation: str
) -> OrderedDict[str, nn.Module]:
    """Hidden layers (linear, BN, activation, dropout) and the classifier `fc`, by name."""
    check_dropout(dropout)
    layers = OrderedDict[str, nn.Module]()
    for i, (before, after) in enumerate(zip((inputs, *hidden), hidden, strict=False), start=1):
        layers[f"fc{i}"] = nn.Linear(before, after)
        if bn:
            layers[f"bn{i}"] = nn.BatchNorm1d(after)
        layers[f"act{i}"] = activate(activation)
        if dropout:
            layers[f"dropout{i}"] = nn.Dropout(dropout)
    layers["fc"] = nn.Linear((inputs, *hidden)[-1], classes)
    return layers
