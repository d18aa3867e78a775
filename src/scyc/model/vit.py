"""A vision transformer: patches, blocks of attention and MLP that normalise first, the mean of the tokens, a head."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from scyc.model.activation import activate
from scyc.model.facts import declare_
from scyc.model.fields import check, check_dropout, scaled
from scyc.model.initial import he_

HEAD = 64  # channels of one attention head
MLP_RATIO = 4


class Patches(nn.Module):
    """Cuts images into squares of `size` pixels, each a row of values."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(
        self,
        x: Tensor,  # (batch, channels, height, width)
    ) -> Tensor:  # (batch, patches, channels * size * size)
        (batch, channels, height, width), side = x.shape, self.size
        squares = x.reshape(batch, channels, height // side, side, width // side, side)
        return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def extra_repr(self) -> str:
        return str(self.size)


class Position(nn.Module):
    """Adds what it learned of every place."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(0.02 * torch.randn(tokens, channels))

    def forward(
        self,
        x: Tensor,  # (batch, tokens, channels)
    ) -> Tensor:
        return x + self.embedding


class Attention(nn.Module):
    """Every token takes from all tokens, by the softmax of its query with their keys; in several heads at once."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(
        self,
        x: Tensor,  # (batch, tokens, channels)
    ) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        shares = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)  # (batch, heads, tokens, tokens)
        y: Tensor = self.out((shares @ v).transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, channels: int, heads: int, dropout: float, activation: str) -> None:
        super().__init__()
        inner = MLP_RATIO * channels
        mlp = OrderedDict[str, nn.Module](fc1=nn.Linear(channels, inner), act=activate(activation))
        mlp["fc2"] = nn.Linear(inner, channels)
        attention = OrderedDict[str, nn.Module](norm=nn.LayerNorm(channels), attend=Attention(channels, heads))
        if dropout:
            attention["dropout"] = nn.Dropout(dropout)
            mlp["dropout"] = nn.Dropout(dropout)
        self.attention = nn.Sequential(attention)
        self.mlp = nn.Sequential(OrderedDict[str, nn.Module](norm=nn.LayerNorm(channels), **mlp))

    def forward(
        self,
        x: Tensor,  # (batch, tokens, channels)
    ) -> Tensor:
        x = x + self.attention(x)
        y: Tensor = x + self.mlp(x)
        return y


class Mean(nn.Module):
    """The mean of all tokens."""

    def forward(
        self,
        x: Tensor,  # (batch, tokens, channels)
    ) -> Tensor:  # (batch, channels)
        return x.mean(1)


def vit(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: float = 1.0,
    patch: int = 4,
    depth: int = 6,
    heads: int = 3,
    dropout: float = 0.0,
    activation: str = "gelu",
) -> nn.Module:
    """A small vision transformer; heads of 64 channels, mean pooling; embedding and classifier are never pruned."""
    check("vit", shape, classes)
    check_dropout(dropout)
    _check(shape, patch, depth, heads)
    channels = heads * scaled((HEAD,), width)[0]
    tokens = (shape[1] // patch) * (shape[2] // patch)
    layers = OrderedDict[str, nn.Module](patches=Patches(patch), embed=nn.Linear(shape[0] * patch**2, channels))
    layers["position"] = Position(tokens, channels)
    layers |= {f"block{i}": Block(channels, heads, dropout, activation) for i in range(1, depth + 1)}
    layers |= {"norm": nn.LayerNorm(channels), "mean": Mean(), "fc": nn.Linear(channels, classes)}
    return declare_(_initial_(nn.Sequential(layers)), exempt=("embed.weight", "fc.weight"))


def _check(shape: tuple[int, int, int], patch: int, depth: int, heads: int) -> None:
    for name, value in (("patch", patch), ("depth", depth), ("heads", heads)):
        if value < 1:
            raise ValueError(f"model field {name} = {value}; give at least 1")
    if shape[1] % patch or shape[2] % patch:
        size = f"{shape[1]}x{shape[2]}"
        raise ValueError(f"model field patch = {patch} does not divide images of {size}; give a divisor of both sides")


def _initial_(net: nn.Module) -> nn.Module:
    """He's where an activation follows; Xavier's in the attention, as torch's own has it: none follows there."""
    he_(net)
    for attention in (module for module in net.modules() if isinstance(module, Attention)):
        for layer in attention.children():
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
    return net
