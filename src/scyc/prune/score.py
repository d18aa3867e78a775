"""Scores: (weights, gradients, generator) -> scores of the same shapes; the smallest are pruned first."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from scyc.registry import Kind

Tensors = Mapping[str, Tensor]
Score = Callable[[Tensors, Tensors, torch.Generator], dict[str, Tensor]]


def magnitude(weights: Tensors, grads: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
    """|w|"""
    return {name: weight.abs() for name, weight in weights.items()}


def gradient(weights: Tensors, grads: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
    """|w g|, with g the gradient of the mean loss over score_batches batches"""
    return {name: (weight * grads[name]).abs() for name, weight in weights.items()}


def random(weights: Tensors, grads: Tensors, generator: torch.Generator) -> dict[str, Tensor]:
    """uniform draws, as a control"""
    return {name: torch.rand(w.shape, generator=generator).to(w.device) for name, w in weights.items()}


SCORES: dict[str, Score] = {"magnitude": magnitude, "gradient": gradient, "random": random}
SCORE = Kind("score", SCORES, arguments=3)
