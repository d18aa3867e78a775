"""Pruning: which weights go (score x scope x unit, exact counts), and what the rest returns to (rewind)."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from scyc.draw import generator
from scyc.mask import Masks, Where, apply_, coupled, held, ones_like, prunable
from scyc.prune.group import SCOPE, SCOPES, UNIT, UNITS
from scyc.prune.removed import TAKEN, number, removed
from scyc.prune.rewind import REWIND, REWINDS, Rewind
from scyc.prune.score import SCORE, SCORES
from scyc.prune.select import pruned

__all__ = ["REWIND", "REWINDS", "SCOPE", "SCOPES", "SCORE", "SCORES", "TAKEN", "UNIT", "UNITS", "Rewind"]
__all__ += ["gradients", "guarded_step", "number", "pruned", "removed", "starting", "step"]

Loss = Callable[[Tensor, Tensor], Tensor]


def starting(net: nn.Module, unit: str = "weight", *, where: Where | None = None) -> Masks:
    """Masks that keep everything; with unit `filter`, the vectors that go with a filter have masks of their own."""
    masks = ones_like(net, where=where)
    require_units({name: net.get_parameter(name) for name in masks}, unit)
    return masks | vectors(net, masks) if unit == "filter" else masks


def vectors(net: nn.Module, names: Iterable[str]) -> Masks:
    """Masks that keep everything, for what goes with the filters of these layers."""
    couplings = coupled(net)
    return ones_like(net, [vector for name in names for vector in couplings.get(name, ())])


def require_units(weights: Mapping[str, Tensor], unit: str) -> None:
    entry = UNIT.find(unit)
    if not any(entry(weight.detach()[None]).shape[1] for weight in weights.values()):
        raise ValueError(f"unit {unit!r} finds nothing to prune in {', '.join(weights)}; use unit 'weight'")


def step(
    net: nn.Module,
    masks: Mapping[str, Tensor],
    *,
    score: str = "magnitude",
    scope: str = "global",
    unit: str = "weight",
    amount: float = 0.2,
    grads: Mapping[str, Tensor] | None = None,
    rng: torch.Generator | None = None,
) -> Masks:
    """The masks after one more pruning of this network; the weights that go are set to zero in it."""
    return guarded_step(net, masks, score=score, scope=scope, unit=unit, amount=amount, grads=grads, rng=rng)[0]


def guarded_step(
    net: nn.Module,
    masks: Mapping[str, Tensor],
    *,
    score: str,
    scope: str,
    unit: str,
    amount: float,
    grads: Mapping[str, Tensor] | None = None,
    rng: torch.Generator | None = None,
) -> tuple[Masks, bool]:  # the new masks; did the guard act?
    """What `step` does, and whether the guard had to keep the last weight of a layer."""
    if not masks:
        raise ValueError("no masks; make them with mask.ones_like(net)")
    parameters = {name: parameter for name, (parameter, _) in held(net, masks).items()}
    names = [name for name in prunable(net) if name in masks] or list(masks)
    if score == "gradient" and not set(names) <= set(grads or ()):
        raise ValueError("score 'gradient' needs grads=prune.gradients(net, batches, loss) of every masked weight")
    weights = {name: parameters[name].detach() for name in names}
    require_units(weights, unit)
    scores = SCORE.find(score)(weights, grads or {}, rng or generator("score", 0, 0))
    couplings = coupled(net) if unit == "filter" else {}
    made, guarded = pruned(
        {name: value[None] for name, value in scores.items()},
        {name: mask[None] for name, mask in {**(vectors(net, masks) if couplings else {}), **masks}.items()},
        scope=SCOPE.find(scope),
        unit=UNIT.find(unit),
        amount=amount,
        coupled=couplings,
    )
    fresh = {name: mask[0] for name, mask in made.items()}
    apply_(net, fresh)
    return fresh, bool(guarded)


def gradients(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], loss: Loss) -> dict[str, Tensor]:
    """The gradient of the mean loss over the batches, in evaluation mode: BatchNorm statistics stay untouched."""
    parameters = {name: p for name, p in net.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    rows, training = 0, {module: module.training for module in net.modules()}
    net.eval()
    try:
        for x, y in batches:
            grads = torch.autograd.grad(loss(net(x), y), list(parameters.values()), allow_unused=True)
            rows += len(x)
            for sum_, grad in zip(total.values(), grads, strict=True):
                if grad is not None:
                    sum_.add_(grad, alpha=len(x))
    finally:
        for module, mode in training.items():
            module.training = mode
    if not rows:
        raise ValueError("no batches: the gradient score needs at least one")
    return {name: sum_ / rows for name, sum_ in total.items()}
