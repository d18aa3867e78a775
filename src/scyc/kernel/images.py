"""The batch of a stack in one launch: picked, cropped, flipped, normalised, channels last, for every run."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def lay(
    images,  # (all, channels, height, width) uint8
    index,  # (seeds, batch) which images
    draws,  # (seeds, batch, 3): top, left, flip
    seed_of,  # (runs,)
    mean,  # (seeds, channels)
    std,
    x,  # (runs, batch, height, width, channels)
    batch,
    AUGMENT: tl.constexpr,
    PAD: tl.constexpr,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run, row = tl.program_id(2).to(tl.int64), tl.program_id(1)
    seed = tl.load(seed_of + run)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    good = place < C * H * W
    c, across, line = place % C, place // C % W, place // (C * W)
    image = tl.load(index + seed * batch + row)
    if AUGMENT:
        draw = draws + (seed * batch + row) * 3
        line += tl.load(draw).to(tl.int32) - PAD
        flipped = tl.load(draw + 2) != 0
        across = tl.where(flipped, W - 1 - across, across) + tl.load(draw + 1).to(tl.int32) - PAD
    seen = good & (line >= 0) & (line < H) & (across >= 0) & (across < W)
    pixel = tl.load(images + image * C * H * W + (c * H + line) * W + across, mask=seen, other=0).to(tl.float32)
    middle, spread = tl.load(mean + seed * C + c, mask=good), tl.load(std + seed * C + c, mask=good, other=1.0)
    value = (pixel / 255.0 - middle) / spread
    tl.store(x + (run * batch + row) * C * H * W + place, value.to(x.dtype.element_ty), mask=good)


def batch(
    images: Tensor,
    index: Tensor,
    draws: Tensor | None,  # (seeds, batch, 3) int64
    seed_of: Tensor,
    mean: Tensor,
    std: Tensor,
    dtype: torch.dtype,
) -> Tensor:  # (runs, batch, channels, height, width), channels last in memory
    runs, rows = len(seed_of), index.shape[1]
    channels, height, width = images.shape[1:]
    x = torch.empty(runs, rows, height, width, channels, device=images.device, dtype=dtype)
    lay[(triton.cdiv(channels * height * width, BLOCK), rows, runs)](
        images, index.contiguous(), index if draws is None else draws, seed_of, mean, std, x, rows,
        draws is not None, height // 8, channels, height, width, BLOCK,
    )  # fmt: skip
    return x.permute(0, 1, 4, 2, 3)
