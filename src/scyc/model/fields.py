"""The fields every network shares: checked here, so that each error reads the same."""

import math
from collections.abc import Sequence


def check(name: str, shape: tuple[int, int, int], classes: int, smallest: int = 1) -> None:
    """Refuse an input of (channels, height, width) or a number of classes that network `name` cannot take."""
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"model {name}: input shape {tuple(shape)}; give (channels, height, width), each at least 1")
    if min(shape[1:]) < smallest:
        size = f"{shape[1]}x{shape[2]}"
        least = f"{smallest}x{smallest}"
        raise ValueError(f"model {name}: images of {size} are too small; give at least {least}, or use mlp or resnet20")
    if classes < 1:
        raise ValueError(f"model {name}: classes = {classes}; give at least 1")


def scaled(counts: Sequence[int], width: float) -> list[int]:
    """Channel or hidden counts times `width`, rounded, each at least 1."""
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"model field width = {width}; give a number above 0 (1.0 is the full network)")
    return [max(1, round(count * width)) for count in counts]


def check_dropout(share: float) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"model field dropout = {share}; give a share in [0, 1) (0 builds no dropout)")
