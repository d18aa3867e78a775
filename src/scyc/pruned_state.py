"""State dicts of pruned networks as other libraries write them, as ordinary ones with masks beside them."""

from collections.abc import Mapping

import torch
from torch import Tensor

ORIG, MASK = "_orig", "_mask"  # torch.nn.utils.prune, and Lightning's ModelPruning, which uses it
BUFFER, DOT, MODEL = "mask_", "___", "model."  # open_lth's PrunedModel


def from_state_dict(
    state: Mapping[str, Tensor],
    masks: Mapping[str, Tensor] | None = None,  # zeros and ones in a file beside it, as open_lth's mask.pth
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The state dict of the unpruned network, its pruned weights exactly zero, and the masks by parameter name.

    Understands `weight_orig` with `weight_mask` (torch.nn.utils.prune), open_lth's `PrunedModel`, and a file of masks.
    """
    plain, found = without_buffers(*without_pairs(dict(state)))
    found.update({name: booleans(name, mask) for name, mask in (masks or {}).items()})
    if not found:
        raise ValueError("no masks: no 'NAME_orig' with 'NAME_mask', no 'mask_NAME', and no masks beside the state")
    for name, mask in found.items():
        if name not in plain or plain[name].shape != mask.shape:
            shape = tuple(plain[name].shape) if name in plain else "nothing"
            raise ValueError(f"mask {name!r} has shape {tuple(mask.shape)}, the state {shape}; pass what belongs to it")
        plain[name] = plain[name].masked_fill(~mask, 0.0)
    return plain, found


def without_pairs(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """`weight_orig` and `weight_mask` become `weight`."""
    names = [key.removesuffix(ORIG) for key in state if key.endswith(ORIG)]
    pairs = {name + ORIG: name for name in names if name + MASK in state}
    found = {name: booleans(name, state[name + MASK]) for name in pairs.values()}
    gone = {name + MASK for name in found}
    return {pairs.get(key, key): value for key, value in state.items() if key not in gone}, found


def without_buffers(state: dict[str, Tensor], found: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """`mask_fc___weight` beside `model.fc.weight` becomes a mask of `fc.weight`."""
    names = [key.removeprefix(MODEL) for key in state if key.startswith(MODEL)]
    named = {BUFFER + name.replace(".", DOT): name for name in names if BUFFER + name.replace(".", DOT) in state}
    if not named:
        return state, found
    masks = {name: booleans(name, state[key]) for key, name in named.items()}
    return {key.removeprefix(MODEL): value for key, value in state.items() if key not in named}, found | masks


def booleans(name: str, mask: Tensor) -> Tensor:
    mask = torch.as_tensor(mask)
    if not ((mask == 0) | (mask == 1)).all():
        raise ValueError(f"mask {name!r} holds values beside 0 and 1; a mask says which weights remain")
    return mask.bool()
