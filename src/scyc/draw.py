"""Randomness as a function of what it is for: keyed by (purpose, seed, cycle, epoch or step), never a shared stream."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


def key(purpose: str, *numbers: int) -> int:
    """62 bits that depend on all of the key and on nothing else; a step can be added without overflow."""
    text = "/".join((purpose, *map(str, numbers)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 2


def generator(purpose: str, *numbers: int) -> torch.Generator:
    """A generator on the CPU, so that every device sees the same draws."""
    return torch.Generator().manual_seed(key(purpose, *numbers))


def permutation(size: int, purpose: str, *numbers: int) -> Tensor:  # (size,)
    return torch.randperm(size, generator=generator(purpose, *numbers))


@contextmanager
def seeded(purpose: str, *numbers: int) -> Iterator[None]:
    """Torch's own CPU stream set by a key, and as it was afterwards: for code that draws from it, as layers do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(purpose, *numbers))
        yield


def stream() -> dict[str, Tensor]:
    """Where torch's own random streams stand, on the CPU and on every CUDA device in use."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return {"cpu": torch.get_rng_state(), **{f"cuda:{k}": state for k, state in enumerate(devices)}}


def set_stream_(state: Mapping[str, Tensor]) -> None:
    """Put them back; those of devices that are not here are left out."""
    torch.set_rng_state(state["cpu"].cpu())
    for k in range(torch.cuda.device_count()):
        if f"cuda:{k}" in state:
            torch.cuda.set_rng_state(state[f"cuda:{k}"].cpu(), k)


def mixed(words: Tensor) -> Tensor:
    """The splitmix64 finaliser (Steele et al., 2014) on int64: draws without state, alike on every device."""
    words = (words ^ ((words >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    words = (words ^ ((words >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return words ^ ((words >> 31) & 0x1FFFFFFFF)


def whole(
    keys: Tensor,  # (n,) int64
    step: int | Tensor,
    rows: int,
    below: tuple[int, ...],
) -> tuple[Tensor, ...]:  # each (n, rows) int64
    """For every key and row one whole number in [0, bound) for each bound."""
    words = mixed(keys + step)[:, None] + torch.arange(rows, device=keys.device) * len(below)
    return tuple((mixed(words + lane) & 0x7FFFFFFFFFFFFFFF) % bound for lane, bound in enumerate(below))
