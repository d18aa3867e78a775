"""What pruning must know about a network: weights it never prunes, and the vectors that go with a filter."""

from itertools import pairwise

from torch import Tensor, nn


def declare_(net: nn.Module, exempt: tuple[str, ...] = ()) -> nn.Module:
    """Set the network's facts for pruning: `prune_exempt`, and `prune_coupled` as `coupled` finds it."""
    assert set(exempt) <= {name for name, _ in net.named_parameters()}
    net.prune_exempt = exempt  # type: ignore[assignment]  # torch's stub allows tensors and modules only
    net.prune_coupled = coupled(net)  # type: ignore[assignment]
    return net


def coupled(net: nn.Module) -> dict[str, tuple[str, ...]]:
    """For every convolution's weight the vectors to zero with a filter, so that its output after BN is exactly zero.

    Every convolution stands in an `nn.Sequential`, where order is execution: its BN, if any, is what follows it.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in net.named_parameters()}
    found = {}
    for sequence in (module for module in net.modules() if isinstance(module, nn.Sequential)):
        for layer, following in pairwise([*sequence, nn.Identity()]):
            if isinstance(layer, nn.Conv2d):
                norm = (following.weight, following.bias) if isinstance(following, nn.BatchNorm2d) else ()
                found[names[layer.weight]] = tuple(names[v] for v in (layer.bias, *norm) if v is not None)
    assert len(found) == sum(isinstance(module, nn.Conv2d) for module in net.modules())
    return found
