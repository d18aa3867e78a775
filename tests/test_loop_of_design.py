"""The user's own loop as the design has it, word for word."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from examples import digit_images
from scyc import lr, mask, prune

STEPS = 3


def digit_batches() -> Iterator[tuple[Tensor, Tensor]]:
    images, labels = digit_images().train.images, digit_images().train.labels
    while True:
        rows = torch.randint(0, len(labels), (32,))
        yield images[rows].float() / 240, labels[rows]


@pytest.fixture
def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))


def test_the_loop_of_the_design(net: nn.Module) -> None:
    batches, rates, zeros = digit_batches(), [], []

    def train(net: nn.Module, optimizer: torch.optim.Optimizer, scheduler: lr.ScheduleLR) -> None:
        for _ in range(STEPS):
            x, y = next(batches)
            optimizer.zero_grad()
            cross_entropy(net(x), y).backward()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
            zeros.append([int((p == 0).sum()) for p in net.parameters() if p.dim() == 2])
        for name, kept in masks.items():
            assert not net.get_parameter(name)[~kept].any()
        densities.append(mask.density(masks))

    densities: list[float] = []
    # fmt: off
    masks = mask.ones_like(net)
    schedule = lr.Schedule(peak=lr.SCyc(eps=3e-2, delta=4e-2, q=1, beta=5), shape=lr.Warmup(ramp=20_000, drops=(20_000, 25_000)))  # noqa: E501
    for cycle in range(25):
        if cycle > 0:
            masks = prune.step(net, masks, score="magnitude", scope="global", amount=0.2)   # zeroes what it prunes
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, weight_decay=1e-4)
        scheduler = lr.ScheduleLR(optimizer, schedule, cycle=cycle, amount=0.2)
        mask.attach_(optimizer, net, masks)          # pruned weights stay zero after every optimizer.step()
        train(net, optimizer, scheduler)             # the user's loop, unchanged
    # fmt: on

    weights = 64 * 20 + 20 * 10
    left = [weights]
    for _ in range(24):
        left.append(left[-1] - round(0.2 * left[-1]))
    assert densities == [count / weights for count in left]
    assert densities[:4] == pytest.approx([1.0, 0.8, 0.64, 0.512], abs=1e-3)
    assert densities[24] == pytest.approx(0.8**24, abs=2e-3)
    assert [weights - sum(pruned) for pruned in zeros[::STEPS]] == pytest.approx(left, abs=2)  # few others are 0.0
    torch.testing.assert_close(
        torch.tensor(rates, dtype=torch.float64).view(25, STEPS),
        lr.table(schedule, cycles=25, steps=20_000)[:, :STEPS],
        rtol=1e-12,
        atol=0,
    )
    assert rates[0] == pytest.approx(3e-2 / 20_000)
    assert rates[5 * STEPS] == pytest.approx(0.0644614 / 20_000, rel=1e-5)  # the paper's peak for m = 5
