"""The command line: each command is a few lines that call public functions."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import torch

    from scyc.experiment import Experiment
    from scyc.sweep import Control

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch loads: waiting threads must not spin

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Iterative pruning of PyTorch networks, and the learning rate that goes with it.",
)

BAD_USAGE, DIVERGED, DAMAGED = 2, 3, 4

Preset = Annotated[
    str, typer.Argument(help="a preset (`scyc list presets`) or a TOML file", metavar="PRESET|FILE.toml")
]
Root = Annotated[Path, typer.Option(help="the folder of all runs", metavar="DIR")]
Data = Annotated[Path | None, typer.Option(help="a folder with data sets", metavar="DIR")]
Seeds = Annotated[str | None, typer.Option(help="a number (5), a range (0-4) or a list (0,3)", metavar="N|A-B")]
Cycles = Annotated[int | None, typer.Option(help="trainings of a run; one pruning less", min=1)]
Scale = Annotated[float | None, typer.Option(help="multiplies every step count")]
Set = Annotated[list[str] | None, typer.Option("--set", help="part.field=value", metavar="PART.FIELD=VALUE")]
Name = Annotated[str | None, typer.Option(help="the experiment's name; the preset's by default", metavar="EXPERIMENT")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Trust = Annotated[bool, typer.Option("--trust", help="import the code that package.module:name names")]
Format = Annotated[str, typer.Option("--format", help="table, md, csv or json")]
Width = Annotated[int, typer.Option(help="runs in one stack at most (0: all that stack)", min=0)]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if show:
        from importlib.metadata import version as installed

        print(f"scyc {installed('scyc')}")
        raise typer.Exit


@app.command()
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
    engine: Annotated[str, typer.Option(help="auto, stacked or single")] = "auto",
    width: Width = 0,
    threads: Annotated[int, typer.Option(help="threads of one stack on the CPU", min=1)] = 1,
    checkpoint_every: Annotated[float, typer.Option(help="seconds between checkpoints in a cycle", min=0)] = 300.0,
    keep: Annotated[str, typer.Option(help="whose weights stay: last, all or none")] = "last",
    accept_environment: Annotated[bool, typer.Option("--accept-environment", help="resume elsewhere")] = False,
    trust: Trust = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be trained, and stop")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
    format: Format = "table",
) -> None:
    """Train every run of an experiment; what is recorded already is not trained again."""
    layout = chosen_format(format)
    experiment = loaded(preset, seeds, cycles, scale, set_, name, trust)
    from scyc import sweep
    from scyc.data import roots
    from scyc.registry import nearest
    from scyc.store.runs import Store

    if keep not in sweep.KEEP:
        raise nearest("--keep", keep, sweep.KEEP)
    options = sweep.Options(
        device_named(device), engine_named(engine), width, checkpoint_every, keep, accept_environment
    )
    with_threads(threads)
    found = sweep.datasets(experiment, roots(data, os.environ), trust=trust)
    ids = sweep.identities(experiment, found)
    store = Store(root)
    if dry_run:
        print_dry(experiment, ids, store)
        return
    sweep.register(store, experiment, ids, found)
    control = sweep.Control()
    training = sweep.Training(store, found, options, control)
    with stopping(control), watching(control, sweep.unfinished(store, experiment, ids), quiet=quiet):
        training.train(sweep.unfinished(store, experiment, ids))
    from scyc.report.rows import collect

    results = collect(store, experiment.name)
    print(layout(results))
    out = sys.stdout if format == "table" else sys.stderr
    print(f"results: {root / '.experiments' / (experiment.name + '.json')} ({results.runs} runs in {root})", file=out)
    if training.too_large or any(row.diverged for rows in results.rows.values() for row in rows):
        raise typer.Exit(DIVERGED)


def loaded(
    preset: str,
    seeds: str | None,
    cycles: int | None,
    scale: float | None,
    set_: list[str] | None,
    name: str | None,
    trust: bool = False,
) -> "Experiment":
    from scyc.experiment import load
    from scyc.store.names import named

    short = [("cycles", cycles), ("scale", scale)]
    overrides = [f"{key}={value}" for key, value in short if value is not None] + (set_ or [])
    label = named("experiment", name) if name is not None else None
    return load(preset, seeds=seeds, overrides=overrides, label=label, trust=trust)


def chosen_format(name: str) -> Callable[[Any], str]:
    from scyc.registry import nearest
    from scyc.report.table import FORMATS

    if name not in FORMATS:
        raise nearest("format", name, FORMATS)
    return FORMATS[name]


def device_named(name: str) -> "torch.device":
    import torch

    from scyc.registry import nearest

    if name not in ("auto", "cpu", "cuda"):
        raise nearest("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device cuda: this torch sees no GPU; use --device cpu, or install a torch with CUDA")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def engine_named(name: str) -> str:
    from scyc.registry import nearest
    from scyc.train import ENGINES

    if name not in ENGINES:
        raise nearest("engine", name, ENGINES)
    return name


def with_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def print_dry(experiment: "Experiment", ids: Any, store: Any) -> None:
    from scyc.sweep import complete

    present = set(store.ids())
    for label, names in ids.items():
        for id, run in zip(names, experiment.runs[label], strict=True):
            done = id in present and complete(store, id)
            print(f"{id}  {label}  seed {run.seed}  {'recorded' if done else 'to train'}")


@contextmanager
def stopping(control: "Control") -> Iterator[None]:
    """The first SIGINT or SIGTERM saves the stack after the step in hand; a second one stops at once."""

    def ask(number: int, _: FrameType | None) -> None:
        if control.signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        control.signal = number
        print("stopping after this step; once more stops at once", file=sys.stderr, flush=True)

    former = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def watching(control: "Control", wanted: Any, *, quiet: bool) -> Iterator[None]:
    from scyc.run import effective
    from scyc.terminal import Lines, Live

    if quiet or not wanted:
        yield
        return
    total = sum(effective(run).steps * run.cycles for run in wanted.values())
    if sys.stderr.isatty():
        live = Live(total)
        control.listeners.append(live)
        try:
            yield
        finally:
            live.close()
    else:
        control.listeners.append(Lines(total))
        yield


@app.command()
def report(name: str, root: Root = Path("runs"), format: Format = "table") -> None:
    """The tables of an experiment."""
    from scyc.report.rows import collect
    from scyc.store.runs import Store

    print(chosen_format(format)(collect(Store(root), name)))


@app.command()
def ls(
    experiment: Annotated[str | None, typer.Argument(help="list its runs; without, the experiments")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="list every run of the store")] = False,
    root: Root = Path("runs"),
) -> None:
    """What the store holds."""
    from scyc.report import listing
    from scyc.report.table import aligned
    from scyc.store.runs import Store

    store = Store(root)
    print(aligned(listing.runs(store, experiment) if runs or experiment else listing.experiments(store), left=True))


@app.command()
def show(id: str, root: Root = Path("runs")) -> None:
    """One run: its configuration, cycles and events. The first digits of an id are enough."""
    from scyc.report import listing
    from scyc.store.runs import Store

    store = Store(root)
    print(listing.show(store, store.find(id)))


@app.command()
def diff(one: str, other: str, root: Root = Path("runs")) -> None:
    """Where two runs differ, in configuration and outcome."""
    from scyc.report import listing
    from scyc.report.table import aligned
    from scyc.store.runs import Store

    store = Store(root)
    print(aligned(listing.diff(store, store.find(one), store.find(other)), left=True))


@app.command()
def rm(
    names: Annotated[list[str], typer.Argument(help="run ids, or names of experiments with all their runs")],
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    root: Root = Path("runs"),
) -> None:
    """Delete runs, or experiments with the runs that no other experiment holds."""
    from scyc.report.listing import only_in
    from scyc.store.runs import Store

    store = Store(root)
    experiments = [name for name in names if name in store.experiments()]
    ids = [store.find(name) for name in names if name not in experiments] + sorted(only_in(store, experiments))
    if not yes:
        typer.confirm(f"delete {len(ids)} runs and {len(experiments)} experiments in {root}?", abort=True)
    for id in ids:
        store.remove(id)
    for name in experiments:
        store.remove_manifest(name)
    print(f"deleted {len(ids)} runs and {len(experiments)} experiments")


@app.command()
def lr(
    preset: Preset,
    cycle: Annotated[int | None, typer.Option(help="print every step of this cycle", min=0)] = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
) -> None:
    """The peak of every cycle, or the learning rate of every step of one, before paying for them."""
    from scyc import describe
    from scyc.report.table import aligned

    experiment = loaded(preset, "1", cycles, scale, set_, None)
    print(aligned(describe.peaks(experiment) if cycle is None else list(describe.every_step(experiment, cycle))))
    for line in describe.remarks(experiment):
        print(line, file=sys.stderr)


@app.command()
def plan(
    preset: Preset,
    seeds: Seeds = None,
    cycles: Cycles = None,
    scale: Scale = None,
    set_: Set = None,
    data: Data = None,
    device: Device = "auto",
    width: Width = 0,
    trust: Trust = False,
) -> None:
    """Runs, stacks, steps, memory, disk and time, measured on this machine."""
    from scyc import plan as planning
    from scyc.data import DataError, roots
    from scyc.report.table import aligned
    from scyc.sweep import datasets

    with_threads(1)
    experiment = loaded(preset, seeds, cycles, scale, set_, None, trust)
    try:
        found = datasets(experiment, roots(data, os.environ), trust=trust)
    except DataError as error:
        found = {}
        print(f"planned with images of the same shape: {error}", file=sys.stderr)
    plans = planning.planned(experiment, found, device=device_named(device), width=width)
    print(aligned(planning.grid(plans)))


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help="peaks, shapes, scores, scopes, units, rewinds, models, data, optimizers, presets")
    ],
) -> None:
    """What one can choose, with fields, defaults and a line each."""
    from scyc.describe import listing
    from scyc.report.table import aligned

    print(aligned(listing(what), left=True))


def main() -> None:
    """Run a command; what the user can mend is one line and an exit code, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        code = failed(error)
    sys.stdout.flush()
    raise SystemExit(code or 0)


def failed(error: Exception) -> int:
    """Say it, and give the exit code: 2 usage, 4 data or checkpoints, 128 + signal."""
    import click

    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, click.Abort):
        print("nothing done", file=sys.stderr)
        return 1
    name = {kind.__name__ for kind in type(error).__mro__}
    if "Interrupted" in name:
        print(f"saved; resume with: {' '.join(['scyc', *sys.argv[1:]])}", file=sys.stderr)
        return 128 + int(getattr(error, "signal", 0))
    if not isinstance(error, ValueError | OSError):
        raise error
    print(f"scyc: {' '.join(str(error).split())}", file=sys.stderr)
    return DAMAGED if name & {"DataError", "Integrity", "Full"} else BAD_USAGE


if __name__ == "__main__":
    main()
