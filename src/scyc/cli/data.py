"""`scyc data`: what is here, getting what is not, and checking what is."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from scyc.cli.options import Data

commands = typer.Typer(
    invoke_without_command=True,
    help="Data sets: which are here, and where was looked; `get` downloads one, `check` verifies it.",
)
DAMAGED = 4

Set = Annotated[str, typer.Argument(help="fashion-mnist, mnist, cifar10 or imagenet200", metavar="NAME")]


@commands.callback()
def present(context: typer.Context, data: Data = None) -> None:
    if context.invoked_subcommand is not None:
        return
    from scyc.data import present as listed
    from scyc.data import roots
    from scyc.report.table import aligned

    places = roots(data, os.environ)
    rows = [
        [row.name, str(row.place) if row.place else f"not here; get it: scyc data get {row.name}"]
        for row in listed(places)
    ]
    print(aligned([["data set", "where"], *rows], left=True))
    print(f"looked in {', '.join(map(str, places))}")


@commands.command()
def get(name: Set, data: Annotated[Path, typer.Option(help="where to", metavar="DIR")] = Path("data")) -> None:
    """Download a set from its own page, resumed where a transfer stopped, checked before it counts."""
    from scyc.data.fetch import fetch

    def progress(file: str, done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{file}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB", end="", file=sys.stderr, flush=True)

    print(fetch(name, data, progress))


@commands.command()
def check(name: Set, data: Data = None) -> None:
    """Every file of a set against its published checksum."""
    from scyc.data import check as checked
    from scyc.data import roots

    states = checked(name, roots(data, os.environ))
    for path, state in states:
        print(f"{state}  {path}" if state in ("ok", "missing") else f"damaged  {path}: {state}")
    if any(state != "ok" for _, state in states):
        raise typer.Exit(DAMAGED)
