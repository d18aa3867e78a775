"""`scyc distribution`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scyc.cli.options import (
    Cycles,
    Data,
    Device,
    Name,
    Preset,
    Root,
    Scale,
    Seeds,
    Set,
    Trust,
    Width,
    device_named,
    engine_named,
    loaded,
    with_threads,
)
from scyc.cli.stopping import stopping
from scyc.cli.train import DIVERGED, watching

if TYPE_CHECKING:
    from scyc.distribution import Settings
    from scyc.experiment import Experiment
    from scyc.store.runs import Store
    from scyc.training import Options


def distribution(
    preset: Preset,
    seeds: Seeds = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    name: Name = None,
    root: Root = Path("runs"),
    data: Data = None,
    device: Device = "auto",
    engine: Annotated[str, typer.Option(help="auto, stacked or single")] = "auto",
    width: Width = 0,
    threads: Annotated[int, typer.Option(help="threads of one stack on the CPU", min=1)] = 1,
    batches: Annotated[str, typer.Option(help="gradients of so many batches, or `all`: of the whole split")] = "100",
    weights: Annotated[str, typer.Option(help="whose gradients: of the surviving weights, or of all")] = "surviving",
    figures: Annotated[Path | None, typer.Option(help="draw figures into this folder", metavar="DIR")] = None,
    checkpoint_every: Annotated[float, typer.Option(help="seconds between checkpoints in a cycle", min=0)] = 300.0,
    keep: Annotated[str, typer.Option(help="whose weights stay: last, all or none")] = "last",
    accept_environment: Annotated[bool, typer.Option("--accept-environment", help="resume elsewhere")] = False,
    trust: Trust = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
    format: Annotated[str, typer.Option("--format", help="table, md, latex, csv or json")] = "table",
) -> None:
    """Train as `scyc run` does, and measure how gradients and hidden representations are distributed."""
    from scyc.registry import nearest
    from scyc.report.distribution import collect
    from scyc.report.narrowing_text import FORMATS
    from scyc.store.runs import Store
    from scyc.training import KEEP, Options

    if format not in FORMATS:
        raise nearest("format", format, FORMATS)
    if keep not in KEEP:
        raise nearest("--keep", keep, KEEP)
    settings = chosen_settings(batches, weights)
    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    with_threads(threads)
    options = Options(device_named(device), engine_named(engine), width, checkpoint_every, keep, accept_environment)
    store = Store(root)
    too_large = measure(store, experiment, settings, options, data, trust=trust, quiet=quiet)
    found = collect(store, experiment.name, settings)
    print(FORMATS[format](found))
    if figures is not None:
        from scyc.report.ridges import draw

        for path in draw(found, figures):
            print(f"figure: {path}", file=sys.stderr)
    if too_large or any(map(found.lost, found.rows)):
        raise typer.Exit(DIVERGED)


def chosen_settings(batches: str, weights: str) -> "Settings":
    from scyc.distribution import Settings

    return Settings(int(batches) if batches.isdecimal() else batches, weights)


def measure(
    store: "Store",
    experiment: "Experiment",
    settings: "Settings",
    options: "Options",
    data: Path | None,
    *,
    trust: bool,
    quiet: bool,
) -> list[str]:
    """Train what is not recorded or not measured to its end; the runs that did not fit into memory."""
    from scyc import sweep
    from scyc.data import roots
    from scyc.distribution import Measuring
    from scyc.training import Control, Training

    found = sweep.datasets(experiment, roots(data, os.environ), trust=trust)
    ids = sweep.identities(experiment, found)
    sweep.register(store, experiment, ids, found)
    control = Control()
    trainer = Training(store, found, options, control, Measuring(store, settings))
    runs = sweep.by_id(experiment, ids)
    with stopping(control), watching(control, trainer.open(runs), quiet=quiet):
        trainer.train(runs)
    return trainer.too_large
