"""Several cycles with one optimizer are what a fresh optimizer in every cycle gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import scyc
from scyc import lr
from scyc.integrations.one_fit import OneFit
from scyc.method import Method

SCHEDULE = lr.Schedule(peak=lr.SCyc(eps=0.05, delta=0.05, q=0, beta=3), shape=lr.Warmup(ramp=3))
Make = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1.0, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1.0),  # the one whose state is there before the first step
    "groups": lambda p: torch.optim.AdamW([{"params": [q], "lr": 0.5**k} for k, q in enumerate(p)], lr=1.0),
}


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))


def step(own: nn.Module, optimizer: torch.optim.Optimizer, scheduler: lr.ScheduleLR, number: int) -> None:
    draw = torch.Generator().manual_seed(number)
    x, y = torch.randn(16, 8, generator=draw), torch.randint(0, 3, (16,), generator=draw)
    optimizer.zero_grad()
    nn.functional.cross_entropy(own(x), y).backward()
    optimizer.step()
    scheduler.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_optimizer_through_all_cycles(name: str) -> None:
    one, many, steps = net(), net(), iter(range(100))

    def train(cycle: scyc.Cycle) -> None:
        optimizer = OPTIMIZERS[name](cycle.net.parameters())
        scheduler = cycle.attach_(optimizer)
        for _ in range(5):
            step(cycle.net, optimizer, scheduler, next(steps))

    list(scyc.prune_iteratively(many, train=train, schedule=SCHEDULE, cycles=3, rewind="init", amount=0.3))

    fit = OneFit(SCHEDULE, cycles=3, epochs=None, steps=5, method=Method(amount=0.3, rewind="init"))
    optimizer = OPTIMIZERS[name](one.parameters())
    scheduler = fit.follow_(optimizer)
    fit.begin_(one)
    for number in range(15):
        fit.proceed_(0)
        step(one, optimizer, scheduler, number)
    assert fit.finished(0)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), many.parameters(), strict=True))
    assert int((one[0].weight == 0).sum() + (one[2].weight == 0).sum()) == 132 - 64  # 132, 92, 64 are left
