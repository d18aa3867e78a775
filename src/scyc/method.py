"""A method as a user of their own training writes it: plain values, and functions where only the user knows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypedDict

from torch import Tensor, nn

from scyc import mask
from scyc.config import part
from scyc.lr import plain
from scyc.prune import REWIND, SCOPE, SCORE, UNIT

Grads = Callable[[nn.Module], Mapping[str, Tensor]]


class Choices(TypedDict, total=False):
    """The fields of `Method`, as the keywords of what takes them."""

    amount: float
    score: str
    scope: str
    unit: str
    rewind: str | Mapping[str, Any]
    where: mask.Where
    grads: Grads
    fresh: Callable[[], nn.Module]
    seed: int


@dataclass(frozen=True)
class Method:
    """score x scope x unit x rewind, the share of the remaining weights that a pruning removes, and what these need."""

    amount: float = 0.2
    score: str = "magnitude"
    scope: str = "global"
    unit: str = "weight"
    rewind: str | Mapping[str, Any] = "none"  # or "init", "reinit", {"name": "step", "k": 500}
    where: mask.Where | None = None  # of the prunable weights, those that may be pruned
    grads: Grads | None = None  # for the score "gradient", as prune.gradients makes them
    fresh: Callable[[], nn.Module] | None = None  # for the rewind "reinit": the network, newly drawn
    seed: int = 0  # of the random score and of fresh draws

    def __post_init__(self) -> None:
        if not (isinstance(self.amount, Real) and 0 < self.amount < 1):
            raise ValueError(f"amount = {self.amount!r}: must lie between 0 and 1, the share of the remaining weights")
        rewind = part(REWIND, self.rewind).name
        for kind, name in ((SCORE, self.score), (SCOPE, self.scope), (UNIT, self.unit)):
            kind.find(name)
        if self.score == "gradient" and self.grads is None:
            raise ValueError("score 'gradient' needs grads=, such as lambda net: prune.gradients(net, batches, loss)")
        if rewind == "reinit" and self.fresh is None:
            raise ValueError("rewind 'reinit' needs fresh=, a function that builds the network anew")

    def described(self) -> dict[str, Any]:
        """What a saved state must agree with."""
        return {name: plain(getattr(self, name)) for name in ("amount", "score", "scope", "unit", "rewind", "seed")}
