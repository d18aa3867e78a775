"""`scyc run`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scyc.cli.options import (
    Cycles,
    Data,
    Deterministic,
    Device,
    Engine,
    Format,
    Keep,
    Name,
    Preset,
    Root,
    Scale,
    Seeds,
    Set,
    Trust,
    Width,
    chosen_format,
    device_named,
    engine_named,
    keeping,
    loaded,
    with_threads,
)
from scyc.cli.stopping import stopping as stopping
from scyc.cli.stored import try_page

if TYPE_CHECKING:
    from scyc.experiment import Experiment
    from scyc.store.runs import Store
    from scyc.training import Control

DIVERGED = 3


def run(
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
    checkpoint_every: Annotated[float, typer.Option(help="seconds between checkpoints in a cycle", min=0)] = 300.0,
    keep: Keep = "last",
    accept_environment: Annotated[bool, typer.Option("--accept-environment", help="resume elsewhere")] = False,
    deterministic: Deterministic = False,
    trust: Trust = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be trained, and stop")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
    format: Format = "table",
) -> None:
    """Train every run of an experiment; what is recorded already is not trained again."""
    layout = chosen_format(format)
    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    from scyc import sweep, training
    from scyc.data import roots
    from scyc.store.runs import Store

    options = training.Options(
        device_named(device),
        engine_named(engine),
        width,
        checkpoint_every,
        keeping(keep),
        accept_environment,
        deterministic,
    )
    with_threads(threads)
    found = sweep.datasets(experiment, roots(data, os.environ), trust=trust)
    ids = sweep.identities(experiment, found)
    store = Store(root)
    if dry_run:
        print_dry(experiment, ids, store)
        return
    sweep.register(store, experiment, ids, found)
    control = training.Control()
    trainer = training.Training(store, found, options, control)
    wanted = sweep.unfinished(store, experiment, ids)
    with (
        stopping(control),
        watching(control, wanted, quiet=quiet),
        telling(control, store, experiment.name, wanted),
    ):
        trainer.train(sweep.by_id(experiment, ids))
    from scyc.report.rows import collect

    results = collect(store, experiment.name)
    print(layout(results))
    out = sys.stdout if format == "table" else sys.stderr
    print(f"results: {root / '.experiments' / (experiment.name + '.json')} ({results.runs} runs in {root})", file=out)
    if format == "table" and not quiet:
        try_page(store, [experiment.name], out)
    if trainer.too_large or any(row.diverged for rows in results.rows.values() for row in rows):
        raise typer.Exit(DIVERGED)


def print_dry(experiment: "Experiment", ids: Any, store: Any) -> None:
    from scyc.sweep import complete

    present = set(store.ids())
    for label, names in ids.items():
        for id, run in zip(names, experiment.runs[label], strict=True):
            done = id in present and complete(store, id)
            print(f"{id}  {label}  seed {run.seed}  {'recorded' if done else 'to train'}")


@contextmanager
def watching(control: "Control", wanted: Any, *, quiet: bool) -> Iterator[None]:
    """Progress on stderr for the time of a training."""
    from scyc.terminal import Lines, Live, interactive

    if quiet or not wanted:
        yield
        return
    if not interactive():
        control.listeners.append(Lines(steps_in(wanted)))
        yield
        return
    live = Live(steps_in(wanted))
    control.listeners.append(live)
    try:
        yield
    finally:
        live.close()


@contextmanager
def telling(control: "Control", store: "Store", name: str, wanted: Any) -> Iterator[None]:
    """News for `scyc watch` for the time of a training."""
    from scyc.progress import News

    news = News(store, name, steps_in(wanted))
    control.listeners.append(news)
    try:
        yield
    finally:
        news.close()


def steps_in(wanted: Any) -> int:
    """Run-steps of these runs."""
    from scyc.run import effective

    return sum(effective(run).steps_before(run.cycles) for run in wanted.values())
