"""What a training takes on disk is what `scyc plan` said; when checkpoints are written, and whose weights stay."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from scyc.plan import StackPlan, planned, search
from scyc.store import checkpoint
from test_sweep import Stopping, small, train

WIDE = {"model": {"name": "mlp", "widths": [64, 64], "bn": True}}
CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam, rewind to a step": {"optimizer": "adam", "pruning": {"rewind": {"name": "step", "k": 2}}},
    "imp": {"pruning": {"rewind": "init"}},
}


@pytest.mark.parametrize("keep", ["last", "all", "none"])
@pytest.mark.parametrize("case", CASES)
def test_a_plan_says_what_lies_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, keep: str) -> None:
    experiment = small(**WIDE, **CASES[case])
    (plan,) = planned(experiment, {}, device=torch.device("cpu"), keep=keep)
    most, unlink = [0], os.unlink

    def weighed(path: Any, **fields: Any) -> None:
        """When the oldest checkpoint goes, there are as many as there ever are."""
        if str(path).endswith(".ckpt"):
            most[0] = max(most[0], sum(file.stat().st_size for file in Path(path).parent.iterdir()))
        unlink(path, **fields)

    monkeypatch.setattr(os, "unlink", weighed)
    train(tmp_path, experiment, checkpoint_every=0.0, keep=keep)
    weights = sum(path.stat().st_size for path in tmp_path.glob("*/*.safetensors"))
    headers = 0.2  # names, shapes, curves: little beside the tensors of any network worth pruning
    assert plan.checkpoints <= most[0] <= plan.checkpoints * (1 + headers)
    assert plan.weights <= weights <= plan.weights * (1 + headers)
    assert plan.disk == plan.checkpoints + plan.weights


class Clock(Stopping):
    """A second is a step."""

    def __init__(self) -> None:
        super().__init__(0)
        self.seconds = 0.0

    def stepped(self, stack: object) -> None:
        self.seconds += 1


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        (4.0, [(0, 4), (0, 6, "ended"), (1, 4), (1, 6, "ended"), (2, 4), (2, 6, "ended")]),
        (300.0, [(0, 6, "ended"), (1, 6, "ended"), (2, 6, "ended")]),
    ],
)
def test_checkpoints_come_by_the_clock_and_at_the_end_of_every_cycle_which_needs_no_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float, steps: list[tuple[Any, ...]]
) -> None:
    clock, seen, slots = Clock(), [], []
    save = checkpoint.save

    def noted(folder: Path, head: Any, tensors: Any) -> Path:
        seen.append((head["cycle"], head["step"], *(["ended"] if head["ended"] else [])))
        slots.append(any(name.startswith("engine/slot.") for name in tensors))
        return save(folder, head, tensors)

    monkeypatch.setattr("scyc.training.time", SimpleNamespace(monotonic=lambda: clock.seconds))
    monkeypatch.setattr(checkpoint, "save", noted)
    train(tmp_path, small(), clock, checkpoint_every=every)
    assert seen == steps
    assert slots == [len(step) == 2 for step in steps]


def test_a_search_costs_every_run_once_for_each_peak() -> None:
    plans = [StackPlan(5, 25, 2500, 100, 1, 1, 1, 1, 60.0), StackPlan(1, 25, 2500, 100, 1, 1, 1, 1, 12.0)]
    assert search(plans, 60) == "`scyc oracle` tries 60 peaks: 900,000 steps in all, about 72 min at this pace"
