"""Channels that are exactly zero whatever a network sees, and the network without them."""

import copy
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from scyc.train.engine import first_line

Conv = nn.modules.conv._ConvNd
Norm = nn.modules.batchnorm._BatchNorm | nn.modules.instancenorm._InstanceNorm


def library() -> Any:
    try:
        import torch_pruning
    except ImportError:
        raise ValueError(
            "shrink needs torch-pruning, which is not installed; add it with: pip install 'scyc[shrink]'"
        ) from None
    return torch_pruning


def silent(module: nn.Linear | Conv | Norm) -> Tensor:  # (channels,) bool
    """Which channels this layer puts out as exact zeros: by itself, or as the BatchNorm that follows."""
    weight = module.weight.detach()
    zeros = (weight == 0).view(len(weight), -1).all(1)
    return zeros if module.bias is None else zeros & (module.bias.detach() == 0)


def filters(net: nn.Module) -> tuple[int, int]:
    """All filters of a network's convolutions, and those whose weights are zero."""
    weights = [module.weight.detach().flatten(1) for module in net.modules() if isinstance(module, Conv)]
    return sum(map(len, weights)), sum(int((weight == 0).all(1).sum()) for weight in weights)


def without_silent(net: nn.Module, images: Tensor) -> nn.Module:
    """A narrower copy: a channel goes where every layer that writes it, all members of a sum included, is silent."""
    torch_pruning = library()
    narrow = copy.deepcopy(net).requires_grad_()
    slopes = {name: module for name, module in narrow.named_modules(remove_duplicate=False) if one_slope(module)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parameters that stand alone: see `speaking`
            replace_(
                narrow, {name: nn.ReLU() for name in slopes}
            )  # its slope's own reshaping would be taken for data's
            remove_(torch_pruning.DependencyGraph().build_dependency(narrow, example_inputs=images[:2]))
            replace_(narrow, slopes)
        narrow(images[:2])
    except Exception as error:  # it refuses networks in many ways
        raise ValueError(
            f"torch-pruning cannot follow this network: {first_line(error)}; nothing was removed"
        ) from error
    return narrow


def one_slope(module: nn.Module) -> bool:
    return isinstance(module, nn.PReLU) and module.num_parameters == 1


def replace_(net: nn.Module, modules: Mapping[str, nn.Module]) -> None:
    for name, module in modules.items():
        net.set_submodule(name, module)


def remove_(graph: Any) -> None:
    groups = list(graph.get_all_groups(root_module_types=[Conv, nn.Linear]))
    for group, channels in [(group, removable(graph, group)) for group in groups]:
        if channels:
            first = group[0].dep
            graph.get_pruning_group(first.target.module, first.handler, channels).prune()


def removable(graph: Any, group: Iterable[Any]) -> list[int]:
    """Channels of the group's first layer that are silent in all of its layers; one stays, and what nobody reads."""
    members = list(group)
    loud: set[int] = set()
    for member in members:
        if graph.is_out_channel_pruning_fn(member.dep.handler):
            loud |= speaking(member)
    quiet = sorted(set(members[0].idxs) - loud)
    read = any(not graph.is_out_channel_pruning_fn(member.dep.handler) for member in members)
    return quiet[len(quiet) == len(members[0].idxs) :] if read else []


def speaking(member: Any) -> set[int]:
    """Channels, as the group's first layer counts them, that this member may give another value than zero."""
    module = member.dep.target.module
    if isinstance(module, nn.PReLU) or type(module).__module__.startswith("torch_pruning."):  # its sums and activations
        return set()
    if isinstance(module, nn.Linear | Conv | Norm) and plain(module):
        quiet = silent(module)
        return {first for own, first in zip(member.idxs, member.root_idxs, strict=True) if not bool(quiet[own])}
    return set(member.root_idxs)


def plain(module: nn.Module) -> bool:
    """A layer whose channels are the rows of its weight."""
    return getattr(module, "weight", None) is not None and not getattr(module, "transposed", False)
