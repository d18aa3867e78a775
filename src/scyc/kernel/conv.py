"""Convolutions of a stack in Triton: channels last, every run with its own weights, one launch for all runs.

Activations are (runs, images, height, width, channels), so that pixels side by side are one piece of memory. `fold`
neighbours of a line are computed together: a product whose left operand is a window of pixels as it lies, and whose
right operand holds the taps of each neighbour where its window has them, zeros elsewhere. It loads less per pixel and
is wider than one product per tap. The gradient of the input is the same product with other windows and taps.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from scyc.kernel.tiles import Geometry, Tiles, chosen
from scyc.kernel.windows import Slide, over_input, over_output

PRODUCT = {"bf16": "tf32", "tf32": "tf32", "float32": "tf32x3"}  # what Triton calls it; bf16 comes from the operands
PROGRAMS = 2112  # sixteen for each of 132 multiprocessors: splits that keep them busy to the end


@triton.jit
def slide(
    x,  # (runs, images, H, W, CI)
    w,  # (runs, CLASSES, LINES, WINDOW, CI, FOLD, CO)
    y,  # (runs, images, HO, WO, CO)
    added,  # of the shape of y, added to it
    rows,  # windows of a run
    x_run,  # elements of a run
    y_run,
    H: tl.constexpr,
    W: tl.constexpr,
    CI: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    CO: tl.constexpr,
    TALL: tl.constexpr,  # windows of an image, up and down
    WIDE: tl.constexpr,  # and across
    CLASSES: tl.constexpr,
    LINES: tl.constexpr,
    WINDOW: tl.constexpr,
    FOLD: tl.constexpr,
    DOWN: tl.constexpr,
    TOP: tl.constexpr,
    ACROSS: tl.constexpr,
    LEFT: tl.constexpr,
    ADDED: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    run = tl.program_id(2).to(tl.int64)
    kind = tl.program_id(1) % CLASSES
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) // CLASSES * BN + tl.arange(0, BN)
    x += run * x_run
    w += (run * CLASSES + kind) * LINES * WINDOW * CI * FOLD * CO
    image, place = m // (TALL * WIDE), m % (TALL * WIDE)
    top, left = place // WIDE, place % WIDE
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    CHUNKS: tl.constexpr = (WINDOW * CI + BK - 1) // BK
    for i in range(LINES * CHUNKS):
        j = i % CHUNKS * BK + tl.arange(0, BK)
        line = top * DOWN + TOP + i // CHUNKS
        column = (left * ACROSS + LEFT)[:, None] + (j // CI)[None, :]
        good = ((m < rows) & (line >= 0) & (line < H))[:, None] & (column >= 0) & (column < W)
        where = (((image * H + line) * W + left * ACROSS + LEFT) * CI)[:, None] + j[None, :]
        a = tl.load(x + where, mask=good & (j < WINDOW * CI)[None, :], other=0.0)
        tap = (i // CHUNKS * WINDOW * CI + j)[:, None] * (FOLD * CO) + n[None, :]
        b = tl.load(w + tap, mask=(j < WINDOW * CI)[:, None] & (n < FOLD * CO)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    line, column = top * CLASSES + kind, left * FOLD
    good = ((m < rows) & (line < HO))[:, None] & (n < FOLD * CO)[None, :]
    good = good & (column[:, None] + (n // CO)[None, :] < WO)
    out = run * y_run + (((image * HO + line) * WO + column) * CO)[:, None] + n[None, :]
    if ADDED:
        acc += tl.load(added + out, mask=good, other=0.0).to(tl.float32)
    tl.store(y + out, acc.to(y.dtype.element_ty), mask=good)


@triton.jit
def correlate(
    x,  # (runs, images, H, W, CI)
    dy,  # (runs, images, HO, WO, CO)
    partial,  # (runs, splits, LINES x WINDOW x CI, FOLD x CO)
    rows,
    x_run,
    y_run,
    H: tl.constexpr,
    W: tl.constexpr,
    CI: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    CO: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    LINES: tl.constexpr,
    WINDOW: tl.constexpr,
    FOLD: tl.constexpr,
    DOWN: tl.constexpr,
    TOP: tl.constexpr,
    ACROSS: tl.constexpr,
    LEFT: tl.constexpr,
    PRECISION: tl.constexpr,
    CHUNK: tl.constexpr,  # windows of a split, a multiple of BM
    BM: tl.constexpr,
    BJ: tl.constexpr,
    BN: tl.constexpr,
):
    split, run = tl.program_id(1), tl.program_id(2).to(tl.int64)
    columns: tl.constexpr = (LINES * WINDOW * CI + BJ - 1) // BJ
    j = tl.program_id(0) % columns * BJ + tl.arange(0, BJ)
    n = tl.program_id(0) // columns * BN + tl.arange(0, BN)
    tap, piece = j // (WINDOW * CI), j % (WINDOW * CI)
    x += run * x_run
    dy += run * y_run
    acc = tl.zeros((BJ, BN), dtype=tl.float32)
    for first in range(0, CHUNK, BM):
        m = split * CHUNK + first + tl.arange(0, BM)
        image, place = m // (TALL * WIDE), m % (TALL * WIDE)
        top, left = place // WIDE, place % WIDE
        line = (top * DOWN + TOP)[:, None] + tap[None, :]
        column = (left * ACROSS + LEFT)[:, None] + (piece // CI)[None, :]
        good = (m < rows)[:, None] & (line >= 0) & (line < H) & (column >= 0) & (column < W)
        where = (((image * H)[:, None] + line) * W + (left * ACROSS + LEFT)[:, None]) * CI + piece[None, :]
        a = tl.load(x + where, mask=good & (j < LINES * WINDOW * CI)[None, :], other=0.0)
        here = (((image * HO + top) * WO + left * FOLD) * CO)[:, None] + n[None, :]
        good = (m < rows)[:, None] & (n < FOLD * CO)[None, :] & ((left * FOLD)[:, None] + (n // CO)[None, :] < WO)
        g = tl.load(dy + here, mask=good, other=0.0)
        acc = tl.dot(tl.trans(a), g, acc, input_precision=PRECISION)
    out = partial + (run * tl.num_programs(1) + split) * LINES * WINDOW * CI * FOLD * CO
    good = (j < LINES * WINDOW * CI)[:, None] & (n < FOLD * CO)[None, :]
    tl.store(out + j[:, None] * (FOLD * CO) + n[None, :], acc, mask=good)


@triton.jit
def pack(
    weight,  # (runs, outputs, inputs, taps), runs `pitch` apart
    taps_at,  # (places, fold): which tap, or -1
    packed,  # (runs, places, a, fold, b): a and b are the channels that a product sums over, and those it makes
    pitch,
    TAPS: tl.constexpr,
    PLACES: tl.constexpr,
    A: tl.constexpr,
    FOLD: tl.constexpr,
    B: tl.constexpr,
    A_STEP: tl.constexpr,  # elements between channels in `weight`
    B_STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    good = i < PLACES * A * FOLD * B
    b, f, a, place = i % B, i // B % FOLD, i // (B * FOLD) % A, i // (B * FOLD * A)
    tap = tl.load(taps_at + place * FOLD + f, mask=good, other=-1)
    value = tl.load(weight + run * pitch + a * A_STEP + b * B_STEP + tap, mask=good & (tap >= 0), other=0.0)
    tl.store(packed + run * PLACES * A * FOLD * B + i, value.to(packed.dtype.element_ty), mask=good)


@triton.jit
def unpack(
    partial,  # (runs, splits, LINES, WINDOW, CI, FOLD, CO)
    weight,  # (runs, CO, CI, LINES, S)
    SPLITS: tl.constexpr,
    S: tl.constexpr,
    CI: tl.constexpr,
    CO: tl.constexpr,
    LINES: tl.constexpr,
    WINDOW: tl.constexpr,
    FOLD: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum over the splits and the neighbours, in this order every time."""
    run = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # in the order of `partial`, so that reading is contiguous
    good = i < LINES * S * CI * CO
    co, ci, s, line = i % CO, i // CO % CI, i // (CO * CI) % S, i // (CO * CI * S)
    total = tl.zeros((BLOCK,), tl.float32)
    size: tl.constexpr = LINES * WINDOW * CI * FOLD * CO
    for split in range(SPLITS):
        for f in range(FOLD):
            where = (((line * WINDOW + f * STRIDE + s) * CI + ci) * FOLD + f) * CO + co
            total += tl.load(partial + (run * SPLITS + split) * size + where, mask=good, other=0.0)
    out = weight + run * LINES * S * CI * CO + ((co * CI + ci) * LINES + line) * S + s
    tl.store(out, total, mask=good)


@cache
def placed(taps: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(taps, dtype=torch.int32, device=device)


def packed(weight: Tensor, how: Slide, dtype: torch.dtype, *, transposed: bool) -> Tensor:
    """The taps of every run as the right operand of its products; runs may lie apart in `weight`."""
    runs, outputs, inputs, *kernel = weight.shape
    taps = kernel[0] * kernel[1]
    steps = (inputs * taps, taps, 1)
    assert weight.flatten(3).stride()[1:] == steps
    a, b = ((outputs, steps[0]), (inputs, steps[1]))[:: 1 if transposed else -1]
    places = len(how.taps) // how.fold
    out = torch.empty(runs, places * a[0], how.fold * b[0], device=weight.device, dtype=dtype)
    pack[(triton.cdiv(out[0].numel(), 1024), runs)](
        weight, placed(how.taps, weight.device), out, weight.stride(0),
        taps, places, a[0], how.fold, b[0], a[1], b[1], 1024,
    )  # fmt: skip
    return out


def forward(x: Tensor, weight: Tensor, g: Geometry, how: str, tiles: Tiles | None = None) -> Tensor:
    """x (runs, images, height, width, inputs), weight as torch has it: y (runs, images, height, width, outputs)."""
    t = tiles or chosen("forward", how, g)
    windows = over_input(g, t.fold)
    return slid(x, packed(weight, windows, x.dtype, transposed=False), windows, (*g.out, g.outputs), how, t, None)


def input_gradient(
    dy: Tensor, weight: Tensor, g: Geometry, how: str, added: Tensor | None = None, tiles: Tiles | None = None
) -> Tensor:
    """The gradient of x, with another one added."""
    t = tiles or chosen("input", how, g)
    windows, target = over_output(g, t.fold), (g.height, g.width, g.inputs)
    return slid(dy, packed(weight, windows, dy.dtype, transposed=True), windows, target, how, t, added)


def slid(
    x: Tensor, w: Tensor, windows: Slide, target: tuple[int, int, int], how: str, t: Tiles, added: Tensor | None
) -> Tensor:
    runs, images, height, width, inputs = x.shape
    y = torch.empty(runs, images, *target, device=x.device, dtype=x.dtype)
    rows = images * windows.tall * windows.wide
    grid = (triton.cdiv(rows, t.rows), triton.cdiv(windows.fold * target[2], t.columns) * windows.classes, runs)
    slide[grid](
        x, w, y, y if added is None else added, rows, x[0].numel(), y[0].numel(), height, width, inputs, *target,
        windows.tall, windows.wide, *windows.numbers, added is not None,
        PRODUCT[how], t.rows, t.columns, t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return y


def weight_gradient(x: Tensor, dy: Tensor, g: Geometry, how: str, tiles: Tiles | None = None) -> Tensor:
    """The gradient of the weight, (runs, outputs, inputs, R, S) in float32."""
    t = tiles or chosen("weight", how, g)
    runs, images, windows = x.shape[0], x.shape[1], over_input(g, t.fold)
    rows, depth = images * windows.tall * windows.wide, windows.lines * windows.window * g.inputs
    width = windows.fold * g.outputs
    parts = triton.cdiv(depth, t.depth) * triton.cdiv(width, t.columns)
    splits = max(1, min(triton.cdiv(PROGRAMS, parts * runs), rows // (4 * t.rows)))
    chunk = triton.cdiv(triton.cdiv(rows, splits), t.rows) * t.rows
    splits = triton.cdiv(rows, chunk)
    partial = torch.empty(runs, splits, depth, width, device=x.device, dtype=torch.float32)
    correlate[(parts, splits, runs)](
        x, dy, partial, rows, x[0].numel(), dy[0].numel(), g.height, g.width, g.inputs, *g.out, g.outputs,
        windows.tall, windows.wide, *windows.numbers[1:],
        PRODUCT[how], chunk, t.rows, t.depth, t.columns, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    weight = torch.empty(runs, g.outputs, g.inputs, *g.kernel, device=x.device, dtype=torch.float32)
    unpack[(triton.cdiv(weight[0].numel(), 256), runs)](
        partial, weight, splits, g.kernel[1], g.inputs, g.outputs, *windows.numbers[1:4], g.stride, 256
    )
    return weight
