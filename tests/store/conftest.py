"""Flipped bits, and small stores to injure."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from stored import CONFIG, ROWS, A, B, record

from scyc.store import checkpoint, journal
from scyc.store.runs import Store


@pytest.fixture
def flips() -> Callable[[Path], Iterator[str]]:
    """Flip every single bit of a file in turn, and put the file back at the end."""

    def every(path: Path) -> Iterator[str]:
        data = path.read_bytes()
        assert data
        with path.open("r+b", buffering=0) as file:
            for place, byte in enumerate(data):
                for bit in range(8):
                    os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), place)
                    yield f"bit {bit} of byte {place}"
                os.pwrite(file.fileno(), bytes([byte]), place)

    return every


@pytest.fixture
def store(tmp_path) -> Store:
    """Two runs, of two cycles and of one, an experiment and a stack."""
    store = Store(tmp_path / "runs")
    store.create(A, CONFIG)
    store.create(B, {"seed": 1})
    for id, cycle in ((A, 0), (B, 0), (A, 1)):
        store.append(id, record(cycle))
    store.write_manifest("table-a@0.1", {"runs": [A, B]})
    checkpoint.save(store.stack_folder("stack"), {"stack": "stack"}, {"a": torch.zeros(2)})
    return store


@pytest.fixture
def path(tmp_path) -> Path:
    """A journal of three rows."""
    path = tmp_path / "a.jsonl"
    journal.append_(path, ROWS)
    return path
