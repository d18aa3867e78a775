"""Networks whose layers were replaced, in a stack, against the networks themselves one by one in float64."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from examples import colour
from scyc.data.augment import draws
from scyc.data.feed import Feed
from scyc.draw import key
from scyc.model import MODELS

pytestmark = pytest.mark.slow
layers = pytest.importorskip("scyc.kernel.layers")
from scyc.kernel import images  # noqa: E402

NETWORKS = [
    ("resnet20", {"width": 0.25}, (3, 8, 8), 64),
    ("resnet20", {"width": 0.25}, (3, 8, 8), 0),  # no convolution is narrow: cuDNN's road, here torch's own
    ("mlp", {"bn": True, "widths": [16, 8]}, (1, 8, 8), 64),
    ("vgg16", {"width": 1 / 16}, (3, 32, 32), 16),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "fields", "shape", "narrow"), NETWORKS)
def test_a_stack_of_replaced_layers_is_the_networks(
    name: str,
    fields: dict[str, Any],
    shape: tuple[int, int, int],
    narrow: int,
    training: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layers, "NARROW", narrow)
    nets = [MODELS[name](shape, 3, **fields).double().train(training) for _ in range(2)]
    fast = layers.replace_(copy.deepcopy(nets[0]).float(), "float32").train(training)
    params, buffers = ([dict(f(net)) for net in nets] for f in (named_parameters, named_buffers))
    assert dict(fast.named_parameters()).keys() == params[0].keys()
    assert dict(fast.named_buffers()).keys() == buffers[0].keys()
    stacked = {n: torch.stack([p[n] for p in params]).detach().float().requires_grad_() for n in params[0]}
    state = {n: torch.stack([b[n] for b in buffers]) for n in buffers[0]}
    state = {n: b.float() if b.is_floating_point() else b for n, b in state.items()}
    x, y = torch.randn(2, 6, *shape), torch.randint(0, 3, (2, 6))
    logits = vmap(lambda p, b, rows: functional_call(fast, {**p, **b}, (rows,)))(stacked, state, x)
    losses = torch.stack([cross_entropy(logits[k], y[k]) for k in range(2)])
    grads = torch.autograd.grad(losses.sum(), list(stacked.values()))
    for k, net in enumerate(nets):
        loss = cross_entropy(net(x[k].double()), y[k])
        wanted = torch.autograd.grad(loss, list(net.parameters()))
        assert float(losses[k].detach()) == pytest.approx(float(loss.detach()), rel=1e-4)
        assert apart([grad[k] for grad in grads], wanted) < 1e-3
        for n, buffer in net.named_buffers():
            torch.testing.assert_close(state[n][k].double(), buffer.double(), rtol=1e-4, atol=1e-5)


def named_parameters(net: torch.nn.Module) -> Any:
    return net.named_parameters()


def named_buffers(net: torch.nn.Module) -> Any:
    return net.named_buffers()


def apart(found: list[Tensor], wanted: tuple[Tensor, ...]) -> float:
    one, other = (torch.cat([t.flatten().double() for t in side]) for side in (found, wanted))
    return float((one - other).norm() / other.norm())


def test_batches_are_the_feeds_bit_for_bit() -> None:
    feed = Feed(colour(side=16), [0, 3, 0], batch=8, augment=True)
    x, _ = feed.train(1, 2)
    keys = torch.tensor([key("augment", seed, 1) for seed in feed.distinct])
    index, drawn = feed.order("order", 1, 0)[:, 16:24], draws(keys, 2, 8, 2)
    found = images.batch(feed.images, index, drawn, feed.row, feed.mean.flatten(1), feed.std.flatten(1), torch.float32)
    assert torch.equal(found, x)
