"""Windows over a source: where a line of neighbours looks, and which tap each of them has at each place.

One description serves the convolution (windows over x) and the gradient of its input (windows over the gradient of y).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scyc.kernel.tiles import Geometry


@dataclass(frozen=True)
class Slide:
    """Windows over a source, and which tap each neighbour has at each place of its window."""

    tall: int
    wide: int
    classes: int  # lines of the target that a window serves
    lines: int
    window: int
    fold: int
    down: int
    top: int
    across: int
    left: int
    taps: tuple[int, ...]  # (classes, lines, window, fold): r * S + s, or -1

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.classes, self.lines, self.window, self.fold, self.down, self.top, self.across, self.left)


@cache
def over_input(g: Geometry, fold: int) -> Slide:
    """Windows over x, one line of y each."""
    (high, wide), (r, s) = g.out, g.kernel
    window = (fold - 1) * g.stride + s
    taps = [
        line * s + t - f * g.stride if 0 <= t - f * g.stride < s else -1
        for line in range(r)
        for t in range(window)
        for f in range(fold)
    ]
    across = -(-wide // fold)
    return Slide(high, across, 1, r, window, fold, g.stride, -g.pad, fold * g.stride, -g.pad, tuple(taps))


@cache
def over_output(g: Geometry, fold: int) -> Slide:
    """Windows over the gradient of y, `stride` lines of x each; `fold` is a multiple of the stride."""
    lines, columns = (reach(k, g.stride, g.pad, n) for k, n in zip(g.kernel, (g.stride, fold), strict=True))
    taps = [
        row * g.kernel[1] + column if row is not None and column is not None else -1
        for kind in range(g.stride)
        for line in lines
        for t in columns
        for f in range(fold)
        for row, column in [(tap(kind, line, g.kernel[0], g), tap(f, t, g.kernel[1], g))]
    ]
    tall, wide = -(-g.height // g.stride), -(-g.width // fold)
    across = fold // g.stride
    sizes = (tall, wide, g.stride, len(lines), len(columns), fold, 1, lines[0], across, columns[0])
    return Slide(*sizes, tuple(taps))


def tap(place: int, source: int, kernel: int, g: Geometry) -> int | None:
    """Which tap of a forward convolution leads from x at `place` to y at `source`."""
    found = place + g.pad - source * g.stride
    return found if 0 <= found < kernel else None


def reach(kernel: int, stride: int, pad: int, places: int) -> Sequence[int]:
    """The lines of y that x at 0 to places - 1 has to do with."""
    return range(-((kernel - 1 - pad) // stride), (places - 1 + pad) // stride + 1)
