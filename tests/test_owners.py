"""Two commands that resume the same runs at once: one owns them, the other says who, and a dead owner holds nothing."""

import os
import random
import re
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from examples import colour, finished, small, stack_of

LONG = """
seeds = 2
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 120
batch = 20
cycles = 2
[schedules.low]
peak = { name = "fixed", lr = 0.05 }
shape = "constant"
"""
WORDS = ["run", "long.toml", "--checkpoint-every", "0.05"]


@pytest.fixture
def folder(tmp_path: Path, faults: Any) -> Path:
    """Beside the runs of an undisturbed training those of one that was killed."""
    finished(stack_of([small()], colour()))  # what torch imports when it first trains, it imports here
    (tmp_path / "long.toml").write_text(LONG)
    assert faults.status(faults.command([*WORDS, "--root", "undisturbed"], tmp_path)) == 0
    faults.killed_midway(WORDS, tmp_path, "killed")
    return tmp_path


def first_to_end(pids: list[int]) -> int:
    """Which of two processes ended; it is still to be waited for."""
    while True:
        for pid in pids:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return pid
        time.sleep(0.001)


def journals(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in root.glob("*/records.jsonl")}


@pytest.mark.torture
@pytest.mark.slow
def test_of_two_that_resume_one_owns_and_the_other_names_it(folder: Path, faults: Any, size: Any, figure: Any) -> None:
    chance, slowest, killed, races = random.Random(0), 0.0, 0, 0
    held = rf"scyc: run [0-9a-f]{{12}} is held by process (\d+) on {re.escape(socket.gethostname())}; wait for it .*\n"
    while races < size(3, 50):
        shutil.copytree(folder / "killed", folder / "runs")
        one = faults.command(WORDS, folder)
        time.sleep(chance.choice([0, 0, 0.01, 0.05]))
        began = time.monotonic()
        other = faults.command(WORDS, folder)
        loser = first_to_end([one, other])
        took, owner = time.monotonic() - began, other if loser == one else one
        if (status := faults.status(loser)) == 0:  # the owner was done before the other asked: no race
            assert faults.status(owner) == 0
            shutil.rmtree(folder / "runs")
            continue
        assert status == 2
        races, slowest = races + 1, max(slowest, took)
        said = re.fullmatch(held, (folder / f"err-{loser}").read_text())
        assert said, (folder / f"err-{loser}").read_text()
        assert int(said[1]) == owner
        if races % 2:
            os.kill(owner, signal.SIGKILL)
        status = faults.status(owner)
        assert status in (0, -signal.SIGKILL)
        killed += status != 0
        assert faults.status(faults.command(WORDS, folder)) == 0  # where the owner died, nobody holds them any more
        assert journals(folder / "runs") == journals(folder / "undisturbed")
        shutil.rmtree(folder / "runs")
    figure(
        f"{races} races of two that resume: one owner each, {killed} of them then killed and its hold gone at once; "
        f"the other named it and ended after at most {slowest:.2f} s"
    )
