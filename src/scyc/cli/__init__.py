"""The command line: each command is a few lines that call public functions."""

import errno
import os
import shlex
import sys
from typing import Annotated

import typer

from scyc.cli import before, data, deploy, distribution, doctor, stored, study, train, watching
from scyc.cli.stopping import Stopped, ending, handled

__all__ = ["app", "main"]

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch loads: waiting threads must not spin
BAD_USAGE, DAMAGED = 2, 4

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Iterative pruning of PyTorch networks, and the learning rate that goes with it.",
)
app.command()(train.run)
app.command()(distribution.distribution)
app.command()(study.oracle)
app.command()(study.tune)
app.command()(before.plan)
app.command()(before.lr)
app.command("list")(before.list_)
app.add_typer(data.commands, name="data")
app.command()(stored.report)
app.command()(watching.watch)
app.command()(stored.ls)
app.command()(stored.show)
app.command()(stored.diff)
app.command()(stored.rm)
app.command()(deploy.export)
app.command()(deploy.shrink)
app.command()(doctor.doctor)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if show:
        from importlib.metadata import version as installed

        print(f"scyc {installed('scyc')}")
        raise typer.Exit


def main() -> None:
    """Run a command; what the user can mend is one line and an exit code, never a traceback."""
    try:
        with handled(ending):
            code = app(standalone_mode=False)
            sys.stdout.flush()
    except (Exception, Stopped) as error:
        code = failed(error)
    raise SystemExit(code or 0)


def failed(error: BaseException) -> int:
    """Say it, and give the exit code: 2 usage, 4 data or checkpoints, 128 + signal."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, typer.Abort):
        print("nothing done", file=sys.stderr)
        return 1
    show = getattr(error, "show", None)  # what the parser refuses knows how to say it
    if show is not None:
        show()
        return BAD_USAGE
    name = {kind.__name__ for kind in type(error).__mro__}
    again = shlex.join(["scyc", *sys.argv[1:]])
    if isinstance(error, Stopped):
        print(f"stopped with nothing unsaved; go on with: {again}", file=sys.stderr)
        return 128 + error.signal
    if "Interrupted" in name:
        print(f"saved; resume with: {again}", file=sys.stderr)
        return 128 + int(getattr(error, "signal", 0))
    if not isinstance(error, ValueError | OSError | MemoryError) and "memory" not in str(error).lower():
        raise error
    print(f"scyc: {' '.join(str(error).split())}{advice(error)}", file=sys.stderr)
    return DAMAGED if name & {"DataError", "Integrity", "Full"} else BAD_USAGE


def advice(error: BaseException) -> str:
    """What to do about errors that the system words."""
    if isinstance(error, PermissionError) or getattr(error, "errno", 0) == errno.EROFS:
        return "; choose a folder of your own, with --root or --data"
    if isinstance(error, MemoryError | RuntimeError):
        return " memory is too small; take fewer images (data.limit), a smaller network or batch, or another machine"
    return ""
