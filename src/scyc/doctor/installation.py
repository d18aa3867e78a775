"""What scyc stands on: Python, packages, device, memory, disk, and a folder in which writes are durable."""

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from scyc.doctor.finding import Finding
from scyc.store import files

PYTHON = (3, 11)
NEEDED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(>=(?P<least>[0-9.]+))?")
EXTRA = re.compile(r"""extra == ['"](?P<extra>[\w-]+)['"]""")
FOR_DEVELOPERS = ("dev", "dev-all", "docs", "all")  # the last names all others once more
LITTLE_DISK, LITTLE_MEMORY = 10**9, 10**9  # bytes


def installation(root: Path) -> Iterator[Finding]:
    yield python()
    yield from packages(requires("scyc") or [])
    yield from machine()
    yield from folder(root)


def python(running: tuple[int, ...] = sys.version_info[:2]) -> Finding:
    if running < PYTHON:
        return Finding("wrong", f"python {platform.python_version()}: scyc needs 3.11 or newer; install one")
    return Finding("ok", f"python {platform.python_version()}, {platform.system()} {platform.machine()}")


def packages(needed: list[str]) -> Iterator[Finding]:
    """Of scyc and of what it requires, and of the optional ones that are declared for its users."""
    yield Finding("ok", f"scyc {version('scyc')}")
    for text in needed:
        name, extra = NEEDED.match(text), EXTRA.search(text)
        if name and (extra is None or extra["extra"] not in FOR_DEVELOPERS):
            yield package(name["name"], name["least"] or "0", extra["extra"] if extra else "")


def package(name: str, least: str, extra: str) -> Finding:
    fix = f"pip install 'scyc[{extra}]'" if extra else f"pip install '{name}>={least}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        if extra:
            return Finding("note", f"{name} is not installed, which is optional; {fix}")
        return Finding("wrong", f"{name} is not installed; {fix}")
    if numbers(found) < numbers(least):
        return Finding("note" if extra else "wrong", f"{name} {found} is older than {least}; {fix}")
    return Finding("ok", f"{name} {found}")


def numbers(text: str) -> list[int]:
    """`2.13.0+cpu` as [2, 13, 0]: enough to compare releases."""
    return [int(part) for part in re.findall(r"\d+", re.split(r"[^0-9.]", text)[0])]


def machine() -> Iterator[Finding]:
    import torch

    from scyc.footprint import free

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("ok", f"processor with {cores} cores; a stack trains on 1 thread unless --threads says more")
    devices = [torch.device("cpu")]
    for number in range(torch.cuda.device_count()):
        yield Finding("ok", f"cuda:{number} {torch.cuda.get_device_name(number)}")
        devices.append(torch.device("cuda", number))
    if len(devices) == 1:
        yield Finding("note", "torch sees no GPU, so everything trains on the processor")
    for device in devices:
        if available := free(device):
            kind = "ok" if available > LITTLE_MEMORY else "note"
            yield Finding(kind, f"{gigabytes(available)} of memory are free ({device.type})")  # type: ignore[arg-type]


def folder(root: Path) -> Iterator[Finding]:
    """Whether what is written there stays: a file written, synced, renamed and removed, as the store does it."""
    place = next((path for path in (root, *root.absolute().parents) if path.is_dir()), Path("/"))
    available = shutil.disk_usage(place).free
    little = "" if available > LITTLE_DISK else "; `scyc plan` says what a run takes"
    yield Finding("note" if little else "ok", f"{gigabytes(available)} of disk are free at {place}{little}")
    probe, began = place / f".scyc-doctor-{os.getpid()}", time.perf_counter()
    try:
        files.write(probe, b"durable?\n")
        if files.read(probe) != b"durable?\n":
            yield Finding("wrong", f"{place}: what is written there reads otherwise; choose another disk (--root)")
    except OSError as error:
        yield Finding("note", f"{place}: cannot be written ({error.strerror}); train in a folder of your own (--root)")
        return
    finally:
        with suppress(OSError):
            os.unlink(probe)
    missing = "" if place == root else f"; {root} is made by the first run"
    took = f"{1000 * (time.perf_counter() - began):.1f} ms"
    yield Finding("ok", f"{place}: can be written, and is synced in {took}{missing}")


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
