"""What competes with what: scopes group layers, units say what in a layer goes as one piece."""

from collections.abc import Callable

from torch import Tensor

from scyc.registry import Kind

Scope = Callable[[list[str]], list[list[str]]]
Unit = Callable[[Tensor], Tensor]


# Scopes: names of layers -> groups whose units compete with each other.


def everything(names: list[str]) -> list[list[str]]:
    """all weights compete"""
    return [names]


def each_layer(names: list[str]) -> list[list[str]]:
    """the same amount in every layer"""
    return [[name] for name in names]


SCOPES: dict[str, Scope] = {"global": everything, "layer": each_layer}


# Units: a weight with its run axis -> (runs, units, elements of a unit); no units where the layer has none to prune.


def single_weights(weight: Tensor) -> Tensor:
    """single weights"""
    return weight.flatten(1).unsqueeze(-1)


def output_filters(weight: Tensor) -> Tensor:
    """whole output filters of convolutions, with their bias and BatchNorm scale and shift"""
    return weight.flatten(2) if weight.dim() > 3 else weight.new_empty((len(weight), 0, 1))


UNITS: dict[str, Unit] = {"weight": single_weights, "filter": output_filters}
SCOPE = Kind("scope", SCOPES, arguments=1)
UNIT = Kind("unit", UNITS, arguments=1)
