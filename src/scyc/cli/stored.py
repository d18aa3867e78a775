"""What the store holds: `scyc report`, `ls`, `show`, `diff`, `rm`."""

from pathlib import Path
from typing import Annotated

import typer

from scyc.cli.options import Format, Root, chosen_format


def report(name: str, root: Root = Path("runs"), format: Format = "table") -> None:
    """The tables of an experiment, or of an oracle."""
    from scyc.report import oracle
    from scyc.report.rows import collect
    from scyc.store.runs import Store

    store, layout = Store(root), chosen_format(format)
    if "tune" in store.manifest(name):
        raise ValueError(f"experiment {name!r} is a tuning; `scyc tune` prints it again without training")
    print(
        oracle.FORMATS[format](oracle.collect(store, name))
        if oracle.is_oracle(store, name)
        else layout(collect(store, name))
    )


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
