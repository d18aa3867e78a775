"""The declared precision of a run, and bits that repeat: made true for the time of a block and undone after it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,  # weights stay float32; matrix products and convolutions run in bfloat16
    "float64": torch.float64,
}
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # cuBLAS reads it when CUDA starts
REPEATING = (":4096:8", ":16:8")  # its values with which matrix products repeat, the fast one first


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


@contextmanager
def repeating(wanted: bool) -> Iterator[None]:
    """Where wanted, the same bits every time on one device; what torch cannot promise them for is refused."""
    if not wanted:
        yield
        return
    cudnn, workspace = torch.backends.cudnn, os.environ.get(WORKSPACE)
    before = cudnn.deterministic, cudnn.benchmark
    algorithms = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ[WORKSPACE] = workspace if workspace in REPEATING else REPEATING[0]
    cudnn.deterministic, cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        started = f"CUDA ran before {WORKSPACE} was set; set it to {REPEATING[0]} before the first use of torch"
        why = started if WORKSPACE in str(error) else f"{str(error).split(', but')[0][:200]}; train without it"
        raise ValueError(f"--deterministic cannot be had here: {why}") from error
    finally:
        torch.use_deterministic_algorithms(algorithms[0], warn_only=algorithms[1])
        cudnn.deterministic, cudnn.benchmark = before
        os.environ.pop(WORKSPACE) if workspace is None else os.environ.update({WORKSPACE: workspace})
