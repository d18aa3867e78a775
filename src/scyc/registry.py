"""Names for things one can choose: a plain dict per kind, then entry points `scyc.<kind>`, then an error that helps."""

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any


class UnknownName(ValueError):
    """A name that is in no registry; the message names the nearest known one."""


def nearest(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    known, name = sorted(known), clipped(str(name))
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    return UnknownName(f"unknown {kind} {name!r}; {hint}")


def clipped(text: str) -> str:
    """Names and keys can be of any length where a file says them; a line of words cannot."""
    return text if len(text) <= 100 else text[:97] + "..."


@dataclass(frozen=True)
class Kind:
    """One axis of choice: its entries are called as `entry(*arguments, **fields)`, with `arguments` positional ones."""

    name: str
    table: Mapping[str, Callable[..., Any]]
    arguments: int = 0
    imports: bool = field(default=False, kw_only=True)  # may entries be given as package.module:callable?

    def names(self) -> list[str]:
        return sorted({*self.table, *(point.name for point in entry_points(group=f"scyc.{self.name}"))})

    def find(self, name: str, *, trust: bool = False) -> Callable[..., Any]:
        if name in self.table:
            return self.table[name]
        for point in entry_points(group=f"scyc.{self.name}", name=name):
            return point.load()  # type: ignore[no-any-return]
        if self.imports and ":" in name:
            return imported(self.name, name, trust=trust)
        raise nearest(self.name, name, self.names())


def imported(kind: str, path: str, *, trust: bool) -> Callable[..., Any]:
    """The callable at `package.module:name`; imported only where the user said so, never because a file does."""
    if not trust:
        raise ValueError(f"{kind} {path!r} is code outside scyc; to import and run it, add --trust")
    module, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the folder the user stands in, as with `python -m`
    try:
        entry = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{kind} {path!r} cannot be imported: {error}") from error
    if not callable(entry):
        raise ValueError(f"{kind} {path!r} is not callable; name a class or a function")
    return entry  # type: ignore[no-any-return]
