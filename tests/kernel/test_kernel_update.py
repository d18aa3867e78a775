"""The fused step against the stack's own optimizers in float64, which are tested against torch's."""

from typing import Any

import pytest
import torch

from scyc.train.update import OPTIMIZERS

pytestmark = pytest.mark.slow
update = pytest.importorskip("scyc.kernel.update")
FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "weight_decay": 1e-4}),
    ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("adam", {"weight_decay": 1e-4}),
    ("rmsprop", {}),
    ("rmsprop", {"momentum": 0.5, "weight_decay": 1e-4}),
]


@pytest.mark.parametrize(("name", "fields"), FIELDS)
def test_steps_are_the_stacks(name: str, fields: dict[str, Any]) -> None:
    runs, size = 3, 5070
    weights, kept = torch.randn(runs, size), torch.rand(runs, size) > 0.5
    weights *= kept
    wanted, state = weights.double(), {}
    slots, flats = update.fresh_slots(name, fields, weights), [weights.clone(), torch.empty_like(weights)]
    rates, count = torch.tensor([0.1, 0.01, 0.001]), torch.zeros((), dtype=torch.int64)
    for step in range(4):
        grads, bad = torch.randn(runs, size), torch.zeros(runs, dtype=torch.int32)
        alive = torch.tensor([True, True, step < 2])
        pieces = [grads[:, :5000].reshape(runs, 50, 100), grads[:, 5000:]]
        old, new = flats[step % 2], flats[1 - step % 2]
        update.advance_(name, fields, old, new, pieces, kept, slots, rates, alive, bad, count)
        count += 1
        change = OPTIMIZERS[name](wanted, grads.double(), state, rates.double()[:, None], **fields)
        wanted = torch.where(kept & alive[:, None], wanted - change, wanted)
        assert not bad.any()
    torch.testing.assert_close(flats[0].double(), wanted, rtol=1e-5, atol=1e-6)
    assert (flats[0][~kept] == 0).all()


def test_a_run_that_is_finite_no_more_is_noticed_and_taken_back() -> None:
    old, new = torch.randn(2, 9000), torch.empty(2, 9000)
    grads, bad = torch.zeros(2, 9000), torch.zeros(2, dtype=torch.int32)
    grads[1, 8999] = torch.inf
    before, kept = torch.tensor([True, True]), torch.ones(2, 9000, dtype=torch.bool)
    update.advance_(
        "sgd", {}, old, new, [grads], kept, {}, torch.ones(2), before, bad, torch.zeros((), dtype=torch.int64)
    )
    assert bad.tolist() == [0, 1]
    update.take_back_(old, new, before, before & (bad == 0))
    assert torch.equal(old, new)
