"""Masks live outside the model: a dictionary from parameter names to boolean tensors, True where a weight remains."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as torch_prune
from torch.utils.hooks import RemovableHandle

from scyc.pruned_state import from_state_dict

__all__ = ["Masks", "Where", "apply_", "attach_", "coupled", "density", "from_state_dict", "from_torch_", "held"]
__all__ += ["ones_like", "prunable", "to_torch_", "weights"]

Masks = dict[str, Tensor]
WEIGHTED: dict[type[nn.Module], tuple[str, ...]] = {
    nn.modules.conv._ConvNd: ("weight",),
    nn.Linear: ("weight",),
    nn.MultiheadAttention: ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"),  # linear all of them
}
Where = Callable[[str, nn.Parameter], bool]  # (name, parameter): may it be pruned?


def weights(net: nn.Module) -> list[str]:
    """The names of all convolution and linear weights, in the order of the parameters; a tied weight stands once."""
    candidates = {
        f"{prefix}.{leaf}".lstrip(".")
        for prefix, module in net.named_modules()
        for kind, leaves in WEIGHTED.items()
        if isinstance(module, kind)
        for leaf in leaves
    }
    return [name for name, _ in net.named_parameters() if name in candidates]


def prunable(net: nn.Module) -> list[str]:
    """All convolution and linear weights but those the model, or a model in it, exempts (attribute `prune_exempt`)."""
    exempt = {
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in net.named_modules()
        for name in getattr(module, "prune_exempt", ())
    }
    return [name for name in weights(net) if name not in exempt]


def coupled(net: nn.Module) -> dict[str, tuple[str, ...]]:
    """What the model, or a model in it, says must be zeroed together with a filter (attribute `prune_coupled`)."""
    return {
        f"{prefix}.{name}".lstrip("."): tuple(f"{prefix}.{vector}".lstrip(".") for vector in vectors)
        for prefix, module in net.named_modules()
        for name, vectors in getattr(module, "prune_coupled", {}).items()
    }


def ones_like(net: nn.Module, names: Iterable[str] | None = None, *, where: Where | None = None) -> Masks:
    """Masks that keep everything, for the prunable weights or for the parameters named; of these, those that `where`
    chooses."""
    parameters = whole(net)
    wanted = prunable(net) if names is None else list(names)
    missing = [name for name in wanted if name not in parameters]
    if missing:
        raise ValueError(
            f"{missing[0]!r} is no parameter of this network; it has {', '.join(list(parameters)[:8]) or 'none'}"
        )
    chosen = [name for name in wanted if where is None or where(name, parameters[name])]
    if wanted and not chosen:
        raise ValueError(f"`where` chooses none of {', '.join(wanted[:8])}; let it return True for some of them")
    return {name: torch.ones_like(parameters[name], dtype=torch.bool) for name in chosen}


def density(masks: Mapping[str, Tensor], names: Iterable[str] | None = None) -> float:
    """The share of weights that remain, over all masks or over those named."""
    chosen = [masks[name] for name in (masks if names is None else names)]
    if not chosen:
        raise ValueError(
            "no masks: nothing in this network can be pruned; name its weights in mask.ones_like(net, names)"
        )
    return sum(int(mask.sum()) for mask in chosen) / sum(mask.numel() for mask in chosen)


def whole(net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by name; refuses those that FSDP flattens or shards, since masks have a parameter's own shape."""
    parameters = dict(net.named_parameters())
    for name, parameter in parameters.items():
        if getattr(parameter, "_fsdp_flattened", False) or hasattr(parameter, "placements"):
            raise ValueError(f"parameter {name!r} is sharded by FSDP, and masks do not fit its shards; train with DDP")
    return parameters


def held(net: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, tuple[nn.Parameter, Tensor]]:
    """Each masked parameter, by name, with where it is pruned; refuses masks that do not fit."""
    parameters = whole(net)
    for name, mask in masks.items():
        if name not in parameters:
            raise ValueError(f"mask {name!r} fits no parameter of this network; make masks with mask.ones_like(net)")
        own, shape = tuple(mask.shape), tuple(parameters[name].shape)
        if mask.dtype != torch.bool or own != shape:
            raise ValueError(f"mask {name!r} is {mask.dtype} {own}; it must be torch.bool, of its parameter's {shape}")
    return {name: (parameters[name], ~mask) for name, mask in masks.items()}


@torch.no_grad()
def apply_(net: nn.Module, masks: Mapping[str, Tensor]) -> None:
    """Set pruned weights to exactly 0.0 (set, not multiplied: NaN and -0.0 go too)."""
    for parameter, pruned in held(net, masks).values():
        parameter.masked_fill_(pruned, 0.0)


def attach_(optimizer: torch.optim.Optimizer, net: nn.Module, masks: Mapping[str, Tensor]) -> RemovableHandle:
    """Keep pruned weights at zero after every `optimizer.step()`; the handle's `remove()` ends it."""
    apply_(net, masks)
    pairs = held(net, masks).values()
    optimizer = unwrapped(optimizer)

    @torch.no_grad()
    def hold(*_: object) -> None:
        for parameter, pruned in pairs:
            parameter.masked_fill_(pruned, 0.0)

    return optimizer.register_step_post_hook(hold)


def unwrapped(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer itself, where accelerate or Lightning wrapped it: theirs have no hooks."""
    inner = getattr(optimizer, "optimizer", optimizer)
    return inner if isinstance(inner, torch.optim.Optimizer) else optimizer


def to_torch_(net: nn.Module, masks: Mapping[str, Tensor]) -> None:
    """Hand the masks over to `torch.nn.utils.prune`: each weight becomes `weight_orig` and `weight_mask`."""
    for name, (parameter, _) in held(net, masks).items():
        for place in [p for p, other in net.named_parameters(remove_duplicate=False) if other is parameter]:
            prefix, _, leaf = place.rpartition(".")
            module = net.get_submodule(prefix)
            order = list(module._parameters)
            torch_prune.custom_from_mask(module, leaf, masks[name])  # type: ignore[no-untyped-call]
            reorder_(module, [f"{leaf}_orig" if key == leaf else key for key in order])


def from_torch_(net: nn.Module) -> Masks:
    """Take the masks over from `torch.nn.utils.prune`, and leave an ordinary network whose pruned weights are zero."""
    found: Masks = {}
    for prefix, module in net.named_modules():
        for leaf in [
            key.removesuffix("_mask") for key, _ in module.named_buffers(recurse=False) if key.endswith("_mask")
        ]:
            if f"{leaf}_orig" not in module._parameters:
                continue
            order = [leaf if key == f"{leaf}_orig" else key for key in module._parameters]
            found[f"{prefix}.{leaf}".lstrip(".")] = getattr(module, f"{leaf}_mask").bool()
            torch_prune.remove(module, leaf)  # type: ignore[no-untyped-call]
            reorder_(module, order)
    masks = joined(net, found)
    apply_(net, masks)  # torch multiplies by its masks, which leaves -0.0 and NaN
    return masks


def joined(net: nn.Module, found: Masks) -> Masks:
    """Masks by the names of the parameters: a tied weight, masked in each of its places, remains where all keep it."""
    names = {parameter: name for name, parameter in net.named_parameters()}
    masks: Masks = {}
    for place, parameter in net.named_parameters(remove_duplicate=False):
        if place in found:
            name = names[parameter]
            masks[name] = masks[name] & found[place] if name in masks else found[place]
    return masks


def reorder_(module: nn.Module, order: list[str]) -> None:
    """torch's prune moves a parameter to the end, where an optimizer that counts parameters finds another one."""
    module._parameters = {key: module._parameters[key] for key in order}
