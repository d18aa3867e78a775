"""Rewinds: (weights kept at step `snapshot` of cycle 0, trained weights, fresh draw) -> where the next cycle starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from scyc.config import Steps
from scyc.prune.score import Tensors
from scyc.registry import Kind


class Rewind(Protocol):
    @property
    def snapshot(self) -> int | None: ...
    def __call__(self, kept: Tensors, trained: Tensors, fresh: Callable[[], Tensors]) -> Tensors: ...


@dataclass(frozen=True)
class KeepTrained:
    """go on from the trained weights (LR rewinding)"""

    snapshot: ClassVar[None] = None

    def __call__(self, kept: Tensors, trained: Tensors, fresh: Callable[[], Tensors]) -> Tensors:
        return trained


@dataclass(frozen=True)
class ToInitial:
    """return to the initial weights (IMP)"""

    snapshot: ClassVar[int] = 0

    def __call__(self, kept: Tensors, trained: Tensors, fresh: Callable[[], Tensors]) -> Tensors:
        return kept


@dataclass(frozen=True)
class ToStep:
    """return to the weights that cycle 0 had after k steps"""

    k: Steps

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"rewind step k = {self.k} is no step of cycle 0; write 1 or more (0 is rewind 'init')")

    @property
    def snapshot(self) -> int:
        return self.k

    def __call__(self, kept: Tensors, trained: Tensors, fresh: Callable[[], Tensors]) -> Tensors:
        return kept


@dataclass(frozen=True)
class Redraw:
    """start from fresh random weights"""

    snapshot: ClassVar[None] = None

    def __call__(self, kept: Tensors, trained: Tensors, fresh: Callable[[], Tensors]) -> Tensors:
        return fresh()


REWINDS: dict[str, Callable[..., Rewind]] = {"none": KeepTrained, "init": ToInitial, "step": ToStep, "reinit": Redraw}
REWIND = Kind("rewind", REWINDS)
