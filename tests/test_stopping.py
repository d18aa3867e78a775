"""Processes that are sent SIGINT and SIGTERM: they save the step in hand, say how to go on, and leave nobody behind."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scyc.store import checkpoint
from scyc.store.runs import Store

LONG = """
seeds = 2
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 150
batch = 20
cycles = 3
[schedules.scyc]
peak = { name = "scyc", eps = 0.05, delta = 0.1, q = 0, beta = 4 }
shape = { name = "warmup", ramp = 20, drops = [40, 60] }
"""
SLOW = """
import os, time
from torch import nn
class Slow(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.fc = nn.Linear(inputs, classes)
    def forward(self, x):
        if os.path.exists("slow"):
            open("asleep", "w").close()
            time.sleep(60)
        return self.fc(x.flatten(1))
def slow(shape, classes):
    return Slow(shape[0] * shape[1] * shape[2], classes)
"""
COMMANDS = {
    "stacked": ["run", "long.toml", "--engine", "stacked"],
    "single": ["run", "long.toml", "--engine", "single"],
    "distribution": ["distribution", "long.toml", "--batches", "3"],
    "oracle": ["oracle", "long.toml", "--peaks", "0.05,0.1"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "long.toml").write_text(LONG)
    (tmp_path / "my_nets.py").write_text(SLOW)
    return tmp_path


def started(words: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    """A command in a session of its own, as a terminal gives it; what it says goes to the file `said`."""
    command = [sys.executable, "-m", "scyc.cli", *words]
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, start_new_session=True)


def until(true: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while not true() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def session(pid: int) -> list[int]:
    """The processes that live in a session."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, _, _, owner = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            found += [int(entry)] if int(owner) == pid and state != "Z" else []
    return found


def stored(root: Path) -> dict[str, bytes]:
    """Everything but what tells of times and interruptions."""
    paths = [path for kind in ("jsonl", "safetensors") for path in root.glob(f"*/*.{kind}")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.name != "events.jsonl"}


def events(root: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.parent.name: [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")]
        for path in root.glob("*/events.jsonl")
    }


def check_saved(root: Path, number: int) -> None:
    """The step that the last event names is the one that the newest checkpoint holds."""
    store = Store(root)
    heads = [checkpoint.head(store.stack_folder(name), stack=name) for name in store.stacks()]
    last = {id: rows[-1] for id, rows in events(root).items()}
    if all(event["kind"] == "finished" for event in last.values()):  # the signal came between two stacks
        return
    for id, event in last.items():
        if event["kind"] != "finished":
            head = next((head for head in heads if id in head["members"]), {"cycle": 0, "step": 0})  # before any step
            place = (event["kind"], event["cycle"], event["step"], event["signal"])
            assert place == ("interrupted", head["cycle"], head["step"], number)


def interrupted(words: list[str], folder: Path, number: int, wait: float, before: str) -> str:
    """Send a signal some time after training began; the line that resumes it, or nothing where it was done already."""
    process = started(words, folder)
    until(lambda: any(rows and rows[-1]["kind"] == before for rows in events(folder / "runs").values()), process)
    time.sleep(wait)
    process.send_signal(number)
    code = process.wait(60)
    said = (folder / "said").read_text().splitlines()
    assert session(process.pid) == []
    if code == 0 or "nothing unsaved" in said[-1]:
        return ""
    assert code == 128 + number
    assert "stopping after this step; once more stops at once" in said
    none, _, line = said[-1].partition("saved; resume with: scyc ")
    assert none == ""
    check_saved(folder / "runs", number)
    return line


def done(faults: Any, words: list[str], folder: Path) -> None:
    """The whole command, from a process that has imported torch already."""
    pid = faults.command(words, folder)
    assert faults.status(pid) == 0, (folder / f"err-{pid}").read_text()


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_saves_the_step_in_hand_and_says_how_to_go_on(
    folder: Path, faults: Any, size: Any, figure: Any, command: str
) -> None:
    words, chance, count = COMMANDS[command], random.Random(command), 0
    done(faults, [*words, "--root", "undisturbed"], folder)
    expected = stored(folder / "undisturbed")
    while count < size(1, 8):
        number = (signal.SIGINT, signal.SIGTERM)[count % 2]
        if line := interrupted(words, folder, number, chance.uniform(0, 0.4), "started"):
            done(faults, shlex.split(line), folder)
            count += 1
        assert stored(folder / "runs") == expected
        shutil.rmtree(folder / "runs")
    figure(f"{count} interrupted by SIGINT or SIGTERM, {command}: saved, resumed by the line printed, the same bytes")


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize(("engine", "number"), [("stacked", signal.SIGINT), ("single", signal.SIGTERM)])
def test_a_second_one_stops_at_once(
    folder: Path, faults: Any, figure: Any, engine: str, number: signal.Signals
) -> None:
    words = ["run", "long.toml", "--engine", engine, "--trust", "--set", "model={name='my_nets:slow'}"]
    (folder / "slow").touch()
    process = started(words, folder)
    until((folder / "asleep").exists, process)
    process.send_signal(number)
    until(lambda: "once more stops at once" in (folder / "said").read_text(), process)
    asked = time.monotonic()
    process.send_signal(number)
    assert process.wait(60) == -number  # 128 + number in a shell
    seconds = time.monotonic() - asked
    assert seconds < 10  # the step would have taken a minute
    assert session(process.pid) == []
    (folder / "slow").unlink()
    done(faults, words, folder)
    figure(f"a second {number.name} ended a step of 60 s ({engine}) after {1000 * seconds:.0f} ms")
