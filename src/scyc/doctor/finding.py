"""One line of what was found."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """`ok` and `note` are for information; `wrong` keeps one from working; `damaged` is not what was written."""

    kind: Literal["ok", "note", "wrong", "damaged"]
    line: str

    def __str__(self) -> str:
        return f"{self.kind:7}  {' '.join(self.line.split())}"
