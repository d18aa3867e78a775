"""Trainings killed at random times and at every named point end as undisturbed ones do, bit for bit."""

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import scyc.prune
from examples import colour, finished, small, stack_of
from faults import CALLS
from scyc import cycle, sweep, training
from scyc.experiment import Experiment, experiment
from scyc.prune import REWIND
from scyc.stack import Stack
from scyc.store.runs import Store
from scyc.train.single import Single
from scyc.train.stacked import Stacked
from scyc.training import Control, Options, Training

STEPS, CYCLES = 6, 3
EVERY = (1, 4, 100)  # steps between checkpoints; there is one at the end of every cycle anyway
TELLING = ["replace ckpt in the making", "unlink ckpt", "half of write records", "after pruned", "before begin_"]
CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam": {
        "optimizer": {"name": "adam", "weight_decay": 1e-4},
        "pruning": {"score": "gradient", "score_batches": 2, "rewind": {"name": "step", "k": 2}},
    },
}
KINDS = re.compile(r"ckpt|config\.json|records|events|safetensors|\.holders|\.lock|\.experiments|\.stacks")
Stage = Callable[[str], None]


def planned(case: str, folder: Path) -> Experiment:
    """Two seeds on a colour set in a file, with augmentation, batch norm and dropout."""
    images = colour().train
    np.savez(folder / "own.npz", images=images.images.permute(0, 2, 3, 1).numpy(), labels=images.labels.numpy())
    run = {
        "data": {"name": "npz", "path": str(folder / "own.npz"), "augment": True},
        "model": {"name": "mlp", "widths": [10, 8], "bn": True, "dropout": 0.3},
        "steps": STEPS,
        "batch": 12,
        "cycles": CYCLES,
        "eval_every": 2,
        **CASES[case],
    }
    peak = {"name": "scyc", "eps": 0.01, "delta": 0.02, "q": 0, "beta": 4}
    schedule = {"peak": peak, "shape": {"name": "warmup", "ramp": 3, "drops": [5]}}
    return experiment({"seeds": 2, "run": run, "schedules": {"scyc": schedule}}, "mortal")


class Trace(Control):
    """Notes every step with what the engine was given and what came of it; its clock ticks once a step."""

    def __init__(self, path: Path) -> None:
        super().__init__(listeners=[self])
        self.write, self.file, self.steps = os.write, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 0
        self.note("process")

    def note(self, line: str) -> None:
        self.write(self.file, f"{line}\n".encode())

    def monotonic(self) -> float:
        return float(self.steps)

    def began(self, stack: Stack) -> None:
        real = stack.engine.step_

        def step_(cycle: int, step: int, lrs: Any) -> None:
            real(cycle, step, lrs)
            self.steps += 1
            bits = [value.hex() for value in (*lrs.tolist(), *stack.engine.losses.tolist())]
            self.note(f"{stack.name} {cycle * STEPS + step} {' '.join(bits)}")

        stack.engine.step_ = step_  # type: ignore[method-assign]

    def stepped(self, stack: object) -> None: ...
    def ended(self, stack: object, records: object) -> None: ...
    def said(self, line: str) -> None: ...


def train(root: Path, plan: Experiment, engine: str, every: int, trace: Path, stage: Stage) -> None:
    """What `scyc run` does, in a process of its own; `every` counts steps."""
    control = Trace(trace)
    training.time = SimpleNamespace(monotonic=control.monotonic)  # type: ignore[attr-defined]
    staged(stage)
    store, found = Store(root), sweep.datasets(plan, ())
    ids = sweep.identities(plan, found)
    sweep.register(store, plan, ids, found)
    options = Options(engine=engine, checkpoint_every=every, keep="all")
    Training(store, found, options, control).train(sweep.by_id(plan, ids))


def staged(stage: Stage) -> None:
    """Announce every call that touches files, and the parts of a cycle's end and of a pruning, before and after."""
    paths: dict[int, str] = {}
    for name in CALLS:
        setattr(os, name, announced(stage, name, getattr(os, name), paths))
    for place, name in (
        (cycle, "evaluate_"), (cycle, "end_"), (cycle, "scored"), (scyc.prune, "pruned"),
        (REWIND.find("step"), "__call__"), (REWIND.find("none"), "__call__"), (Single, "begin_"), (Stacked, "begin_"),
    ):  # fmt: skip
        setattr(place, name, between(stage, name, getattr(place, name)))


def announced(stage: Stage, name: str, call: Callable[..., Any], paths: dict[int, str]) -> Callable[..., Any]:
    def mortal(*arguments: Any, **fields: Any) -> Any:
        target = paths.get(arguments[0], "") if isinstance(arguments[0], int) else os.fsdecode(arguments[0])
        found = KINDS.findall(target)
        label = f"{name} {found[-1] if found else 'folder'}{' in the making' if target.endswith('.tmp') else ''}"
        stage(label)
        if name != "write":
            result = call(*arguments, **fields)
        else:
            half = len(arguments[1]) // 2
            call(arguments[0], memoryview(arguments[1])[:half])
            stage(f"half of {label}")
            result = half + call(arguments[0], memoryview(arguments[1])[half:])
        if name == "open":
            paths[result] = target
        return result

    return mortal


def between(stage: Stage, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def mortal(*arguments: Any, **fields: Any) -> Any:
        stage(f"before {name}")
        result = call(*arguments, **fields)
        stage(f"after {name}")
        return result

    return mortal


def dying_at(label: str, times: int, path: Path) -> Stage:
    """Kills the process when it comes to this point for the n-th time; says so in a file."""
    left, write, kill = [times], os.write, os.kill
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def stage(reached: str) -> None:
        left[0] -= reached == label
        if left[0] == 0:
            write(file, f"{label}\n".encode())
            kill(os.getpid(), signal.SIGKILL)

    return stage


def listing(path: Path) -> Stage:
    """Every point that a process comes to, as lines of a file."""
    file, write = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), os.write
    return lambda label: write(file, f"{label}\n".encode()) and None


def stored(root: Path) -> dict[str, bytes]:
    """What must be equal: the records, and the weights and masks of every cycle."""
    paths = [*root.glob("*/records.jsonl"), *root.glob("*/*.safetensors")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def steps(trace: Path) -> tuple[dict[tuple[str, int], str], int]:
    """What every step was given and gave, the same each time it was done; and the most a process did again."""
    seen: dict[tuple[str, int], str] = {}
    furthest: Counter[str] = Counter()
    again, met = 0, set()
    for line in trace.read_text().splitlines():
        stack, _, rest = line.partition(" ")
        if not rest:
            met = set()
            continue
        number, _, bits = rest.partition(" ")
        if stack not in met:
            assert int(number) <= furthest[stack], "a step was left out"
            again = max(again, furthest[stack] - int(number))
            met.add(stack)
        assert seen.setdefault((stack, int(number)), bits) == bits
        furthest[stack] = max(furthest[stack], int(number) + 1)
    return seen, again


@pytest.fixture(scope="module")
def _warmed() -> None:
    """What torch imports when it first trains, it imports here and not in every forked process."""
    for engine in ("stacked", "single"):
        finished(stack_of([small(optimizer="adam", pruning={"score": "gradient"})], colour(), engine))


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.usefixtures("_warmed")
@pytest.mark.parametrize("engine", ["stacked", "single"])
@pytest.mark.parametrize("case", CASES)
def test_killed_anywhere_it_ends_with_the_same_bits(
    tmp_path: Path, faults: Any, size: Any, figure: Any, case: str, engine: str
) -> None:
    plan, chance = planned(case, tmp_path), random.Random(f"{case} {engine}")
    root, trace, labels, killed_at = (tmp_path / name for name in ("runs", "trace", "labels", "killed"))
    began = time.monotonic()
    assert faults.child(lambda: train(root, plan, engine, 1, trace, listing(labels))) == 0
    seconds, undisturbed, expected = time.monotonic() - began, stored(root), steps(trace)[0]
    assert len(undisturbed) == 2 * (1 + CYCLES)
    points = Counter(labels.read_text().splitlines())
    missing = chance.sample(sorted(points), len(points))[: size(0, len(points))] or [*TELLING]  # not yet killed at
    kills, timed, trainings, most = 0, 0, 0, 0
    while kills < size(8, 125) or missing:
        shutil.rmtree(root)
        trace.unlink()
        status, every, trainings = -signal.SIGKILL, chance.choice(EVERY), trainings + 1
        while status:
            by_clock = chance.random() < 0.5
            label = missing[0] if missing else chance.choice(sorted(points))
            place = ("", 1) if by_clock else (label, chance.randint(1, points[label]))
            pid = faults.start(lambda: train(root, plan, engine, every, trace, dying_at(*place, killed_at)))  # noqa: B023
            if by_clock:
                time.sleep(chance.uniform(0, seconds))
                os.kill(pid, signal.SIGKILL)
            status = faults.status(pid)
            assert status in (0, -signal.SIGKILL)
            kills, timed = kills + (status != 0), timed + (by_clock and status != 0)
            died = set(killed_at.read_text().splitlines()) if killed_at.exists() else set()
            missing = [label for label in missing if label not in died]
        found, again = steps(trace)
        assert stored(root) == undisturbed
        assert found == expected
        assert again <= min(every, STEPS)
        most = max(most, again)
        assert Store(root).stacks() == []
        assert not list(root.rglob("*.tmp"))  # nothing that a killed process left half done
    how = f"{timed} by the clock, the others at {len(died)} of {len(points)} named points"
    again_at_most = f"never more than {most} steps done again, with {STEPS} in a cycle"
    figure(f"{kills} kills in {trainings} trainings, {case}, {engine}: {how}; the same bits, {again_at_most}")
