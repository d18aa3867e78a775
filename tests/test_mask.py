"""Masks: pruned weights are +0.0 after every step, whatever the optimizer does; torch's own pruning beside ours."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune as torch_prune

from scyc import mask, prune

Optimizer = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "weight decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, weight_decay=0.1, centered=True),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


def small_net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)
    )


def batches(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(2)
    for _ in range(count):
        yield torch.randn(8, 2, 4, 4, generator=draw), torch.randint(0, 3, (8,), generator=draw)


def half_masks(net: nn.Module) -> mask.Masks:
    """About half of the weights of every layer, some of them large."""
    draw = torch.Generator().manual_seed(3)
    return {name: torch.rand(m.shape, generator=draw) < 0.5 for name, m in mask.ones_like(net).items()}


def bits(net: nn.Module, masks: mask.Masks) -> list[int]:
    """The bit patterns of all pruned weights: 0 is +0.0, and nothing else is."""
    weights = dict(net.named_parameters())
    found = [weights[name].detach().view(torch.int32)[~m] for name, m in masks.items()]
    assert all(len(f) for f in found)
    return torch.cat(found).unique().tolist()


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 4) -> Iterator[None]:
    """A plain loop, which stops to be looked at after every step."""
    for x, y in batches(steps):
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()
        yield


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_pruned_weights_are_positive_zero_after_every_step(name: str) -> None:
    net = small_net()
    masks = half_masks(net)
    before = copy.deepcopy(net.state_dict())
    optimizer = OPTIMIZERS[name](net.parameters())
    mask.attach_(optimizer, net, masks)
    assert bits(net, masks) == [0]  # from the start
    for _ in train(net, optimizer):
        assert bits(net, masks) == [0]
    for key, m in masks.items():
        assert (net.state_dict()[key] != before[key])[m].all(), key  # the others do move


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "foreach"])
def test_other_weights_train_as_under_torchs_own_pruning(name: str) -> None:
    ours, theirs = small_net(), small_net()
    masks = half_masks(ours)
    for key, m in masks.items():
        torch_prune.custom_from_mask(theirs.get_submodule(key.removesuffix(".weight")), "weight", m)
    optimizers = [OPTIMIZERS[name](net.parameters()) for net in (ours, theirs)]
    mask.attach_(optimizers[0], ours, masks)
    for _ in zip(train(ours, optimizers[0]), train(theirs, optimizers[1]), strict=True):
        pass
    theirs(next(batches(1))[0])  # torch computes weight from weight_orig and weight_mask in the forward pass
    for key in masks:
        torch.testing.assert_close(ours.get_parameter(key).data, getattr(*place(theirs, key)).data)


def place(net: nn.Module, name: str) -> tuple[nn.Module, str]:
    prefix, _, leaf = name.rpartition(".")
    return net.get_submodule(prefix), leaf


@pytest.mark.parametrize("scale", [1.0, 2.0**127], ids=["finite", "overflowing"])
def test_mixed_precision_accumulation_and_clipping(scale: float) -> None:
    """torch.amp's pieces together; where the scaled gradients overflow, its scaler leaves out the step and our hook."""
    net = small_net()
    masks = half_masks(net)
    optimizer = OPTIMIZERS["weight decay"](net.parameters())
    mask.attach_(optimizer, net, masks)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1)
    scales = []
    for pair in zip(*[batches(8)] * 2, strict=True):  # two batches, one step
        for x, y in pair:
            with torch.autocast("cpu", torch.bfloat16):
                loss = cross_entropy(net(x), y, reduction="sum") / 2
            scaler.scale(loss.float()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert bits(net, masks) == [0]
        scales.append(scaler.get_scale())
    assert (min(scales) < scale) == (scale > 1)  # the scaler did meet an overflow in one case only


def test_a_step_with_a_closure_ends_at_zero_too() -> None:
    net = small_net()
    masks = half_masks(net)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    mask.attach_(optimizer, net, masks)
    x, y = next(batches(1))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(net(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]  # torch types closures as returning floats
    assert bits(net, masks) == [0]


def test_what_is_pruned_is_set_and_not_multiplied() -> None:
    net = nn.Linear(4, 1)
    masks = {"weight": torch.tensor([[False, False, False, True]])}
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[torch.nan, torch.inf, -1.0, 5.0]]))
    mask.apply_(net, masks)
    assert net.weight.tolist() == [[0.0, 0.0, 0.0, 5.0]]
    assert bits(net, masks) == [0]


def test_nan_that_a_step_writes_into_a_pruned_weight_is_gone_after_it() -> None:
    net = nn.Linear(3, 1)
    masks = {"weight": torch.tensor([[False, True, True]])}
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    mask.attach_(optimizer, net, masks)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.5, 0.25]]))
    net.weight.grad = torch.tensor([[torch.nan, 1.0, 0.0]])
    optimizer.step()
    assert net.weight.tolist() == [[0.0, -0.5, 0.25]]


def test_after_remove_pruned_weights_move_again() -> None:
    net = small_net()
    masks = half_masks(net)
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    handle = mask.attach_(optimizer, net, masks)
    for _ in train(net, optimizer, 1):
        assert bits(net, masks) == [0]
    handle.remove()
    for _ in train(net, optimizer, 1):
        assert bits(net, masks) != [0]


def test_masks_attached_one_after_the_other_all_hold() -> None:
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for pruned in ([True, True, False], [True, False, False]):
        mask.attach_(optimizer, net, {"weight": torch.tensor([pruned])})
    net.weight.grad = torch.ones(1, 3)
    optimizer.step()
    assert net.weight.tolist()[0][1:] == [0.0, 0.0]


# What can be pruned, and how much is left


class Several(nn.Module):
    """Convolutions, linear layers, and weights that are neither."""

    prune_exempt = ("last.weight",)

    def __init__(self) -> None:
        super().__init__()
        self.free = nn.Parameter(torch.ones(5))
        self.embedding = nn.Embedding(3, 2)
        self.conv = nn.Conv1d(2, 3, 2)
        self.up = nn.ConvTranspose2d(2, 3, 2)
        self.norm = nn.BatchNorm1d(3)
        self.inner = nn.Sequential(nn.Linear(2, 4, bias=False))
        self.last = nn.Linear(4, 2)


def test_convolution_and_linear_weights_are_prunable_unless_exempt() -> None:
    net = Several()
    assert mask.weights(net) == ["conv.weight", "up.weight", "inner.0.weight", "last.weight"]
    assert mask.prunable(net) == ["conv.weight", "up.weight", "inner.0.weight"]
    assert list(mask.ones_like(net)) == mask.prunable(net)
    assert mask.prunable(nn.Linear(2, 3)) == ["weight"]


def test_the_projections_of_torchs_attention_are_linear_weights() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    assert mask.prunable(layer) == [
        "self_attn.in_proj_weight",
        "self_attn.out_proj.weight",
        "linear1.weight",
        "linear2.weight",
    ]
    apart = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True)  # biases are not weights
    assert mask.prunable(apart) == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]


def test_pruned_projections_of_torchs_attention_are_zero_after_every_step_and_in_both_of_its_forward_passes() -> None:
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    masks = prune.step(layer, mask.ones_like(layer), scope="layer", amount=0.5)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01, weight_decay=0.1)
    mask.attach_(optimizer, layer, masks)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.randn(4, 5, 8)).square().mean().backward()
        optimizer.step()
        assert not layer.self_attn.in_proj_weight[~masks["self_attn.in_proj_weight"]].any()
    assert int(masks["self_attn.in_proj_weight"].sum()) == 96  # half of 3 * 8 * 8
    x = torch.randn(4, 5, 8)
    slow = layer(x)
    with torch.no_grad():  # torch takes another road here, with its own reading of the weights
        torch.testing.assert_close(layer.eval()(x), slow)


def test_masks_of_named_parameters() -> None:
    masks = mask.ones_like(Several(), ["conv.bias", "last.weight"])
    assert {name: m.tolist() for name, m in masks.items()} == {
        "conv.bias": [True] * 3,
        "last.weight": [[True] * 4] * 2,
    }


def test_what_a_model_exempts_is_exempt_within_another() -> None:
    outer = nn.Sequential(nn.Linear(2, 2), Several())
    assert mask.prunable(outer) == ["0.weight", "1.conv.weight", "1.up.weight", "1.inner.0.weight"]


def test_where_chooses_among_the_prunable() -> None:
    net = Several()
    assert list(mask.ones_like(net, where=lambda name, _: name != "up.weight")) == ["conv.weight", "inner.0.weight"]
    assert list(mask.ones_like(net, where=lambda _, weight: weight.dim() == 2)) == ["inner.0.weight"]
    assert list(mask.ones_like(net, ["last.weight", "up.weight"], where=lambda n, _: "last" in n)) == ["last.weight"]
    with pytest.raises(ValueError, match=r"`where` chooses none of conv\.weight, up\.weight, inner\.0\.weight; let it"):
        mask.ones_like(net, where=lambda name, _: "last" in name)


def test_density_is_the_share_that_remains() -> None:
    masks = {"a": torch.tensor([[True, False], [False, False]]), "b": torch.tensor([True] * 6)}
    assert mask.density(masks) == 7 / 10
    assert mask.density(masks, ["a"]) == 1 / 4
    assert mask.density(masks, ["b"]) == 1.0


def test_errors_name_the_mask_and_the_fix() -> None:
    net = nn.Linear(4, 3)
    with pytest.raises(ValueError, match="'wight' is no parameter of this network; it has weight, bias"):
        mask.ones_like(net, ["wight"])
    with pytest.raises(ValueError, match=r"no masks: .* mask\.ones_like\(net, names\)"):
        mask.density({})
    whole = torch.ones(3, 4, dtype=torch.bool)
    for wrong in ({"wight": whole}, {"weight": whole[:1]}, {"weight": whole.float()}, {"weight": whole.T}):
        before = net.weight.clone()
        for use in (mask.apply_, mask.to_torch_, lambda n, m: mask.attach_(torch.optim.SGD(n.parameters()), n, m)):
            with pytest.raises(ValueError, match=r"mask '[a-z]+' (fits no parameter|is torch)") as error:
                use(net, wrong)
            assert "\n" not in str(error.value)
        assert torch.equal(net.weight, before)


def test_nothing_is_zeroed_where_one_mask_is_wrong() -> None:
    net = nn.Linear(4, 3)
    before = net.weight.clone()
    with pytest.raises(ValueError):
        mask.apply_(net, {"weight": torch.zeros(3, 4, dtype=torch.bool), "nothing": torch.zeros(1, dtype=torch.bool)})
    assert torch.equal(net.weight, before)


# Tied weights


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.a(x).relu())
        return y


def test_a_tied_weight_stands_once_and_stays_zero_in_both_places() -> None:
    net = Tied()
    assert mask.prunable(net) == ["a.weight"]
    masks = prune.step(net, mask.ones_like(net), amount=0.5)
    assert masks["a.weight"].sum() == 8
    optimizer = OPTIMIZERS["adam"](net.parameters())
    mask.attach_(optimizer, net, masks)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        assert bits(net, masks) == [0]
        assert net.b.weight is net.a.weight


def test_a_tied_weight_goes_to_torch_and_back_in_both_places() -> None:
    net = Tied()
    masks = prune.step(net, mask.ones_like(net), amount=0.5)
    mask.to_torch_(net, masks)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.0)
    net(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
    back = mask.from_torch_(net)
    assert torch.equal(back["a.weight"], masks["a.weight"])
    assert bits(net, masks) == [0]
    assert net.b.weight is net.a.weight
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "a.bias", "b.bias"]


def test_a_tied_weight_that_torch_masked_differently_remains_where_both_masks_keep_it() -> None:
    net = Tied()
    kept = torch.arange(16).view(4, 4) % 2 == 0, torch.arange(16).view(4, 4) % 3 == 0
    for layer, m in zip((net.a, net.b), kept, strict=True):
        torch_prune.custom_from_mask(layer, "weight", m)
    masks = mask.from_torch_(net)
    assert list(masks) == ["a.weight"]
    assert torch.equal(masks["a.weight"], torch.arange(16).view(4, 4) % 6 == 0)
    assert bits(net, masks) == [0]


# To and from torch.nn.utils.prune


def names(net: nn.Module) -> list[str]:
    return [name for name, _ in net.named_parameters()]


def test_to_torch_and_back_loses_nothing() -> None:
    net = small_net()
    masks = half_masks(net)
    mask.apply_(net, masks)
    before, order, parameters = copy.deepcopy(net.state_dict()), names(net), list(net.parameters())
    mask.to_torch_(net, masks)
    assert names(net) == [f"{name}_orig" if name in masks else name for name in order]
    assert list(map(id, net.parameters())) == list(map(id, parameters))  # an optimizer built before still holds them
    assert torch_prune.is_pruned(net)
    for key, m in masks.items():
        module, leaf = place(net, key)
        assert torch.equal(getattr(module, f"{leaf}_mask").bool(), m)
        assert torch.equal(getattr(module, leaf), before[key])
    back = mask.from_torch_(net)
    assert not torch_prune.is_pruned(net)
    assert list(back) == list(masks)
    assert all(torch.equal(back[key], masks[key]) for key in masks)
    assert names(net) == order
    assert list(map(id, net.parameters())) == list(map(id, parameters))
    assert net.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_from_torch_and_back_loses_nothing() -> None:
    net = small_net()
    for layer, amount in ((net[0], 0.3), (net[4], 0.6)):
        torch_prune.random_unstructured(layer, "weight", amount)
    torch_prune.l1_unstructured(net[4], "weight", 0.5)  # once more on what is left: a container of two methods
    theirs = {"0.weight": net[0].weight_mask.clone(), "4.weight": net[4].weight_mask.clone()}
    x = next(batches(1))[0]
    expected = net.eval()(x)
    masks = mask.from_torch_(net)
    assert {key: m.float().tolist() for key, m in masks.items()} == {k: m.tolist() for k, m in theirs.items()}
    assert bits(net, masks) == [0]
    assert torch.equal(net(x), expected)
    mask.to_torch_(net, masks)
    assert torch.equal(net(x), expected)
    assert all(torch.equal(place(net, key)[0].weight_mask, m) for key, m in theirs.items())


@pytest.mark.parametrize("name", ["weight decay", "adam"])
def test_an_optimizer_built_before_keeps_working(name: str) -> None:
    """Trained through torch's masks half of the time, as under ours all of the time: the optimizer's state stays."""
    ours, both = small_net(), small_net()
    masks = half_masks(ours)
    optimizers = [OPTIMIZERS[name](net.parameters()) for net in (ours, both)]
    for net, optimizer in zip((ours, both), optimizers, strict=True):
        handle = mask.attach_(optimizer, net, masks)
        for _ in train(net, optimizer, 2):
            pass
        if net is both:
            handle.remove()
            mask.to_torch_(net, masks)
        for _ in train(net, optimizer, 2):
            pass
    assert all(torch.equal(masks[key], back) for key, back in mask.from_torch_(both).items())
    for key, value in ours.state_dict().items():
        torch.testing.assert_close(both.state_dict()[key], value)
    both.load_state_dict(ours.state_dict())


def test_from_torch_leaves_no_negative_zero_and_no_nan() -> None:
    net = nn.Sequential(nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[-1.0, torch.nan, 2.0]]))
    torch_prune.custom_from_mask(net[0], "weight", torch.tensor([[0, 0, 1]]))
    masks = mask.from_torch_(net)
    assert bits(net, masks) == [0]
    assert net[0].weight.tolist() == [[0.0, 0.0, 2.0]]


def test_a_network_that_torch_did_not_prune_has_no_masks() -> None:
    net = small_net()
    net.register_buffer("own_mask", torch.ones(2))  # a buffer that only looks like one of torch's
    before = copy.deepcopy(net.state_dict())
    assert mask.from_torch_(net) == {}
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_masks_of_biases_go_to_torch_and_back_too() -> None:
    net = nn.Linear(3, 4)
    masks = {"bias": torch.tensor([True, False, True, False]), "weight": torch.ones(4, 3, dtype=torch.bool)}
    mask.to_torch_(net, masks)
    assert names(net) == ["weight_orig", "bias_orig"]
    back = mask.from_torch_(net)
    assert {key: m.tolist() for key, m in back.items()} == {key: m.tolist() for key, m in masks.items()}
    assert names(net) == ["weight", "bias"]
    assert net.bias.tolist()[1::2] == [0.0, 0.0]


# Magnitude selection against torch's


def distinct(net: nn.Module) -> None:
    """Magnitudes without ties, of either sign, exact in float32."""
    parameters = [p for p in net.parameters() if p.dim() > 1]
    order = torch.randperm(sum(p.numel() for p in parameters)) + 1
    signs = torch.randint(0, 2, order.shape) * 2 - 1
    for p, values in zip(parameters, (order * signs).split([p.numel() for p in parameters]), strict=True):
        p.data.copy_(values.view_as(p) / 1024)


@pytest.mark.parametrize("amount", [0.2, 0.37, 0.5])
@pytest.mark.parametrize("scope", ["global", "layer"])
def test_magnitude_prunes_what_torch_prunes(scope: str, amount: float) -> None:
    ours = small_net()
    distinct(ours)
    theirs = copy.deepcopy(ours)
    layers = [module for module in theirs if isinstance(module, nn.Conv2d | nn.Linear)]
    masks = mask.ones_like(ours)
    for _ in range(4):  # again and again, each time of what is left
        masks = prune.step(ours, masks, score="magnitude", scope=scope, amount=amount)
        if scope == "global":
            torch_prune.global_unstructured(
                [(layer, "weight") for layer in layers], torch_prune.L1Unstructured, amount=amount
            )
        for layer in layers if scope == "layer" else ():
            torch_prune.l1_unstructured(layer, "weight", amount)
        assert [m.float().tolist() for m in masks.values()] == [layer.weight_mask.tolist() for layer in layers]
