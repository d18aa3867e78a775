"""What a network costs, counted by hand and by torch's and safetensors' own hands."""

import pytest
import safetensors.torch
import torch
from torch import nn

from scyc import cost


def test_counts_by_hand() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.Flatten(), nn.Linear(8, 3))
    (found,) = cost.costs([net.eval()], torch.randn(5, 1, 4, 4))
    assert found.parameters == 2 * 9 + 8 * 3 + 3
    assert found.flops == 2 * (2 * 9 * 4 + 8 * 3)  # four places of a 3x3 filter; a bias is free
    assert found.bytes == len(safetensors.torch.save(net.state_dict(), {"format": "pt"}))
    assert set(found.milliseconds) == {1, 64}
    assert all(time > 0 for time in found.milliseconds.values())


def test_a_network_of_twice_the_work_takes_longer_and_both_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Noted(nn.Module):
        def __init__(self, name: str, seconds: float) -> None:
            super().__init__()
            self.name, self.seconds = name, seconds

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            order.append(self.name)
            clock[0] += self.seconds
            return x

    clock = [0.0]
    monkeypatch.setattr(cost.time, "perf_counter", lambda: clock[0])
    times = cost.milliseconds([Noted("a", 0.010), Noted("b", 0.030)], torch.zeros(1))
    assert times == pytest.approx([10.0, 30.0])
    assert order == ["a", "b"] * (len(order) // 2)
    assert len(order) // 2 == cost.WARM + 50  # two seconds of 40 ms


def test_images_are_repeated_up_to_a_batch() -> None:
    assert cost.repeated(torch.tensor([1, 2, 3]), 5).tolist() == [1, 2, 3, 1, 2]


def test_times_are_short_words() -> None:
    assert [cost.in_words(value) for value in (0.02183, 1.5, 99.4, 100.2, 1234.5)] == [
        "0.0218",
        "1.5",
        "99.4",
        "100",
        "1,234",
    ]
