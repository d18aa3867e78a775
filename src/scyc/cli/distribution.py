"""`scyc distribution`."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scyc.cli.options import (
    Cycles,
    Data,
    Deterministic,
    Device,
    Engine,
    Keep,
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
    keeping,
    loaded,
    with_threads,
)
from scyc.cli.stopping import stopping
from scyc.cli.train import DIVERGED, telling, watching

if TYPE_CHECKING:
    from scyc.distribution import Settings
    from scyc.experiment import Experiment
    from scyc.run import Run
    from scyc.store.runs import Store
    from scyc.training import Training


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
    engine: Engine = "auto",
    width: Width = 0,
    threads: Annotated[int, typer.Option(help="threads of one stack on the CPU", min=1)] = 1,
    batches: Annotated[str, typer.Option(help="gradients of so many batches, or `all`: of the whole split")] = "100",
    weights: Annotated[str, typer.Option(help="whose gradients: of the surviving weights, or of all")] = "surviving",
    figures: Annotated[Path | None, typer.Option(help="draw figures into this folder", metavar="DIR")] = None,
    checkpoint_every: Annotated[float, typer.Option(help="seconds between checkpoints in a cycle", min=0)] = 300.0,
    keep: Keep = "last",
    accept_environment: Annotated[bool, typer.Option("--accept-environment", help="resume elsewhere")] = False,
    deterministic: Deterministic = False,
    trust: Trust = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be measured, and stop")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
    format: Annotated[str, typer.Option("--format", help="table, md, latex, csv or json")] = "table",
) -> None:
    """Train as `scyc run` does, and measure how gradients and hidden representations are distributed."""
    from scyc import sweep
    from scyc.data import roots
    from scyc.distribution import Measuring
    from scyc.registry import nearest
    from scyc.report.distribution import collect
    from scyc.report.narrowing_text import FORMATS
    from scyc.store.runs import Store
    from scyc.training import Control, Options, Training

    if format not in FORMATS:
        raise nearest("format", format, FORMATS)
    settings = chosen_settings(batches, weights)
    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    with_threads(threads)
    options = Options(
        device_named(device),
        engine_named(engine),
        width,
        checkpoint_every,
        keeping(keep),
        accept_environment,
        deterministic,
    )
    store, found = Store(root), sweep.datasets(experiment, roots(data, os.environ), trust=trust)
    ids = sweep.identities(experiment, found)
    trainer = Training(store, found, options, Control(), Measuring(store, settings))
    if dry_run:
        print_dry(experiment, ids, store, trainer)
        return
    sweep.register(store, experiment, ids, found)
    measure(trainer, experiment.name, sweep.by_id(experiment, ids), quiet=quiet)
    results = collect(store, experiment.name, settings)
    print(FORMATS[format](results))
    if figures is not None:
        from scyc.report.ridges import draw

        for path in draw(results, figures):
            print(f"figure: {path}", file=sys.stderr)
    if trainer.too_large or any(map(results.lost, results.rows)):
        raise typer.Exit(DIVERGED)


def chosen_settings(batches: str, weights: str) -> "Settings":
    from scyc.distribution import Settings

    return Settings(int(batches) if batches.isdecimal() else batches, weights)


def measure(trainer: "Training", name: str, runs: "dict[str, Run]", *, quiet: bool) -> None:
    """Train what is not recorded, or not measured, to its end."""
    wanted = trainer.open(runs)
    for id in wanted:
        check_environment(trainer, id)
    with (
        stopping(trainer.control),
        watching(trainer.control, wanted, quiet=quiet),
        telling(trainer.control, trainer.store, name, wanted),
    ):
        trainer.train(runs)


def print_dry(
    experiment: "Experiment", ids: "Mapping[str, Sequence[str]]", store: "Store", trainer: "Training"
) -> None:
    present = set(store.ids())
    for label, names in ids.items():
        for id, run in zip(names, experiment.runs[label], strict=True):
            done = id in present and trainer.done(id, run)
            print(f"{id}  {label}  seed {run.seed}  {'measured' if done else 'to measure'}")


def check_environment(trainer: "Training", id: str) -> None:
    """What was recorded without being measured is trained again, and must come out as it is recorded."""
    from scyc.training import environment

    made = [event["environment"] for event in trainer.store.events(id) if "environment" in event]
    if made and trainer.store.records(id):
        trainer.check_environment(made[-1], environment(trainer.options))
