"""Where memory ends: which errors say so, how what a failed attempt held is given back, and what a step may keep."""

import ctypes
import errno
import gc
from contextlib import suppress

import torch

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names for what `mallopt` sets
LARGEST, IDLE = 2**25, 2**28  # bytes: of one block that is kept (the most glibc allows), and of all that lie idle
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


def keep_freed() -> None:
    """Leave what a step frees to the next step: glibc hands it back, and every page of it costs a fault again.

    A quarter to a third of a small network's step on the CPU; other C libraries have no such call, and need none.
    """
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        if mallopt(MMAP_THRESHOLD, LARGEST):
            mallopt(TRIM_THRESHOLD, IDLE)
