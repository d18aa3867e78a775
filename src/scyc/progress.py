"""A running training's place as a small file beside its store, for whoever watches it from another process."""

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scyc.pace import Pace
from scyc.stack import Record, Stack
from scyc.store.names import named
from scyc.store.runs import Store

EVERY = 1.0  # seconds
STALE = 30.0  # seconds without news after which nobody may be training


def path_of(store: Store, name: str) -> Path:
    return store.root / ".progress" / f"{named('experiment', name)}.json"


def read(store: Store, name: str) -> dict[str, Any]:
    """The last news, with its age in seconds; empty where there is none."""
    try:
        found = json.loads(path_of(store, name).read_text("utf-8"))
        return {**found, "age": max(0.0, time.time() - float(found["time"]))}
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or half of one from a machine that died
        return {}


class News:
    """A listener that keeps the file; where it cannot be written the training goes on without."""

    def __init__(self, store: Store, name: str, total: int) -> None:
        self.path, self.pace, self.told = path_of(store, name), Pace(total), 0.0

    def began(self, stack: Stack) -> None:
        self.pace.began_at(stack)

    def stepped(self, stack: Stack) -> None:
        self.pace.stepped(stack)
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            self.tell(dataclasses.asdict(self.pace.standing(stack)))

    def tell(self, facts: Mapping[str, Any]) -> None:
        """Whole or not at all, but not durable: it is old in a second."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps({**facts, "time": time.time(), "pid": os.getpid()}))
            os.replace(beside, self.path)

    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None:
        """Told with the next step."""

    def said(self, line: str) -> None:
        """Words are for others."""

    def close(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
