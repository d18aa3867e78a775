"""The vision transformer against torch's own encoder layer, and what of it is pruned."""

import pytest
import torch
from torch import Tensor, nn

from examples import SMALL, each, finished, small, stack_of
from scyc import mask, prune
from scyc.model import MODELS
from scyc.model.vit import Block, Patches
from scyc.run import run_from


def test_has_the_parameters_of_vit_tiny_without_its_class_token() -> None:
    with torch.device("meta"):
        net = MODELS["vit"]((3, 224, 224), 1000, patch=16, depth=12)
    assert sum(p.numel() for p in net.parameters()) == 5_717_416 - 2 * 192  # the token and its place


def test_patches_are_squares_in_reading_order() -> None:
    images = torch.arange(2 * 4 * 4).view(1, 2, 4, 4)
    assert Patches(2)(images)[0].tolist() == [
        [0, 1, 4, 5, 16, 17, 20, 21],
        [2, 3, 6, 7, 18, 19, 22, 23],
        [8, 9, 12, 13, 24, 25, 28, 29],
        [10, 11, 14, 15, 26, 27, 30, 31],
    ]


def theirs(block: Block, channels: int, heads: int) -> nn.TransformerEncoderLayer:
    """torch's layer with this block's weights."""
    layer = nn.TransformerEncoderLayer(
        channels, heads, 4 * channels, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    attend, mlp = block.attention.attend, block.mlp
    projections = (attend.query, attend.key, attend.value)
    state = {
        "self_attn.in_proj_weight": torch.cat([p.weight for p in projections]),
        "self_attn.in_proj_bias": torch.cat([p.bias for p in projections]),
    }
    same = {"self_attn.out_proj": attend.out, "linear1": mlp.fc1, "linear2": mlp.fc2}
    for prefix, module in {**same, "norm1": block.attention.norm, "norm2": mlp.norm}.items():
        state |= {f"{prefix}.{leaf}": p for leaf, p in module.named_parameters()}
    layer.load_state_dict(state)
    return layer


def test_a_block_is_torchs_encoder_layer_that_normalises_first() -> None:
    block = Block(12, 3, 0.0, "gelu").double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(torch.randn_like(parameter))
    tokens = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(block(tokens), theirs(block, 12, 3)(tokens))


def test_attention_and_mlp_are_pruned_embedding_and_classifier_are_not() -> None:
    net = MODELS["vit"]((1, 8, 8), 10, width=0.1, depth=1)
    attention = [f"block1.attention.attend.{name}.weight" for name in ("query", "key", "value", "out")]
    assert mask.prunable(net) == [*attention, "block1.mlp.fc1.weight", "block1.mlp.fc2.weight"]
    assert set(mask.weights(net)) - set(mask.prunable(net)) == {"embed.weight", "fc.weight"}
    masks = prune.step(net, mask.ones_like(net), scope="layer", amount=0.5)
    assert {round(mask.density(masks, [name]), 2) for name in masks} == {0.5}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"patch": 5}, "model field patch = 5 does not divide images of 8x8; give a divisor of both sides"),
        ({"patch": 16}, "model field patch = 16 does not divide images of 8x8"),
        ({"patch": 0}, "model field patch = 0; give at least 1"),
        ({"depth": 0}, "model field depth = 0; give at least 1"),
        ({"heads": -1}, "model field heads = -1; give at least 1"),
    ],
)
def test_sizes_that_cannot_be_are_said(fields: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError) as error:
        MODELS["vit"]((1, 8, 8), 10, **fields)
    assert said in str(error.value)


def test_learns_the_digits_in_a_stack_and_alone_and_while_it_is_pruned() -> None:
    changes = {
        "data": {"name": "digits"},
        "model": {"name": "vit", "width": 0.125, "depth": 2},
        "optimizer": {"name": "adam"},
        "peak": {"name": "fixed", "lr": 5e-3},
        "steps": 40,
        "batch": 64,
        "cycles": 2,
        "precision": "float32",
    }
    stack = stack_of([small(**changes), small(**changes, seed=1)], engine="auto")
    records = finished(stack)
    assert stack.engine.name == "stacked"
    assert min(each(records, lambda record: record["last_test_accuracy"])) > 0.5  # a guess finds a tenth


class Encoder(nn.Module):
    """A user's network around torch's own encoder layer."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(shape[2], 2, 16, dropout=0.0, batch_first=True)
        self.last = nn.Linear(shape[2], classes)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.layer(x[:, 0]).mean(1))  # a row of pixels is a token
        return y


@pytest.mark.parametrize("engine", ["auto", "single"])
def test_a_users_network_of_torchs_encoder_layer_is_pruned_in_its_attention(engine: str) -> None:
    run = run_from({**SMALL, "model": f"{__name__}:Encoder", "pruning": {"amount": 0.5}}, trust=True)
    stack = stack_of([run], engine=engine)
    finished(stack)
    kept = stack.masks["layer.self_attn.in_proj_weight"]
    assert 0 < int(kept.sum()) < kept.numel()
    assert not stack.engine.weights()["layer.self_attn.in_proj_weight"][~kept].any()
