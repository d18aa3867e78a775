"""What an experiment will take, before paying for it: runs, stacks, steps, memory, disk and time on this machine."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from scyc import stack as stacks
from scyc.config import digest, plain
from scyc.data import Dataset, Images
from scyc.experiment import Experiment
from scyc.footprint import footprint, room
from scyc.run import Run, effective, stack_key
from scyc.store.checkpoint import KEPT

KNOWN = {  # (channels, height, width), classes, labelled images: what planning needs of sets that are not here
    "digits": ((1, 8, 8), 10, 1797),
    "fashion-mnist": ((1, 28, 28), 10, 70000),
    "mnist": ((1, 28, 28), 10, 70000),
    "cifar10": ((3, 32, 32), 10, 60000),
    "imagenet200": ((3, 64, 64), 200, 110000),
}
WRITTEN = KEPT + 1  # checkpoints that lie there while the next one is written
PATIENCE = 2.0  # seconds that measuring one stack may take


@dataclass(frozen=True)
class StackPlan:
    """One stack's cost."""

    runs: int
    cycles: int
    steps: int  # of one run, all cycles
    first: int  # of these, in the first cycle
    parameters: int
    memory: int  # bytes, while training
    checkpoints: int  # bytes, at most, and only while it trains
    weights: int  # bytes that stay
    seconds: float

    @property
    def disk(self) -> int:
        return self.checkpoints + self.weights

    @property
    def run_steps(self) -> int:
        return self.runs * self.steps


def planned(
    experiment: Experiment, found: Mapping[str, Dataset], *, device: torch.device, width: int = 0, keep: str = "last"
) -> list[StackPlan]:
    """A plan per stack, in the order they would train."""
    groups: dict[str, list[Run]] = {}
    for run in dict.fromkeys(experiment.all):
        groups.setdefault(stack_key(run), []).append(run)
    made = []
    for runs in groups.values():
        dataset = found.get(digest(plain(runs[0].data.source))) or stand_in(runs[0])
        size = width or room(runs[0], dataset, device) or len(runs)
        size = -(-len(runs) // -(-len(runs) // size))  # even parts, as the training makes them
        sizes = [len(runs[i : i + size]) for i in range(0, len(runs), size)]
        measured_once = {size: stack_plan(runs[:size], dataset, device, keep) for size in set(sizes)}
        made += [measured_once[size] for size in sizes]
    return made


def stack_plan(runs: list[Run], dataset: Dataset, device: torch.device, keep: str) -> StackPlan:
    run = effective(runs[0])
    seconds, stack = measured(runs, dataset, device)
    one = footprint(run, stack.feed.shape, stack.feed.classes)
    checkpoint, weights = stored(run, stack)
    return StackPlan(
        len(runs),
        run.cycles,
        run.steps_before(run.cycles),
        run.steps,
        one.parameters,
        one.memory * len(runs),
        checkpoint * len(runs) * WRITTEN,
        weights * len(runs) * {"last": 1, "all": run.cycles, "none": 0}[keep],
        seconds * run.steps_before(run.cycles),
    )


def stored(run: Run, stack: stacks.Stack) -> tuple[int, int]:
    """Bytes of one run in a checkpoint within a cycle, and of the weights and masks of one cycle."""
    state, masks, slots = (
        sum(tensor.nbytes for tensor in tensors.values()) // len(stack.runs)
        for tensors in (stack.engine.weights(), stack.masks, stack.engine.state())
    )
    copies = 2 if run.pruning.rewind.make().snapshot is None else 3  # as trained, at the early stop, to rewind to
    return copies * state + masks + slots, state + masks


def stand_in(run: Run) -> Dataset:
    """Random images of the set's shape."""
    if run.data.source.name not in KNOWN:
        raise ValueError(f"data {run.data.source.name!r} is not here and of unknown shape; plan where it lies (--data)")
    shape, classes, _ = KNOWN[run.data.source.name]
    n = max(4 * run.batch, 2 * classes)
    pixels = torch.randint(0, 256, (n, *shape), dtype=torch.uint8)
    images = Images(pixels, torch.arange(n) % classes)
    return Dataset(images, Images(pixels[: n // 4], images.labels[: n // 4]), classes, None, None)


def measured(runs: list[Run], dataset: Dataset, device: torch.device) -> tuple[float, stacks.Stack]:
    """Seconds of one step of all runs: measured on a few, and on all where that is quick."""
    seconds, stack = 0.0, None
    for width in (1, len(runs)):
        if stack is not None and seconds * len(runs) / PATIENCE > 1:
            return seconds * len(runs), stack
        ids = [f"{k:012x}" for k in range(width)]
        stack = stacks.start(ids, runs[:width], dataset, device=device)
        seconds = step_seconds(stack)
    assert stack is not None
    return seconds, stack


def step_seconds(stack: stacks.Stack) -> float:
    lrs = torch.full((len(stack.runs),), 1e-6, dtype=torch.float64)
    stack.engine.step_(0, 0, lrs)
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 20 and time.monotonic() - began < PATIENCE / 2:
        start = time.perf_counter()
        stack.engine.step_(0, len(times) + 1, lrs)
        if stack.feed.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def grid(plans: Sequence[StackPlan]) -> list[list[str]]:
    """A table, its first row the head, its last the sum."""
    rows = [["stack", "runs", "parameters", "steps per run", "memory", "disk", "time"]]
    for number, p in enumerate(plans, start=1):
        sizes = [size_text(p.memory), size_text(p.disk), time_text(p.seconds)]
        rows.append([str(number), str(p.runs), f"{p.parameters:,}", lengths(p), *sizes])
    disk = max(p.checkpoints for p in plans) + sum(p.weights for p in plans)  # one stack trains after the other
    total = [size_text(max(p.memory for p in plans)), size_text(disk)]
    steps = f"{sum(p.run_steps for p in plans):,} in all"
    rows.append(["all", str(sum(p.runs for p in plans)), "", steps, *total, time_text(sum(p.seconds for p in plans))])
    return rows


def lengths(plan: StackPlan) -> str:
    """`25 x 1,000`, or `1,000 + 24 x 250` where the first cycle is longer."""
    if plan.steps == plan.cycles * plan.first:
        return f"{plan.cycles} x {plan.first:,}"
    later = plan.cycles - 1
    return f"{plan.first:,} + {later} x {(plan.steps - plan.first) // later:,}"


def search(plans: Sequence[StackPlan], peaks: int) -> str:
    """What the oracle of such an experiment takes: every run once for each peak."""
    steps, seconds = (peaks * sum(values) for values in ([p.run_steps for p in plans], [p.seconds for p in plans]))
    return f"`scyc oracle` tries {peaks} peaks: {steps:,} steps in all, about {time_text(seconds)} at this pace"


def size_text(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def time_text(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            number = seconds / length
            return f"{number:.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"
    return f"{seconds:.3g} s"
