"""Convolutions of a stack against torch's own in float64, run by run."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d

pytestmark = pytest.mark.slow
conv = pytest.importorskip("scyc.kernel.conv")
from scyc.kernel.tiles import MEASURED, Geometry, Tiles  # noqa: E402

GEOMETRIES = [  # side, inputs, outputs, kernel, stride, pad
    (8, 3, 16, 3, 1, 1),
    (8, 16, 16, 3, 1, 1),
    (8, 16, 32, 3, 2, 1),
    (8, 16, 32, 1, 2, 0),
    (6, 24, 8, 3, 1, 1),
    (9, 5, 20, 3, 2, 1),
    (8, 4, 8, 5, 1, 2),
    (12, 3, 8, 7, 2, 3),
    (7, 4, 8, 3, 3, 0),
]
TILES = [None, Tiles(1, 32, 32, 32), Tiles(2, 32, 32, 32), Tiles(4, 32, 32, 32)]


def close(found: Tensor, wanted: Tensor) -> bool:
    return float((found - wanted).norm() / wanted.norm()) < 1e-6


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("sizes", GEOMETRIES)
def test_all_three_products_are_torchs(sizes: tuple[int, ...], tiles: Tiles | None) -> None:
    side, inputs, outputs, kernel, stride, pad = sizes
    geometry = Geometry(side, side, inputs, outputs, (kernel, kernel), stride, pad)
    x = torch.randn(2, 3, side, side, inputs)
    flat = torch.randn(2, outputs * inputs * kernel**2 + 5)  # runs lie apart, as in a stack's weights
    weight = flat[:, :-5].view(2, outputs, inputs, kernel, kernel)
    wanted = []
    for k in range(2):
        a, w = x[k].permute(0, 3, 1, 2).double().requires_grad_(), weight[k].double().requires_grad_()
        y = conv2d(a, w, stride=stride, padding=pad)
        dy = torch.randn_like(y)
        wanted.append((y.detach(), dy, *torch.autograd.grad((y * dy).sum(), [a, w])))
    y, dy, dx, dw = (torch.stack(side) for side in zip(*wanted, strict=True))
    grad, added = dy.permute(0, 1, 3, 4, 2).float().contiguous(), torch.randn(2, 3, side, side, inputs)
    wide = tiles and Tiles(tiles.fold * stride, tiles.rows, tiles.columns, tiles.depth)  # a multiple of the stride
    assert close(conv.forward(x, weight, geometry, "float32", tiles).permute(0, 1, 4, 2, 3), y)
    found = conv.input_gradient(grad, weight, geometry, "float32", added, wide) - added
    assert float((found.permute(0, 1, 4, 2, 3) - dx).norm() / dx.norm()) < 1e-5
    assert close(conv.weight_gradient(x, grad, geometry, "float32", tiles), dw)


@pytest.mark.parametrize(("what", "how", "inputs", "outputs", "stride"), MEASURED)
def test_tiles_that_were_measured_fit(what: str, how: str, inputs: int, outputs: int, stride: int) -> None:
    geometry = Geometry(8, 8, inputs, outputs, (3, 3), stride, 1)
    x, dy = torch.randn(1, 1, 8, 8, inputs), torch.randn(1, 1, *geometry.out, outputs)
    weight = torch.randn(1, outputs, inputs, 3, 3)
    calls = {
        "forward": lambda: conv.forward(x, weight, geometry, how),
        "input": lambda: conv.input_gradient(dy, weight, geometry, how),
        "weight": lambda: conv.weight_gradient(x, dy, geometry, how),
    }
    assert calls[what]().isfinite().all()
