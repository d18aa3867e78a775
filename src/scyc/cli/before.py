"""What to know before training: `scyc list`, `lr`, `plan`."""

import os
import sys
from typing import Annotated

import typer

from scyc.cli.options import (
    Cycles,
    Data,
    Device,
    Keep,
    Preset,
    Scale,
    Seeds,
    Set,
    Trust,
    Width,
    device_named,
    keeping,
    loaded,
    with_threads,
)


def lr(
    preset: Preset,
    cycle: Annotated[int | None, typer.Option(help="print every step of this cycle", min=0)] = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    trust: Trust = False,
) -> None:
    """The peak of every cycle, or the learning rate of every step of one, before paying for them."""
    from scyc import describe
    from scyc.report.table import aligned

    experiment = loaded(preset, "1", cycles, scale, set_, None, trust)
    print(aligned(describe.peaks(experiment) if cycle is None else list(describe.every_step(experiment, cycle))))
    for line in describe.remarks(experiment):
        print(line, file=sys.stderr)


def plan(
    preset: Preset,
    seeds: Seeds = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    data: Data = None,
    device: Device = "auto",
    width: Width = 0,
    keep: Keep = "last",
    trust: Trust = False,
) -> None:
    """Runs, stacks, steps, memory, disk and time, measured on this machine."""
    from scyc import plan as planning
    from scyc.data import DataError, roots
    from scyc.report.table import aligned
    from scyc.sweep import datasets

    keep = keeping(keep)
    with_threads(1)
    experiment = loaded(preset, seeds, cycles, scale, set_, None, trust)
    try:
        found = datasets(experiment, roots(data, os.environ), trust=trust)
    except DataError as error:
        found = {}
        print(f"planned with images of the same shape: {error}", file=sys.stderr)
    plans = planning.planned(experiment, found, device=device_named(device), width=width, keep=keep)
    print(aligned(planning.grid(plans)))
    if experiment.oracle:
        from scyc.oracle import declared

        print(planning.search(plans, len(declared(experiment.oracle, experiment.name))))


def list_(
    what: Annotated[
        str, typer.Argument(help="peaks, shapes, scores, scopes, units, rewinds, models, data, optimizers, presets")
    ],
) -> None:
    """What one can choose, with fields, defaults and a line each."""
    from scyc.describe import listing
    from scyc.report.table import aligned

    print(aligned(listing(what), left=True))
