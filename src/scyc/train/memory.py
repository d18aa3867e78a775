"""Where memory ends: which errors say so, and how what a failed attempt held is given back."""

import errno
import gc

import torch

WORDS = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


def out_of_memory(error: BaseException) -> bool:
    """Every allocator has its own words for it; only CUDA's has a type."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in WORDS)


def released(device: torch.device) -> None:
    """Nobody refers to the failed attempt any more: let its memory go before the next one needs it."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
