"""What the store holds: `scyc report`, `ls`, `show`, `diff`, `rm`."""

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from scyc.cli.options import Format, Root, chosen_format

if TYPE_CHECKING:
    from scyc.store.runs import Store


def report(
    names: Annotated[list[str], typer.Argument(help="an experiment or an oracle; several are compared")],
    root: Root = Path("runs"),
    format: Format = "table",
    page: Annotated[Path | None, typer.Option(help="write the page there; DIR/.reports by default")] = None,
    figures: Annotated[Path | None, typer.Option(help="the figures as SVG, PDF, PNG, and the tables as LaTeX")] = None,
    open_: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
) -> None:
    """The tables of an experiment, and a page with its figures."""
    from scyc.report.formats import joined
    from scyc.store.runs import Store

    chosen_format(format)
    store, names = Store(root), list(dict.fromkeys(names))
    print(joined(names, [table_of(store, name, format) for name in names], format))
    out = sys.stdout if format == "table" else sys.stderr
    if page is not None or open_:
        path = shown_page(store, names, page, out)
        if open_:
            webbrowser.open(path.resolve().as_uri())
    elif format == "table":
        try_page(store, names, out)
    if figures is not None:
        draw_figures(store, names, figures)


def table_of(store: "Store", name: str, format: str) -> str:
    from scyc.report import oracle
    from scyc.report.rows import collect

    if "tune" in store.manifest(name):
        raise ValueError(f"experiment {name!r} is a tuning; `scyc tune` prints it again without training")
    if oracle.is_oracle(store, name):
        return oracle.FORMATS[format](oracle.collect(store, name))
    return chosen_format(format)(collect(store, name))


def shown_page(store: "Store", names: list[str], path: Path | None, out: TextIO) -> Path:
    from scyc.report.page import write

    written = write(store, names, path)
    print(f"page: {written}", file=out)
    return written


def try_page(store: "Store", names: list[str], out: TextIO) -> None:
    """A page that nobody asked for by name must not turn a result into a failure."""
    try:
        shown_page(store, names, None, out)
    except OSError as error:
        print(f"no page: {error}; `scyc report {' '.join(names)} --page FILE` writes it elsewhere", file=sys.stderr)


def draw_figures(store: "Store", names: list[str], folder: Path) -> None:
    from scyc.report.page import draw

    written = [path for name in names for path in draw(store, name, folder)]
    print(f"figures: {len(written)} files in {folder}", file=sys.stderr)


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


def show(id: str, root: Root = Path("runs")) -> None:
    """One run: its configuration, cycles and events. The first digits of an id are enough."""
    from scyc.report import listing
    from scyc.store.runs import Store

    store = Store(root)
    print(listing.show(store, store.find(id)))


def diff(one: str, other: str, root: Root = Path("runs")) -> None:
    """Where two runs differ, in configuration and outcome."""
    from scyc.report import listing
    from scyc.report.table import aligned
    from scyc.store.runs import Store

    store = Store(root)
    print(aligned(listing.diff(store, store.find(one), store.find(other)), left=True))


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
