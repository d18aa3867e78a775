"""Scores, and the gradients they are made of."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scyc import draw, prune
from scyc.model import MODELS
from scyc.prune import SCORES

WEIGHTS = {"a": torch.tensor([[-2.0, 0.5], [0.0, 3.0]]), "b": torch.tensor([-1.0, 4.0])}
GRADS = {"a": torch.tensor([[3.0, -2.0], [7.0, 0.0]]), "b": torch.tensor([-0.25, -0.5])}


def values(score: str, purpose: str = "score", *numbers: int) -> dict[str, list[float]]:
    return {name: s.tolist() for name, s in SCORES[score](WEIGHTS, GRADS, draw.generator(purpose, *numbers)).items()}


def test_magnitude() -> None:
    assert values("magnitude") == {"a": [[2.0, 0.5], [0.0, 3.0]], "b": [1.0, 4.0]}


def test_gradient() -> None:
    assert values("gradient") == {"a": [[6.0, 1.0], [0.0, 0.0]], "b": [0.25, 2.0]}


def test_random_depends_on_its_key_and_on_nothing_else() -> None:
    first = values("random", "score", 3, 1)
    torch.manual_seed(99)
    assert values("random", "score", 3, 1) == first
    assert values("random", "score", 4, 1) != first
    assert values("random", "score", 3, 2) != first
    assert first["a"][0] != first["b"]  # layers go on in the stream instead of starting it anew


def softmax_gradient(weight: np.ndarray, bias: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the mean cross entropy of a linear layer, by hand: (softmax - onehot)ᵀ x / n."""
    logits = x @ weight.T + bias
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    share[np.arange(len(y)), y] -= 1
    gradient: np.ndarray = share.T @ x / len(y)
    return gradient


def test_gradients_are_those_of_the_mean_loss_over_all_rows() -> None:
    net = nn.Linear(5, 3).double()
    x, y = torch.randn(17, 5, dtype=torch.float64), torch.randint(0, 3, (17,))
    batches = list(zip(x.split([8, 8, 1]), y.split([8, 8, 1]), strict=True))  # the last one counts less
    expected = softmax_gradient(*(t.detach().numpy() for t in (net.weight, net.bias)), x.numpy(), y.numpy())
    np.testing.assert_allclose(prune.gradients(net, batches, cross_entropy)["weight"], expected, atol=1e-14)


def moments(net: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in net.named_buffers()}


@pytest.fixture
def net() -> nn.Module:
    """A network with BatchNorm and dropout, some of it in evaluation mode, with gradients of its own."""
    made = MODELS["resnet20"]((3, 8, 8), 4, width=0.25, dropout=0.5)
    made(torch.randn(6, 3, 8, 8)).sum().backward()
    made.get_submodule("stage1").eval()
    return made


def test_gradients_touch_nothing(net: nn.Module) -> None:
    buffers, modes = moments(net), {m: m.training for m in net.modules()}
    grads = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    weights = {name: p.detach().clone() for name, p in net.named_parameters()}
    assert len(grads) == len(weights)
    found = prune.gradients(net, [(torch.randn(6, 3, 8, 8), torch.arange(6) % 4)] * 2, cross_entropy)
    assert found.keys() == weights.keys()
    assert all(torch.equal(moments(net)[name], buffer) for name, buffer in buffers.items())
    assert {m: m.training for m in net.modules()} == modes
    assert {True, False} == set(modes.values())
    for name, p in net.named_parameters():
        assert torch.equal(p, weights[name])
        assert p.grad is not None
        assert torch.equal(p.grad, grads[name])


def test_gradients_are_taken_in_evaluation_mode(net: nn.Module) -> None:
    x, y = torch.randn(6, 3, 8, 8), torch.arange(6) % 4
    found = prune.gradients(net, [(x, y)], cross_entropy)
    net.eval().zero_grad()
    cross_entropy(net(x), y).backward()
    for name, p in net.named_parameters():
        assert p.grad is not None
        torch.testing.assert_close(found[name], p.grad)


def test_modes_are_restored_where_the_network_fails(net: nn.Module) -> None:
    modes = {m: m.training for m in net.modules()}
    with pytest.raises(RuntimeError):
        prune.gradients(net, [(torch.randn(6, 5, 8, 8), torch.arange(6) % 4)], cross_entropy)
    assert {m: m.training for m in net.modules()} == modes


def test_no_batches_is_an_error() -> None:
    with pytest.raises(ValueError, match="no batches"):
        prune.gradients(nn.Linear(2, 2), [], cross_entropy)


def test_weights_that_a_loss_does_not_reach_have_gradient_zero_and_frozen_ones_none() -> None:
    net = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2), "frozen": nn.Linear(2, 2)})
    net["frozen"].requires_grad_(False)
    net.forward = lambda x: net["frozen"](net["used"](x))  # type: ignore[method-assign]
    found = prune.gradients(net, [(torch.randn(3, 2), torch.tensor([0, 1, 0]))], cross_entropy)
    assert list(found) == ["used.weight", "used.bias", "idle.weight", "idle.bias"]
    assert found["used.weight"].any()
    assert not found["idle.weight"].any()


def test_pruning_by_gradient_goes_where_weight_times_gradient_is_small() -> None:
    net = nn.Linear(30, 3).double()
    x, y = torch.randn(40, 30, dtype=torch.float64), torch.randint(0, 3, (40,))
    expected = softmax_gradient(*(t.detach().numpy() for t in (net.weight, net.bias)), x.numpy(), y.numpy())
    order = np.abs(expected * net.weight.detach().numpy()).ravel().argsort()
    masks = prune.step(
        net,
        {"weight": torch.ones(3, 30, dtype=torch.bool)},
        score="gradient",
        amount=0.3,
        grads=prune.gradients(net, [(x, y)], cross_entropy),
    )
    assert sorted((~masks["weight"]).flatten().nonzero()[:, 0].tolist()) == sorted(order[:27].tolist())
