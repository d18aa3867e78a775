"""`scyc doctor`."""

from pathlib import Path

import typer

from scyc.cli.options import Root

BAD_USAGE, DAMAGED = 2, 4


def doctor(root: Root = Path("runs")) -> None:
    """Check this installation and a folder of runs; what is wrong is a line each, with what to do."""
    from scyc.doctor import installation, stored
    from scyc.store.runs import Store

    kinds = set()
    for findings in (installation(root), stored(Store(root))):
        for finding in findings:
            kinds.add(finding.kind)
            print(finding, flush=True)
    if kinds & {"damaged", "wrong"}:
        raise typer.Exit(DAMAGED if "damaged" in kinds else BAD_USAGE)
