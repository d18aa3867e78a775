"""Batch normalisation, shortcut and ReLU in one pass against torch's batch_norm in float64."""

import pytest
import torch
from torch.nn.functional import batch_norm, relu

pytestmark = pytest.mark.slow
norm = pytest.importorskip("scyc.kernel.norm")


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm, "TILE", 256)  # so that several parts are joined
    monkeypatch.setattr(norm, "PARTS", 4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("channels", "rows", "added", "rectified"),
    [
        (16, 100, False, True),
        (16, 1000, True, True),
        (24, 130, False, False),
        (80, 64, True, True),
        (10, 7, False, True),
    ],
)
def test_it_is_torchs(channels: int, rows: int, added: bool, rectified: bool, training: bool) -> None:
    runs = 3
    x, dy = torch.randn(runs, rows, channels) * 2 + 5, torch.randn(runs, rows, channels)
    shortcut = torch.randn(runs, rows, channels) if added else None
    gamma, beta = torch.randn(runs, 3 * channels)[:, : 2 * channels].split(channels, 1)  # rows of a larger tensor
    mean, var = torch.rand(runs, 2 * channels + 3)[:, : 2 * channels].split(channels, 1)
    wanted_mean, wanted_var = mean.double(), var.double()
    if training:
        middle, scale = norm.statistics(x, mean, var, 1e-5, 0.1)
    else:
        middle, scale = mean.contiguous(), torch.rsqrt(var + 1e-5)
    y = norm.forward(x, middle, scale, gamma, beta, shortcut, rectified)
    found = norm.backward(dy, x, y, middle, scale, gamma, beta, added, rectified, training)
    for k in range(runs):
        a, g, b = (t[k].double().requires_grad_() for t in (x, gamma, beta))
        s = (torch.zeros(rows, channels) if shortcut is None else shortcut[k]).double().requires_grad_()
        z = batch_norm(a, wanted_mean[k], wanted_var[k], g, b, training, 0.1, 1e-5) + s
        z = relu(z) if rectified else z
        dx, ds, dg, db = torch.autograd.grad((z * dy[k].double()).sum(), [a, s, g, b])
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(y[k].double(), z.detach(), **close)
        torch.testing.assert_close(mean[k].double(), wanted_mean[k], **close)
        torch.testing.assert_close(var[k].double(), wanted_var[k], **close)
        for got, want in zip(found, (dx, ds, dg, db), strict=True):
            if got is not None and (training or want is not dg):
                torch.testing.assert_close(got[k].double(), want, **close)
