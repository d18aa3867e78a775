"""What takes many trainings to find: `scyc oracle`, `scyc tune`."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scyc.cli.options import (
    Cycles,
    Data,
    Deterministic,
    Device,
    Engine,
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
from scyc.cli.stopping import handled, saving
from scyc.cli.train import DIVERGED, watching

if TYPE_CHECKING:
    from scyc.data import Dataset
    from scyc.experiment import Experiment
    from scyc.question import Question
    from scyc.run import Run
    from scyc.stack import Record
    from scyc.store.runs import Store
    from scyc.training import Options

Peaks = Annotated[str | None, typer.Option(help="peaks to try, both ends included", metavar="FIRST:LAST:STEP|A,B,C")]
Layout = Annotated[str, typer.Option("--format", help="table, md, latex, csv or json")]
Threads = Annotated[int, typer.Option(help="threads of one stack on the CPU", min=1)]
Every = Annotated[float, typer.Option(help="seconds between checkpoints in a cycle", min=0)]
Elsewhere = Annotated[bool, typer.Option("--accept-environment", help="resume elsewhere")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress")]


def oracle(
    preset: Preset,
    peaks: Peaks = None,
    seeds: Seeds = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    shape: Annotated[str | None, typer.Option(help="search with this schedule's shape", metavar="LABEL")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="place this schedule's peaks too (S-Cyc's always are)", metavar="LABEL")
    ] = None,
    name: Name = None,
    root: Root = Path("runs"),
    data: Data = None,
    device: Device = "auto",
    engine: Engine = "auto",
    width: Width = 0,
    threads: Threads = 1,
    checkpoint_every: Every = 300.0,
    accept_environment: Elsewhere = False,
    deterministic: Deterministic = False,
    trust: Trust = False,
    stored: Annotated[bool, typer.Option("--stored", help="print what the store holds, train nothing")] = False,
    quiet: Quiet = False,
    format: Layout = "table",
) -> None:
    """The best peak of every cycle by greedy search, its feasible region, and whose peaks lie in it."""
    from scyc.report import oracle as report
    from scyc.store.runs import Store

    layout, store = chosen_layout(format), Store(root)
    if stored or (preset in store.experiments() and not bundled_or_file(preset)):
        print(layout(report.collect(store, preset)))
        return
    from scyc import oracle as greedy

    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    label = greedy.searched(experiment, shape)
    grid, beside = greedy.grid(experiment, label, peaks), greedy.compared(experiment, compare or [])
    options = chosen_options(device, engine, width, threads, checkpoint_every, accept_environment, deterministic)
    dataset = dataset_for(experiment, data, trust)
    question = greedy.question(experiment.runs[label], grid, dataset.digest())
    greedy.register(store, experiment, question, beside)
    records = answered(store, question, dataset, options, quiet)
    print(layout(report.collect(store, greedy.named(experiment))))
    print(f"results: {greedy.named(experiment)} in {root}", file=sys.stdout if format == "table" else sys.stderr)
    if "diverged" in records[-1]:
        raise typer.Exit(DIVERGED)


def chosen_layout(name: str) -> Any:
    from scyc.registry import nearest
    from scyc.report.oracle import FORMATS

    if name not in FORMATS:
        raise nearest("format", name, FORMATS)
    return FORMATS[name]


def bundled_or_file(preset: str) -> bool:
    from scyc.experiment import presets

    return preset.endswith(".toml") or "/" in preset or preset in presets()


def chosen_options(
    device: str,
    engine: str,
    width: int,
    threads: int,
    checkpoint_every: float,
    accept_environment: bool,
    deterministic: bool,
) -> "Options":
    from scyc.training import Options

    with_threads(threads)
    return Options(
        device_named(device),
        engine_named(engine),
        width,
        checkpoint_every,
        accept_environment=accept_environment,
        deterministic=deterministic,
    )


def dataset_for(experiment: "Experiment", data: Path | None, trust: bool) -> "Dataset":
    from scyc import sweep
    from scyc.data import roots

    return sweep.dataset_of(experiment.all[0], sweep.datasets(experiment, roots(data, os.environ), trust=trust))


def trainings(question: "Question") -> "dict[str, Run]":
    """One run of one cycle for every training that a search will do."""
    first = question.grid(0, [])[0]
    return {
        f"{cycle}/{k}/{run.seed}": replace(run, cycles=1)
        for cycle in range(question.cycles)
        for k in range(len(question.grid(cycle, [first] * cycle)))
        for run in question.runs
    }


def answered(
    store: "Store", question: "Question", dataset: "Dataset", options: "Options", quiet: bool
) -> "list[Record]":
    """The records of a search, from the store where they are complete."""
    from scyc.search import Search
    from scyc.training import Control

    control = Control()
    with handled(saving(control)), watching(control, trainings(question), quiet=quiet):
        return Search(store, question, dataset, options, control).run()


def tune(
    preset: Preset,
    schedule: Annotated[
        str | None, typer.Option(help="a benchmark instead of S-Cyc: only its learning rate", metavar="LABEL|SHAPE")
    ] = None,
    peaks: Peaks = None,
    delta: Annotated[str | None, typer.Option(help="deltas to try", metavar="A,B,C")] = None,
    target: Annotated[
        int | None, typer.Option(help="delta's cycle, reached with the peak eps; the last", min=1)
    ] = None,
    trials: Annotated[int, typer.Option(help="tunings of all three stages together", min=5)] = 20,
    seeds: Seeds = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    shape: Annotated[str | None, typer.Option(help="tune S-Cyc with this schedule's shape", metavar="LABEL")] = None,
    name: Name = None,
    root: Root = Path("runs"),
    data: Data = None,
    device: Device = "auto",
    engine: Engine = "auto",
    width: Width = 0,
    threads: Threads = 1,
    checkpoint_every: Every = 300.0,
    accept_environment: Elsewhere = False,
    deterministic: Deterministic = False,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """S-Cyc's parameters, or with --schedule a benchmark's learning rate, by validation accuracy alone."""
    from scyc import oracle as greedy
    from scyc import tune as tuning
    from scyc.peaks import listed, spread
    from scyc.store.runs import Store

    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    label = greedy.searched(experiment, shape)
    runs = experiment.runs[label]
    if schedule is not None:
        label, runs = tuning.benchmark(experiment, schedule)
    options = chosen_options(device, engine, width, threads, checkpoint_every, accept_environment, deterministic)
    dataset, store = dataset_for(experiment, data, trust), Store(root)
    middle = greedy.dense_peak(runs[0])
    try:
        if schedule is not None:
            grid = listed(peaks) if peaks else spread(middle)
            tune_benchmark(
                store, experiment, label, tuning.dense(runs, grid, dataset.digest()), dataset, options, quiet
            )
            return
        stages = tuning.stages(trials)
        question = tuning.climb(
            runs,
            listed(peaks) if peaks else spread(middle, stages.eps, factor=4.0),
            tuning.listed_deltas(delta) if delta else stages.delta,
            tuning.target_cycle(runs, target),
            dataset.digest(),
        )
        tune_scyc(store, experiment, question, stages.pairs, dataset, options, quiet)
    except tuning.NoPeakLeft as error:
        print(f"scyc: {error}", file=sys.stderr)
        raise typer.Exit(DIVERGED) from None


def tune_benchmark(
    store: "Store",
    experiment: "Experiment",
    label: str,
    question: "Question",
    dataset: "Dataset",
    options: "Options",
    quiet: bool,
) -> None:
    from scyc import tune as tuning
    from scyc.report import tuned as report

    (record,) = tuning.ended(answered(store, question, dataset, options, quiet))
    tuning.register(store, f"{experiment.name}-tune-{label}", experiment.doc, {"peak": question.id})
    print(report.benchmark(store, label, question.runs[0].shape, record, question.id))


def tune_scyc(
    store: "Store",
    experiment: "Experiment",
    question: "Question",
    pairs: int,
    dataset: "Dataset",
    options: "Options",
    quiet: bool,
) -> None:
    from scyc import tune as tuning
    from scyc.report import tuned as report
    from scyc.training import Control

    control = Control()
    rows = trainings(question) | {f"pair {k}/{run.seed}": run for k in range(pairs) for run in question.runs}
    with handled(saving(control)), watching(control, rows, quiet=quiet):
        found = tuning.tune(store, question, pairs, dataset, options, control)
    tuning.register(store, f"{experiment.name}-tune", experiment.doc, found.studies)
    print(report.scyc(store, found.dense, found.pruned, found.pairs, found.peak, question.runs[0].shape, found.studies))
