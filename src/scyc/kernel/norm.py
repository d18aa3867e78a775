"""Batch normalisation of a stack in Triton, with the sum of a shortcut and the ReLU that follow it in one pass.

Rows are pixels: x is (runs, rows, channels). Statistics are gathered in parts and joined by Chan's formula, in the same
order every time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096  # elements in hand
PARTS = 64  # of a run, at most, whose statistics are joined


@triton.jit
def moments(x, means, squares, rows, CHUNK: tl.constexpr, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    """Mean and sum of squared deviations of every part and channel, counted from the part's first row."""
    part, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += run * rows * C
    start = tl.load(x + part * CHUNK * C + c, mask=c < C, other=0.0).to(tl.float32)
    plain, square = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32)
    for first in range(0, CHUNK, BM):
        m = part * CHUNK + first + tl.arange(0, BM)
        good = (m < rows)[:, None] & (c < C)[None, :]
        value = tl.load(x + m[:, None] * C + c[None, :], mask=good, other=0.0).to(tl.float32)
        value = tl.where(good, value - start[None, :], 0.0)
        plain += value
        square += value * value
    count = tl.minimum(rows - part * CHUNK, CHUNK).to(tl.float32)
    off = tl.sum(plain, 0) / count
    out = (run * tl.num_programs(0) + part) * C + c
    tl.store(means + out, start + off, mask=c < C)
    tl.store(squares + out, tl.maximum(tl.sum(square, 0) - count * off * off, 0.0), mask=c < C)


@triton.jit
def join(
    means,
    squares,
    mean,
    scale,  # one over the standard deviation
    running_mean,
    running_var,
    rows,
    parts,
    pitch,  # elements between the runs of the running ones
    eps,
    momentum,
    CHUNK: tl.constexpr,
    C: tl.constexpr,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """The statistics of all rows from those of the parts, and the running ones after them."""
    run = tl.program_id(0).to(tl.int64)
    c, p = tl.program_id(1) * BC + tl.arange(0, BC), tl.arange(0, BP)
    good = (p < parts)[:, None] & (c < C)[None, :]
    where = (run * parts + p)[:, None] * C + c[None, :]
    part, square = tl.load(means + where, mask=good, other=0.0), tl.load(squares + where, mask=good, other=0.0)
    count = tl.minimum(tl.maximum(rows - p * CHUNK, 0), CHUNK).to(tl.float32)[:, None]
    middle = tl.sum(part * count, 0) / rows
    off = tl.where(good, part - middle[None, :], 0.0)
    total = tl.sum(square + off * off * count, 0)
    out = run * C + c
    tl.store(mean + out, middle, mask=c < C)
    tl.store(scale + out, 1.0 / tl.sqrt_rn(total / rows + eps), mask=c < C)
    out = run * pitch + c
    before, spread = tl.load(running_mean + out, mask=c < C), tl.load(running_var + out, mask=c < C)
    tl.store(running_mean + out, before + momentum * (middle - before), mask=c < C)
    tl.store(running_var + out, spread + momentum * (total / (rows - 1) - spread), mask=c < C)


@triton.jit
def normalise(
    x,
    shortcut,
    y,
    mean,
    scale,
    gamma,
    beta,
    rows,
    pitch,  # elements between the runs of gamma, and of beta
    ADDED: tl.constexpr,
    RELU: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    m, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(2) * BC + tl.arange(0, BC)
    good, where = (m < rows)[:, None] & (c < C)[None, :], (run * rows + m)[:, None] * C + c[None, :]
    factor = tl.load(scale + run * C + c, mask=c < C) * tl.load(gamma + run * pitch + c, mask=c < C)
    shift = tl.load(beta + run * pitch + c, mask=c < C) - tl.load(mean + run * C + c, mask=c < C) * factor
    value = tl.load(x + where, mask=good, other=0.0).to(tl.float32) * factor[None, :] + shift[None, :]
    if ADDED:
        value += tl.load(shortcut + where, mask=good, other=0.0).to(tl.float32)
    if RELU:
        value = tl.where(value > 0, value, value * 0.0)  # times zero, so that NaN and infinity stay what they are
        value = tl.where(value == 0.0, 0.0, value)
    tl.store(y + where, value.to(y.dtype.element_ty), mask=good)


@triton.jit
def through(grad, value, y, where, good, factor, shift, ADDED: tl.constexpr):
    """The gradient where the ReLU let something through; with a shortcut only its output tells."""
    if ADDED:
        return tl.where(tl.load(y + where, mask=good, other=0.0) > 0, grad, 0.0)
    return tl.where(value * factor[None, :] + shift[None, :] > 0, grad, 0.0)


@triton.jit
def slopes(
    dy,
    x,
    y,
    mean,
    scale,
    gamma,
    beta,
    sums,  # (runs, parts, 2, channels)
    rows,
    pitch,
    ADDED: tl.constexpr,
    RELU: tl.constexpr,
    CHUNK: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """Per part and channel: the sum of the gradient, and of its product with the normalised x."""
    part, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    middle, narrow = tl.load(mean + run * C + c, mask=c < C), tl.load(scale + run * C + c, mask=c < C)
    factor = narrow * tl.load(gamma + run * pitch + c, mask=c < C)
    shift = tl.load(beta + run * pitch + c, mask=c < C) - middle * factor
    plain, product = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32)
    for first in range(0, CHUNK, BM):
        m = part * CHUNK + first + tl.arange(0, BM)
        good, where = (m < rows)[:, None] & (c < C)[None, :], (run * rows + m)[:, None] * C + c[None, :]
        grad = tl.load(dy + where, mask=good, other=0.0).to(tl.float32)
        value = tl.load(x + where, mask=good, other=0.0).to(tl.float32)
        if RELU:
            grad = through(grad, value, y, where, good, factor, shift, ADDED)
        plain += grad
        product += grad * tl.where(good, (value - middle[None, :]) * narrow[None, :], 0.0)
    out = (run * tl.num_programs(0) + part) * 2 * C + c
    tl.store(sums + out, tl.sum(plain, 0), mask=c < C)
    tl.store(sums + out + C, tl.sum(product, 0), mask=c < C)


@triton.jit
def unnormalise(
    dy,
    x,
    y,
    dx,
    dshortcut,
    mean,
    scale,
    gamma,
    beta,
    totals,  # (runs, 2, channels)
    rows,
    pitch,
    ADDED: tl.constexpr,
    RELU: tl.constexpr,
    TRAINING: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    m, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(2) * BC + tl.arange(0, BC)
    good, where = (m < rows)[:, None] & (c < C)[None, :], (run * rows + m)[:, None] * C + c[None, :]
    grad = tl.load(dy + where, mask=good, other=0.0).to(tl.float32)
    value = tl.load(x + where, mask=good, other=0.0).to(tl.float32)
    middle, narrow = tl.load(mean + run * C + c, mask=c < C), tl.load(scale + run * C + c, mask=c < C)
    factor = narrow * tl.load(gamma + run * pitch + c, mask=c < C)
    if RELU:
        shift = tl.load(beta + run * pitch + c, mask=c < C) - middle * factor
        grad = through(grad, value, y, where, good, factor, shift, ADDED)
    if ADDED:
        tl.store(dshortcut + where, grad.to(dshortcut.dtype.element_ty), mask=good)
    if TRAINING:
        plain = tl.load(totals + run * 2 * C + c, mask=c < C) / rows
        product = tl.load(totals + run * 2 * C + C + c, mask=c < C) / rows
        grad = grad - plain[None, :] - (value - middle[None, :]) * (narrow * product)[None, :]
    value = grad * factor[None, :]
    tl.store(dx + where, value.to(dx.dtype.element_ty), mask=good)


def cut(rows: int, channels: int) -> tuple[int, int, int, int]:  # rows and channels of a tile, parts, rows of a part
    wide = min(triton.next_power_of_2(channels), 64)
    tall = TILE // wide
    tiles = triton.cdiv(rows, tall)
    each = triton.cdiv(tiles, PARTS)
    return tall, wide, triton.cdiv(tiles, each), each * tall


def statistics(
    x: Tensor,  # (runs, rows, channels)
    running_mean: Tensor,  # (runs, channels), updated
    running_var: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor]:  # mean and one over the standard deviation, (runs, channels) float32
    assert running_mean.stride() == running_var.stride()
    runs, rows, channels = x.shape
    tall, wide, parts, chunk = cut(rows, channels)
    means, squares = torch.empty(2, runs, parts, channels, device=x.device, dtype=torch.float32)
    mean, scale = torch.empty(2, runs, channels, device=x.device, dtype=torch.float32)
    across = triton.cdiv(channels, wide)
    moments[(parts, runs, across)](x, means, squares, rows, chunk, channels, tall, wide, num_warps=8)
    join[(runs, across)](
        means, squares, mean, scale, running_mean, running_var, rows, parts, running_mean.stride(0), eps, momentum,
        chunk, channels, triton.next_power_of_2(parts), wide,
    )  # fmt: skip
    return mean, scale


def forward(
    x: Tensor,  # (runs, rows, channels)
    mean: Tensor,
    scale: Tensor,
    gamma: Tensor,  # (runs, channels), rows of a larger tensor perhaps
    beta: Tensor,
    shortcut: Tensor | None,
    relu: bool,
) -> Tensor:
    runs, rows, channels = x.shape
    tall, wide, _, _ = cut(rows, channels)
    y = torch.empty_like(x)
    normalise[(triton.cdiv(rows, tall), runs, triton.cdiv(channels, wide))](
        x, x if shortcut is None else shortcut, y, mean, scale, gamma, beta, rows, gamma.stride(0),
        shortcut is not None, relu, channels, tall, wide, num_warps=8,
    )  # fmt: skip
    return y


def backward(
    dy: Tensor,
    x: Tensor,
    y: Tensor,
    mean: Tensor,
    scale: Tensor,
    gamma: Tensor,
    beta: Tensor,
    added: bool,
    relu: bool,
    training: bool,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:  # of x, of the shortcut, of gamma and beta (runs, channels)
    runs, rows, channels = x.shape
    tall, wide, parts, chunk = cut(rows, channels)
    across = triton.cdiv(channels, wide)
    sums = torch.empty(runs, parts, 2, channels, device=x.device, dtype=torch.float32)
    slopes[(parts, runs, across)](
        dy, x, y, mean, scale, gamma, beta, sums, rows, gamma.stride(0), added, relu,
        chunk, channels, tall, wide, num_warps=8,
    )  # fmt: skip
    totals = sums.sum(1)
    dx, dshortcut = torch.empty_like(x), torch.empty_like(x) if added else None
    unnormalise[(triton.cdiv(rows, tall), runs, across)](
        dy, x, y, dx, dx if dshortcut is None else dshortcut, mean, scale, gamma, beta, totals, rows,
        gamma.stride(0),
        added, relu, training, channels, tall, wide, num_warps=8,
    )  # fmt: skip
    return dx, dshortcut, totals[:, 1], totals[:, 0]
