"""The declared precision of a run, made true for the time of a block and undone after it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,  # weights stay float32; matrix products and convolutions run in bfloat16
    "float64": torch.float64,
}


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """For the forward pass alone, as torch advises."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


@contextmanager
def declared(precision: str) -> Iterator[None]:
    """For all of a training: float32 means float32, where cuDNN's own default would be TF32."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
