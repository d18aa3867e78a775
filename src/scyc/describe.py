"""What one can choose, and what a choice does: the words behind `scyc list` and `scyc lr`."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from scyc.config import parameters
from scyc.experiment import Experiment, presets
from scyc.lr import Unmeasured, Warmup
from scyc.registry import Kind, nearest
from scyc.run import KINDS, Run, effective

WAITS = "history"
PLURALS = {kind if kind == "data" else f"{kind}s": kind for kind in KINDS}


def entries(kind: Kind) -> list[list[str]]:
    """Name, fields with defaults, and the first line of documentation of every entry."""
    return [[name, fields_of(kind.find(name), kind.arguments), first_doc(kind.find(name))] for name in kind.names()]


def fields_of(entry: Callable[..., Any], arguments: int) -> str:
    return ", ".join(
        name if p.default is p.empty else f"{name}={shortly(p.default)}"
        for name, p in parameters(entry, arguments).items()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    )


def shortly(value: Any) -> str:
    return repr(value).replace("'", '"')


def first_doc(entry: Callable[..., Any]) -> str:
    return (inspect.getdoc(entry) or "").split("\n")[0]


def listing(plural: str) -> list[list[str]]:
    """A table for `scyc list`: its first row is the head."""
    if plural == "presets":
        return [["preset", "what it is"], *([name, doc.split("\n")[0]] for name, doc in presets().items())]
    if plural not in PLURALS:
        raise nearest("list", plural, [*PLURALS, "presets"])
    return [[PLURALS[plural], "fields", "what it is"], *entries(KINDS[PLURALS[plural]])]


def peaks(experiment: Experiment) -> list[list[str]]:
    """The peak of every schedule in every cycle; `history` where a peak waits for measurements."""
    grid = [["m", "density %", *experiment.runs]]
    first = experiment.all[0]
    for cycle in range(max(runs[0].cycles for runs in experiment.runs.values())):
        density = 100 * (1 - first.pruning.amount) ** cycle
        row = [peak_text(runs[0], cycle) for runs in experiment.runs.values()]
        grid.append([str(cycle), f"{density:.4g}", *row])
    return grid


def peak_text(run: Any, cycle: int) -> str:
    try:
        return f"{run.peak.make()(cycle, run.pruning.amount):.6g}"
    except Unmeasured:
        return WAITS


def every_step(experiment: Experiment, cycle: int) -> Sequence[list[str]]:
    """The learning rate of every step of one cycle, for every schedule."""
    runs = [effective(group[0]) for group in experiment.runs.values()]
    if not 0 <= cycle < runs[0].cycles:
        raise ValueError(f"--cycle {cycle}: this experiment has cycles 0 to {runs[0].cycles - 1}")
    columns = [rates(run, cycle) for run in runs]
    steps = range(runs[0].steps_of(cycle))
    return [["step", *experiment.runs], *([str(step), *(column[step] for column in columns)] for step in steps)]


def rates(run: Run, cycle: int) -> list[str]:
    """Peak x factor at every step; the factor alone where the peak waits for measurements."""
    (part, first), steps = run.shape_of(cycle), run.steps_of(cycle)
    shape, text = part.make(), peak_text(run, cycle)
    if text == WAITS:
        return [f"{shape(first + step):.6g} x peak" for step in range(steps)]
    peak = run.peak.make()(cycle, run.pruning.amount)
    return [f"{peak * shape(first + step):.6g}" for step in range(steps)]


def remarks(experiment: Experiment) -> list[str]:
    """What a reader of the numbers should know about the shapes."""
    said = []
    for label, group in experiment.runs.items():
        run = effective(group[0])
        shape = run.schedule.shape
        if isinstance(shape, Warmup) and shape.drops and shape.drops[0] <= shape.ramp:
            where = f"step {shape.ramp - 1:,} alone" if shape.drops[0] == shape.ramp else "no step at all"
            said.append(f"{label}: its warm-up ends where a drop begins, so the peak is reached at {where}")
    return said
