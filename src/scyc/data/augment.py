"""Augmentation on the device: whole batches at once, each image its own draw."""

import torch
from torch import Tensor

from scyc.draw import whole


def crop_and_flip(
    images: Tensor,  # (n, rows, channels, height, width) uint8
    keys: Tensor,  # (n,) int64: one per seed and cycle
    step: int,
) -> Tensor:  # the same shape
    """A random crop after zero padding of an eighth of the side (4 for 32, 8 for 64), and a random horizontal flip."""
    _, rows, _, height, width = images.shape
    pad = height // 8
    top, left, flip = draws(keys, step, rows, pad).unbind(-1)
    padded = torch.nn.functional.pad(images, (pad, pad, pad, pad))
    lines = top[..., None] + torch.arange(height, device=images.device)  # (n, rows, height)
    columns = torch.arange(width, device=images.device)
    columns = left[..., None] + torch.where(flip[..., None].bool(), width - 1 - columns, columns)  # (n, rows, width)
    n = torch.arange(len(images), device=images.device)[:, None, None, None]
    row = torch.arange(rows, device=images.device)[:, None, None]
    picked = padded[n, row, :, lines[..., :, None], columns[..., None, :]]  # channels last by advanced indexing
    return picked.permute(0, 1, 4, 2, 3)


def draws(
    keys: Tensor,  # (n,) int64
    step: int | Tensor,
    rows: int,
    pad: int,
) -> Tensor:  # (n, rows, 3) int64
    """Of every image: how far from the top and from the left its crop begins, and whether it is flipped."""
    return torch.stack(whole(keys, step, rows, (2 * pad + 1, 2 * pad + 1, 2)), -1)
