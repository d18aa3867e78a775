"""A training whose disk is full from one of its writes on: nothing is lost, and with room it goes on where it was."""

import os
import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import TINY, command, journals
from scyc.store import checkpoint
from scyc.store.runs import Store

WORDS = ["run", "tiny.toml", "--checkpoint-every", "0", "--root", "disk/runs", "--quiet"]
SAID = re.compile(r"scyc: (disk/runs/\S+): no room for ([0-9]+) bytes \(.+\); free some and repeat, .+\n")
MOUNTED = 2**21  # bytes

Fault = Callable[[int], object]  # called with the descriptor that is about to be written to


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with tiny.toml, and a small file system of its own at disk/."""
    (tmp_path / "tiny.toml").write_text(TINY)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MOUNTED}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield tmp_path
    subprocess.run(["umount", str(disk)], check=True)


def at_write(number: int, fault: Fault) -> Callable[[], None]:
    """What makes the fault happen right before the n-th write of a process."""

    def spoil() -> None:
        write, left = os.write, iter(range(number, -1, -1))

        def writing(fd: int, data: bytes) -> int:
            if next(left, -1) == 0:
                os.write = write
                fault(fd)
            return write(fd, data)

        os.write = writing

    return spoil


def filled(fd: int) -> None:
    """Take every page that the disk has left."""
    ballast = os.open("disk/ballast", os.O_WRONLY | os.O_CREAT)
    for size in (2**16, 1):
        try:
            while True:
                os.write(ballast, bytes(size))
        except OSError:
            pass
    os.close(ballast)


def limited(fd: int) -> None:
    """Let no file grow beyond what this one has, and a byte: the kernel stops the write midway."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.fstat(fd).st_size + 1, resource.RLIM_INFINITY))


def writes(folder: Path) -> int:
    """How often a training writes that nothing disturbs."""
    count = folder / "count"

    def counted() -> None:
        write = os.write

        def writing(fd: int, data: bytes) -> int:
            with count.open("ab") as file:
                file.write(b".")
            return write(fd, data)

        os.write = writing

    assert command(folder, WORDS, counted).code == 0
    return count.stat().st_size


@pytest.mark.torture
@pytest.mark.parametrize("fault", [filled, limited], ids=["tmpfs", "RLIMIT_FSIZE"])
def test_a_full_disk_at_any_write_loses_nothing(
    folder: Path, fault: Fault, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    every = writes(folder)
    undisturbed = journals(folder / "disk/runs")
    assert len(undisturbed) == 2
    count = size(4, every)
    chosen = [every * k // count for k in range(count)]
    refused = fallen = 0
    for number in chosen:
        subprocess.run(["rm", "-r", "disk/runs"], cwd=folder, check=True)
        said = command(folder, WORDS, at_write(number, fault))
        recorded = journals(folder / "disk/runs")
        if said.code == 0:  # what was left to write had room in pages that are there already
            assert fault is filled
            assert recorded == undisturbed
        else:
            assert said.code == 4, (number, said.err)
            assert (found := SAID.fullmatch(said.err)), (number, said.err)
            assert int(found[2]) > 0
            refused += 1
        assert not list((folder / "disk").rglob("*.tmp"))
        store = Store(folder / "disk/runs")
        for stack in store.stacks():  # the generations there are load, all of them
            generations = checkpoint.generations(store.stack_folder(stack))
            assert [checkpoint.verified(path, stack)[1]["stack"] for path in generations] == [stack] * len(generations)
            fallen += 1
        assert all(undisturbed[id].startswith(rows) for id, rows in recorded.items())
        (folder / "disk/ballast").unlink(missing_ok=True)
        assert command(folder, WORDS).code == 0
        assert journals(folder / "disk/runs") == undisturbed, number
        for id in store.ids():
            store.load_state(id, "cycle-002", store.records(id)[-1]["state"])
    assert refused >= len(chosen) - 1 - len(chosen) // 10
    assert fallen > len(chosen) // 2
    figure(f"disk full ({fault.__name__}) at {len(chosen)} of {every} writes: {refused} said so, nothing lost")
