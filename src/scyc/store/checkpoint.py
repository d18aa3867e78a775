"""Checkpoints of a stack: the newest two generations, each one file that proves its own content."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from scyc.store import files, weights
from scyc.store.files import Integrity
from scyc.store.journal import canonical, parse

FIRST = re.compile(rb"scyc-checkpoint 1 ([0-9a-f]{64})\n")
NAME = re.compile(r"[0-9]{10,20}\.ckpt")
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    head: dict[str, Any]
    tensors: dict[str, Tensor]  # each (runs, ...)
    generation: int
    rejected: tuple[str, ...] = ()  # newer files that were refused, and why


def save(folder: Path, head: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write the next generation, then delete those before the last two; `head["stack"]` says whose it is."""
    if not isinstance(head.get("stack"), str):
        raise ValueError(f"{folder}: the head of a checkpoint needs the field 'stack', the id of its stack")
    files.folder_(folder)
    former = generations(folder)
    generation = number(former[-1]) + 1 if former else 0
    payload = weights.encode(tensors, {"generation": str(generation), "head": canonical(head).decode()})
    first = f"scyc-checkpoint 1 {payload.sha256()}\n".encode()
    path = folder / f"{generation:010}.ckpt"
    files.write_parts(path, chain([first], payload), len(first) + payload.size)
    for old in [*former, path][:-KEPT]:  # only now that the new one is durable
        with suppress(FileNotFoundError):
            os.unlink(old)
    return path


def load(folder: Path, *, stack: str) -> Checkpoint:
    """The newest generation that is whole and of this stack; the newer ones that are not are named in `rejected`."""
    payload, path, head, rejected = newest(folder, stack)
    return Checkpoint(head, weights.decode(payload, path), number(path), rejected)


def head(folder: Path, *, stack: str) -> dict[str, Any]:
    """What `load` would give as head, checked as strictly, without its tensors."""
    return newest(folder, stack)[2]


def exists(folder: Path) -> bool:
    return folder.is_dir() and bool(generations(folder))


def generations(folder: Path) -> list[Path]:
    """Checkpoint files, oldest first."""
    return sorted((folder / name for name in os.listdir(folder) if NAME.fullmatch(name)), key=number)


def number(path: Path) -> int:
    return int(path.stem)


def newest(folder: Path, stack: str) -> tuple[bytes, Path, dict[str, Any], tuple[str, ...]]:
    rejected: list[str] = []
    for path in reversed(generations(folder) if folder.is_dir() else []):
        try:
            payload, found = verified(path, stack)
            return payload, path, found, tuple(rejected)
        except FileNotFoundError:  # its writer has gone on meanwhile
            return newest(folder, stack)
        except (Integrity, OSError) as error:
            rejected.append(str(error))
    why = "; ".join(rejected) or "it is empty or missing"
    raise Integrity(f"{folder}: no usable checkpoint: {why}; remove the folder to start again from what is recorded")


def verified(path: Path, stack: str) -> tuple[bytes, dict[str, Any]]:
    """Payload and head; what a glance at the beginning and the size can refuse is refused before it is all read."""
    with files.opened(path) as file:
        first = FIRST.fullmatch(file.readline(100))
        if first is None:
            raise Integrity(f"{path}: not a checkpoint, it should begin 'scyc-checkpoint 1 <sha256>'; remove it")
        start = file.tell()
        metadata, size = weights.peek(file, path)
        found = owned(metadata, path, stack)
        if (actual := os.fstat(file.fileno()).st_size) != start + size:
            raise Integrity(f"{path}: has {actual} bytes, expected {start + size}; remove it")
        file.seek(start)
        payload = file.read()
    if hashlib.sha256(payload).hexdigest().encode() != first[1]:
        raise Integrity(f"{path}: its content does not match the sha256 on its first line; remove it")
    return payload, found


def owned(metadata: Mapping[str, str], path: Path, stack: str) -> dict[str, Any]:
    """The head, if this file was written as this generation of this stack and not copied here from elsewhere."""
    try:
        found = parse(metadata["head"].encode())
        if (found["stack"], metadata["generation"]) == (stack, str(number(path))):
            return found  # type: ignore[no-any-return]
        of = f"generation {metadata['generation']} of stack {found['stack']}"[:99].replace("\n", " ")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Integrity(f"{path}: its head is unreadable ({error!r}); remove it") from None
    raise Integrity(f"{path}: holds {of}, expected generation {number(path)} of stack {stack}; remove it")
