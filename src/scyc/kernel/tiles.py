"""How the launches of a convolution are cut: by measurement where its sizes were measured, by rule elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """A convolution's sizes, without the number of runs and images."""

    height: int
    width: int
    inputs: int
    outputs: int
    kernel: tuple[int, int]
    stride: int
    pad: int

    @property
    def out(self) -> tuple[int, int]:
        high, wide = (side + 2 * self.pad - k for side, k in zip((self.height, self.width), self.kernel, strict=True))
        return high // self.stride + 1, wide // self.stride + 1


@dataclass(frozen=True)
class Tiles:
    """Neighbours together; rows, columns and depth of a product in hand; warps; loads in flight."""

    fold: int
    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 1


# The fastest of 1116 on an H200, 32 runs of 128 images: (what, precision, inputs, outputs, stride), 3x3.
# At stride 1 the gradient of the input is the same product as the convolution, and takes its tiles.
MEASURED = {
    ("forward", "bf16", 3, 16, 1): Tiles(2, 64, 32, 16),
    ("forward", "bf16", 16, 16, 1): Tiles(2, 128, 32, 32, stages=2),
    ("forward", "bf16", 32, 32, 1): Tiles(2, 64, 64, 64, stages=2),
    ("forward", "bf16", 64, 64, 1): Tiles(1, 128, 64, 64, stages=2),
    ("forward", "bf16", 16, 32, 2): Tiles(1, 128, 32, 64, warps=8),
    ("forward", "bf16", 32, 64, 2): Tiles(1, 128, 64, 32),
    ("input", "bf16", 16, 16, 1): Tiles(2, 128, 32, 32, stages=2),
    ("input", "bf16", 32, 32, 1): Tiles(2, 64, 64, 64, stages=2),
    ("input", "bf16", 64, 64, 1): Tiles(1, 128, 64, 64, stages=2),
    ("input", "bf16", 16, 32, 2): Tiles(2, 128, 32, 32),
    ("input", "bf16", 32, 64, 2): Tiles(2, 128, 64, 64, warps=8),
    ("weight", "bf16", 3, 16, 1): Tiles(2, 32, 32, 64),
    ("weight", "bf16", 16, 16, 1): Tiles(2, 64, 32, 64, stages=2),
    ("weight", "bf16", 32, 32, 1): Tiles(2, 64, 64, 64, stages=2),
    ("weight", "bf16", 64, 64, 1): Tiles(1, 64, 64, 64, stages=2),
    ("weight", "bf16", 16, 32, 2): Tiles(2, 64, 64, 128, warps=8),
    ("weight", "bf16", 32, 64, 2): Tiles(1, 32, 64, 32),
    ("forward", "tf32", 16, 16, 1): Tiles(2, 128, 32, 64),
    ("forward", "tf32", 32, 32, 1): Tiles(1, 128, 32, 32, warps=8),
    ("forward", "tf32", 64, 64, 1): Tiles(1, 128, 64, 32),
    ("input", "tf32", 16, 16, 1): Tiles(2, 128, 32, 64),
    ("input", "tf32", 32, 32, 1): Tiles(1, 128, 32, 32, warps=8),
    ("input", "tf32", 64, 64, 1): Tiles(1, 128, 64, 32),
    ("weight", "tf32", 16, 16, 1): Tiles(2, 64, 32, 32),
    ("weight", "tf32", 32, 32, 1): Tiles(1, 64, 32, 32),
    ("weight", "tf32", 64, 64, 1): Tiles(1, 64, 64, 32),
    ("forward", "float32", 16, 16, 1): Tiles(2, 128, 32, 64),
    ("forward", "float32", 32, 32, 1): Tiles(1, 128, 32, 32, warps=8),
    ("forward", "float32", 64, 64, 1): Tiles(1, 128, 64, 32),
    ("input", "float32", 16, 16, 1): Tiles(2, 128, 32, 64),
    ("input", "float32", 32, 32, 1): Tiles(1, 128, 32, 32, warps=8),
    ("input", "float32", 64, 64, 1): Tiles(1, 128, 64, 32),
    ("weight", "float32", 16, 16, 1): Tiles(2, 32, 32, 64),
    ("weight", "float32", 32, 32, 1): Tiles(2, 64, 64, 128),
    ("weight", "float32", 64, 64, 1): Tiles(1, 32, 64, 128, warps=8),
}


def chosen(what: str, how: str, g: Geometry) -> Tiles:
    key = (what, how, g.inputs, g.outputs, g.stride)
    if g.kernel == (3, 3) and key in MEASURED:
        return MEASURED[key]
    return weight_tiles(g, how) if what == "weight" else slide_tiles(g, transposed=what == "input")


def slide_tiles(g: Geometry, *, transposed: bool) -> Tiles:
    source, target = (g.outputs, g.inputs) if transposed else (g.inputs, g.outputs)
    width, least = (g.width, g.stride) if transposed else (g.out[1], 1)
    fold = least * (2 if g.stride == 1 and target <= 32 and width % 2 == 0 else 1)
    return Tiles(fold, 128, power(fold * target, 16, 64), power(source * fold, 16, 32))


def weight_tiles(g: Geometry, how: str) -> Tiles:
    fold = 2 if g.stride == 1 and g.outputs <= 32 and g.out[1] % 2 == 0 else 1
    rows, depth = (64, 64) if how == "bf16" else (32, 32)
    return Tiles(fold, rows, power(fold * g.outputs, 16, 64), power(g.kernel[1] * g.inputs, 16, depth))


def power(n: int, least: int, most: int) -> int:
    return min(max(1 << (n - 1).bit_length(), least), most)
