"""`scyc watch`."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from scyc.cli.options import Root
from scyc.cli.stopping import Stopped
from scyc.cli.stored import try_page


def watch(
    name: Annotated[str, typer.Argument(help="an experiment that is running, or will be", metavar="EXPERIMENT")],
    root: Root = Path("runs"),
    port: Annotated[int, typer.Option(help="of 127.0.0.1; 8765 where it is free", min=0, max=65535)] = 0,
    open_: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
) -> None:
    """A page on 127.0.0.1 that follows an experiment, and stops when that is done."""
    from scyc import watch as watching
    from scyc.store.runs import Store

    store = Store(root)
    followed = watching.Watch(store, name)
    server = watching.served(followed, port)
    address = f"http://{watching.HOST}:{server.server_port}/"
    print(f"watching {name}: {address}  (stops when it is done; Ctrl-C stops watching alone)", flush=True)
    if open_:
        webbrowser.open(address)
    try:
        watching.follow(followed, server)
    except Stopped as stop:
        print("stopped watching", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    print(f"{name} is done")
    try_page(store, [name], sys.stdout)
