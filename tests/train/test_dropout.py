"""Dropout by key: its share, its scale, and that nothing but the key decides."""

import math

import pytest
import torch
from torch import Tensor, nn

from scyc.draw import key, mixed
from scyc.train.dropout import KeyedDropout, keyed_


def dropped(p: float, count: int, number: int = 0, place: int = 0) -> Tensor:
    module = KeyedDropout(p, place << 32)
    module.drop_key = mixed(torch.tensor(key("dropout", number)))
    y: Tensor = module.train()(torch.ones(count))
    return y


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_p_becomes_zero_and_the_rest_is_scaled_up(p: float) -> None:
    y = dropped(p, 40_000)
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / (1 - p)).item()}
    assert abs(float((y == 0).double().mean()) - p) < 5 * math.sqrt(p * (1 - p) / 40_000)


def test_the_key_and_the_place_decide_and_nothing_else() -> None:
    first = dropped(0.5, 200, 1)
    torch.manual_seed(9)
    assert torch.equal(dropped(0.5, 200, 1), first)
    for other in (dropped(0.5, 200, 2), dropped(0.5, 200, 1, place=1)):
        assert 60 < int((other != first).sum()) < 140  # half of 200, within six deviations


def test_no_dropout_in_evaluation_and_with_share_zero() -> None:
    x = torch.randn(50)
    assert torch.equal(KeyedDropout(0.5, 0).eval()(x), x)
    assert torch.equal(KeyedDropout(0.0, 0).train()(x), x)


def test_gradients_flow_through_what_is_kept() -> None:
    x = torch.ones(100, requires_grad=True)
    module = KeyedDropout(0.5, 0)
    y = module.train()(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())  # 2 where kept, 0 where not


def test_every_dropout_of_a_network_is_replaced_and_nothing_else() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.Sequential(nn.ReLU(), nn.Dropout(0.6)), nn.Dropout2d(0.1))
    names = keyed_(net)
    assert names == ["1.drop_key", "2.1.drop_key"]
    places = [net.get_submodule(name.removesuffix(".drop_key")) for name in names]
    assert [(type(m), m.p) for m in places] == [(KeyedDropout, 0.3), (KeyedDropout, 0.6)]
    assert len({m.place for m in places}) == 2  # two dropouts of a network draw apart
    assert list(net.state_dict()) == ["0.weight", "0.bias"]  # keys are no part of what is saved
    assert isinstance(net[3], nn.Dropout2d)


def test_runs_of_a_stack_draw_as_each_alone() -> None:
    module = KeyedDropout(0.5, 7 << 32).train()
    keys = mixed(torch.tensor([key("dropout", seed) for seed in range(3)]))
    x = torch.randn(3, 10, 4)

    def one(drop_key: Tensor, x: Tensor) -> Tensor:
        y: Tensor = torch.func.functional_call(module, {"drop_key": drop_key}, (x,))
        return y

    together = torch.func.vmap(one)(keys, x)
    assert all(torch.equal(together[k], one(keys[k], x[k])) for k in range(3))
    assert not torch.equal(together[0] == 0, together[1] == 0)
