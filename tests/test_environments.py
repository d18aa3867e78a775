"""Killed trainings that go on elsewhere: read-only, moved, with another clock, torch, machine or number of threads."""

import ctypes
import datetime
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import colour, finished, small, stack_of
from faults import Faults
from scyc.store import runs
from scyc.store.runs import Store

LONG = """
seeds = 2
[run]
data = { name = "npz", path = "own.npz" }
model = { name = "mlp", widths = [6] }
steps = 60
batch = 12
cycles = 2
[schedules.scyc]
peak = { name = "scyc", eps = 0.05, delta = 0.1, q = 0, beta = 4 }
shape = "constant"
"""
RUN = ["run", "long.toml", "--checkpoint-every", "0.02", "--quiet"]
ORACLE = ["oracle", "long.toml", "--peaks", "0.05,0.1", "--checkpoint-every", "0.02", "--quiet"]
NEW_MOUNTS = 0x20000  # CLONE_NEWNS

pytestmark = [pytest.mark.torture, pytest.mark.slow]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of an undisturbed training, and beside them those of one, and of a search, that were killed."""
    finished(stack_of([small()], colour()))  # what torch imports when it first trains, it imports here
    path, faults, images = tmp_path_factory.mktemp("made"), Faults(), colour().train
    np.savez(path / "own.npz", images=images.images.permute(0, 2, 3, 1).numpy(), labels=images.labels.numpy())
    (path / "long.toml").write_text(LONG)
    assert faults.status(faults.command([*RUN, "--root", "undisturbed"], path)) == 0
    faults.killed_midway(RUN, path, "runs")
    faults.killed_midway(ORACLE, path, "searched")
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "here"))


def done(faults: Any, words: list[str], folder: Path, change: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Exit code and stderr of a command in a changed world."""
    pid = faults.command(words, folder, change)
    return faults.status(pid), (folder / f"err-{pid}").read_text()


def records(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in root.glob("*/records.jsonl")}


def read_only(*paths: str) -> None:
    """For this process alone, and for root too."""
    if os.getuid():
        for path in paths:
            subprocess.run(["chmod", "-R", "a-w", path], check=True)
        return
    if ctypes.CDLL(None).unshare(NEW_MOUNTS):
        os._exit(99)
    for words in (
        "--make-rprivate /",
        *(f"{how} {path}" for path in paths for how in (f"--bind {path}", "-o remount,ro,bind")),
    ):
        subprocess.run(["mount", *words.split()], check=True)


@pytest.fixture
def can_mount(faults: Any, tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()

    def probe() -> None:
        os.chdir(tmp_path)
        read_only("probe")

    if faults.child(probe):
        pytest.skip("this machine lets nobody mount")


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("words", [RUN, ["ls", "long"], ["report", "long"], ["doctor"]], ids=" ".join)
def test_what_is_finished_can_be_asked_for_in_a_folder_that_is_read_only(
    folder: Path, faults: Any, words: list[str]
) -> None:
    before = records(folder / "undisturbed")
    code, said = done(faults, [*words, "--root", "undisturbed"], folder, lambda: read_only("undisturbed"))
    assert code == 0
    assert all(line.startswith("no page: ") and "--page FILE" in line for line in said.splitlines())
    assert records(folder / "undisturbed") == before


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize(("words", "root"), [(RUN, "runs"), (RUN, "locked/new"), (ORACLE, "searched")], ids=str)
def test_what_is_not_finished_says_in_one_line_that_the_folder_is_read_only(
    folder: Path, faults: Any, words: list[str], root: str
) -> None:
    (folder / "locked").mkdir()
    code, said = done(faults, [*words, "--root", root], folder, lambda: read_only("runs", "searched", "locked"))
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "Read-only file system" in said or "Permission denied" in said
    assert "choose a folder of your own" in said


def test_a_moved_folder_goes_on_with_moved_data(folder: Path, faults: Any) -> None:
    (folder / "data").mkdir()
    shutil.move(folder / "own.npz", folder / "data" / "mine.npz")
    shutil.move(folder / "runs", folder / "archive" / "2026")
    code, said = done(faults, [*RUN, "--root", "archive/2026", "--set", "data.path='data/mine.npz'"], folder)
    assert (code, said) == (0, "")
    assert records(folder / "archive" / "2026") == records(folder / "undisturbed")


def test_a_clock_set_back_changes_nothing(folder: Path, faults: Any) -> None:
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime.datetime:
            return datetime.datetime(1999, 1, 2, tzinfo=tz)

    for path in (folder / "runs").rglob("*"):
        os.utime(path, (4e9, 4e9))  # the year 2096
    code, said = done(faults, RUN, folder, lambda: setattr(runs, "datetime", Clock))
    assert (code, said) == (0, "")
    assert records(folder / "runs") == records(folder / "undisturbed")
    store = Store(folder / "runs")
    events = store.events(store.ids()[0])
    assert [event["kind"] for event in events] == ["started", "resumed", "finished"]
    assert events[1]["time"] < events[0]["time"]


def other_torch() -> None:
    import torch

    torch.__version__ = "9.9.9"  # type: ignore[assignment]


def other_machine() -> None:
    import platform

    platform.machine = lambda: "riscv128"


CHANGES: dict[str, tuple[list[str], Callable[[], None], str]] = {
    "torch": ([], other_torch, "torch 2.* is now 9.9.9"),
    "device": ([], other_machine, "device cpu * is now cpu riscv128"),
    "threads": (["--threads", "2"], lambda: None, "threads 1 is now 2"),
}


@pytest.mark.parametrize(("words", "changed"), [*((RUN, name) for name in CHANGES), (ORACLE, "torch")], ids=str)
def test_another_environment_is_refused_unless_asked_for_and_recorded(
    folder: Path, faults: Any, words: list[str], changed: str
) -> None:
    more, change, expected = CHANGES[changed]
    root = "searched" if words is ORACLE else "runs"
    words, before = [*words, *more, "--root", root], records(folder / root)
    code, said = done(faults, words, folder, change)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert all(part in said for part in expected.split("*"))
    assert "go on all the same with --accept-environment" in said
    assert records(folder / root) == before
    code, said = done(faults, [*words, "--accept-environment"], folder, change)
    assert code == 0, said
    store = Store(folder / root)
    events = next(events for id in store.ids() if len(events := store.events(id)) > 2)
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "started"
    assert {"environment changed", "resumed"} <= {*kinds}
    note = next(event["what"] for event in events if event["kind"] == "environment changed")
    assert all(part in note for part in expected.split("*"))
    environments = [event["environment"] for event in events if "environment" in event]
    assert environments[0] != environments[-1]
