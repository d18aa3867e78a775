"""What leaves the store: `scyc export`, `shrink`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scyc.cli.options import Data, Root, Trust, with_threads

if TYPE_CHECKING:
    from scyc.trained import Trained

Id = Annotated[str, typer.Argument(metavar="RUN", help="a run's id, or its first digits (`scyc ls`)")]
Out = Annotated[Path | None, typer.Option(help="the file; by default named after run and cycle", metavar="FILE")]
Cycle = Annotated[int | None, typer.Option(help="the cycle; by default the last whose weights are kept", min=0)]
Own = Annotated[str, typer.Option("--path", help="where the run's own data lies (npz, folder)", metavar="PATH")]
Threads = Annotated[int, typer.Option(help="threads on the CPU while times are measured", min=1)]


def export(
    run: Id,
    to: Annotated[str, typer.Option(help="safetensors, onnx or torch")] = "safetensors",
    out: Out = None,
    cycle: Cycle = None,
    root: Root = Path("runs"),
    data: Data = None,
    path: Own = "",
    threads: Threads = 1,
    trust: Trust = False,
) -> None:
    """A run's network as a file for other programs, its masks beside it, and a sheet that describes both."""
    from scyc import export as exporting

    exporting.form(to)
    found = opened(run, cycle, root, data, path, threads, trust)
    for file in exporting.write(found, to, out):
        print(file)
    print(exporting.zeros(found))


def shrink(
    run: Id,
    to: Annotated[str, typer.Option(help="safetensors or onnx")] = "safetensors",
    out: Out = None,
    cycle: Cycle = None,
    root: Root = Path("runs"),
    data: Data = None,
    path: Own = "",
    threads: Threads = 1,
    trust: Trust = False,
) -> None:
    """Take pruned filters out of a run's network: the narrow network as a file, and what it saves."""
    from scyc import shrink as shrinking
    from scyc.export import form, place
    from scyc.report.table import aligned

    form(to, among=shrinking.WRITES)
    place(out or Path(run))
    found = shrinking.shrunk(opened(run, cycle, root, data, path, threads, trust))
    files = shrinking.save(found, to, out)
    print(aligned(shrinking.table(found)), *shrinking.words(found), *files, sep="\n")


def opened(
    run: str, cycle: int | None, root: Path, data: Path | None, path: str, threads: int, trust: bool
) -> "Trained":
    from scyc.data import roots
    from scyc.store.runs import Store
    from scyc.trained import trained

    with_threads(threads)
    store = Store(root)
    return trained(store, store.find(run), roots(data, os.environ), cycle=cycle, path=path, trust=trust)
