"""Small examples of what is stored, and what must come back."""

import os
from pathlib import Path

import torch

from scyc.store import checkpoint

A, B, C = "00000000000a", "0000000000b0", "ffffffffffff"
STACK = "0123456789ab"
ROWS = [{"cycle": 0, "loss": 0.1}, {"cycle": 1, "loss": None}, {"cycle": 2, "why": "ü\n\"'"}]
CONFIG = {"network": "mlp", "lr": {"peak": 0.03, "drops": [20, 25]}, "seed": 0}


def record(cycle: int) -> dict[str, object]:
    return {"cycle": cycle, "density": 0.8**cycle, "accuracy": None}


def crc32(data: bytes) -> int:
    """Bit by bit, from the polynomial."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def save(folder: Path, step: int, stack: str = STACK) -> Path:
    tensors = {
        "weight": torch.full((2, 3), float(step)),
        "mask": torch.tensor([[True], [False]]),
        "order": torch.tensor([[step]] * 2),
        "half": torch.full((2, 1), float(step), dtype=torch.bfloat16),
        "state": torch.full((2, 5), step % 256, dtype=torch.uint8),
    }
    return checkpoint.save(folder, {"stack": stack, "step": step, "lr": 0.1}, tensors)


def step_of(found: checkpoint.Checkpoint) -> int:
    """The step that head and tensors agree on."""
    step = found.head["step"]
    assert found.head == {"stack": STACK, "step": step, "lr": 0.1}
    assert torch.equal(found.tensors["weight"], torch.full((2, 3), float(step)))
    assert torch.equal(found.tensors["mask"], torch.tensor([[True], [False]]))
    assert torch.equal(found.tensors["order"], torch.tensor([[step]] * 2))
    assert found.tensors["half"].dtype == torch.bfloat16
    assert torch.equal(found.tensors["state"], torch.full((2, 5), step % 256, dtype=torch.uint8))
    return int(step)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
