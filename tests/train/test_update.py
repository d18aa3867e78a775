"""Optimizer updates of a whole stack against torch's own optimizers, row by row."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from scyc.train import OPTIMIZERS
from scyc.train.update import sgd

Optimizer = Callable[[Any], torch.optim.Optimizer]
CASES: list[tuple[str, dict[str, Any], Optimizer]] = [
    ("sgd", {}, lambda p: torch.optim.SGD(p)),
    ("sgd", {"weight_decay": 0.1}, lambda p: torch.optim.SGD(p, weight_decay=0.1)),
    ("sgd", {"momentum": 0.9}, lambda p: torch.optim.SGD(p, momentum=0.9)),
    (
        "sgd",
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
        lambda p: torch.optim.SGD(p, momentum=0.8, nesterov=True, weight_decay=0.1),
    ),
    ("adam", {}, lambda p: torch.optim.Adam(p)),
    (
        "adam",
        {"beta1": 0.7, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1},
        lambda p: torch.optim.Adam(p, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.1),
    ),
    ("rmsprop", {}, lambda p: torch.optim.RMSprop(p)),
    (
        "rmsprop",
        {"alpha": 0.8, "eps": 1e-3, "momentum": 0.9, "weight_decay": 0.1},
        lambda p: torch.optim.RMSprop(p, alpha=0.8, eps=1e-3, momentum=0.9, weight_decay=0.1),
    ),
]
RUNS, SIZE, STEPS = 3, 5, 12


@pytest.mark.parametrize(("name", "fields", "theirs"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_row_moves_as_under_torchs_optimizer(
    name: str, fields: dict[str, Any], theirs: Optimizer, dtype: torch.dtype
) -> None:
    start = torch.randn(RUNS, SIZE, dtype=dtype)
    params, state = start.clone(), {}
    rows = [torch.nn.Parameter(row.clone()) for row in start]
    optimizers = [theirs([row]) for row in rows]
    for _ in range(STEPS):
        grads, lrs = torch.randn(RUNS, SIZE, dtype=dtype), torch.rand(RUNS, dtype=dtype)  # other rates every step
        params = params - OPTIMIZERS[name](params, grads.clone(), state, lrs[:, None], **fields)
        for k, (row, optimizer) in enumerate(zip(rows, optimizers, strict=True)):
            row.grad = grads[k].clone()
            optimizer.param_groups[0]["lr"] = float(lrs[k])
            optimizer.step()
    tolerance = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 1e-4}
    torch.testing.assert_close(params, torch.stack([row.data for row in rows]), **tolerance)
    assert (params - start).abs().min() > 1e-3


def test_defaults_are_torchs() -> None:
    assert {name: update.__kwdefaults__ for name, update in OPTIMIZERS.items()} == {
        "sgd": {"momentum": 0.0, "weight_decay": 0.0, "nesterov": False},
        "adam": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0},
        "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "weight_decay": 0.0},
    }


def test_nesterov_without_momentum_is_refused_as_torch_does() -> None:
    one = torch.ones(1, 1)
    with pytest.raises(ValueError, match="nesterov = true needs a momentum above 0"):
        sgd(one, one, {}, one, nesterov=True)
