"""Claim: with --deterministic the same bits come twice, and after a kill and a resume, on a GPU too; and what it costs.

A stack of MLPs and a stack of ResNets, each trained in processes of their own: twice with it and twice without, in
turns, and once with it, killed in the middle of the second cycle and resumed. Records are compared byte by byte; in
each of them is the sha256 of the weights. The cost is a ratio of the times from the first step to the last.

usage: python benchmarks/deterministic.py [cpu|cuda]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scyc import sweep
from scyc.experiment import experiment
from scyc.stack import Stack
from scyc.store.runs import Store
from scyc.training import Control, Options, Training

CYCLES = 3
SIZES = {  # device -> network -> its fields, runs, steps of a cycle
    "cuda": {"mlp": ({"bn": True}, 8, 400), "resnet20": ({}, 4, 80)},
    "cpu": {"mlp": ({"widths": [64, 64], "bn": True}, 4, 40), "resnet20": ({"width": 0.25}, 2, 8)},
}


class Watch:
    """Times the steps; where asked to, ends the process without a word in the middle of the second cycle."""

    def __init__(self, kill: bool) -> None:
        self.kill, self.times = kill, [0.0, 0.0]

    def began(self, stack: Stack) -> None: ...
    def ended(self, stack: Stack, records: Any) -> None: ...

    def stepped(self, stack: Stack) -> None:
        place, steps = (stack.cycle, stack.step), stack.run.steps
        if self.kill and place >= (1, steps // 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if place == (CYCLES - 1, steps) or (place >= (0, steps // 2) and not self.times[1]):  # the first steps warm up
            if stack.feed.device.type == "cuda":
                torch.cuda.synchronize()
            self.times = [self.times[1], time.perf_counter()]

    def said(self, line: str) -> None:
        print(line, file=sys.stderr)


def images(path: Path) -> None:
    """Random pictures, each with some brightness that tells its class."""
    draw, labels = np.random.default_rng(0), np.arange(4000) % 10
    noise = draw.integers(0, 128, (4000, 3, 32, 32))
    np.savez(path, images=(noise + 12 * labels[:, None, None, None]).astype(np.uint8), labels=labels)


def train(device: str, network: str, root: Path, deterministic: bool, kill: bool) -> float:
    """One training in this process; the seconds of its steps."""
    fields, runs, steps = SIZES[device][network]
    run = {"data": {"name": "npz", "path": str(root.parent / "own.npz"), "augment": True}, "steps": steps}
    run |= {"model": {"name": network, **fields}, "batch": 128, "cycles": CYCLES, "eval_every": steps // 4}
    run |= {"pruning": {"score": "gradient", "score_batches": 2}}
    schedule = {"peak": {"name": "fixed", "lr": 0.03}, "shape": "constant"}
    plan = experiment({"seeds": runs, "run": run, "schedules": {"one": schedule}}, network)
    found, store, watch = sweep.datasets(plan, ()), Store(root), Watch(kill)
    ids = sweep.identities(plan, found)
    sweep.register(store, plan, ids, found)
    engine = "captured" if device == "cuda" else "stacked"
    options = Options(torch.device(device), engine, checkpoint_every=0.3, deterministic=deterministic)
    Training(store, found, options, Control(listeners=[watch])).train(sweep.unfinished(store, plan, ids))
    return watch.times[1] - watch.times[0]


def apart(device: str, network: str, root: Path, deterministic: bool, kill: bool = False) -> float:
    """The same in a process of its own; nan if it was killed."""
    words = [sys.executable, __file__, device, network, str(root), *map(str, map(int, (deterministic, kill)))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if kill else 0), f"exit code {done.returncode}"
    return float("nan") if kill else float(json.loads(done.stdout.splitlines()[-1]))


def records(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/records.jsonl"))}


def compare(device: str, network: str, folder: Path) -> bool:
    """Print what came out for one network; whether the claim held."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2):
        for on in (True, False):
            seconds[on].append(apart(device, network, folder / f"{network}-{on}-{turn}", on))
    killed = folder / f"{network}-killed"
    apart(device, network, killed, True, kill=True)
    assert not any(b'"cycle":1' in rows for rows in records(killed).values()), "it was killed too late"
    apart(device, network, killed, True)
    twice = {on: same(folder / f"{network}-{on}-0", folder / f"{network}-{on}-1") for on in (True, False)}
    resumed = same(folder / f"{network}-True-0", killed)
    noted = [event["environment"]["deterministic"] for event in events(killed)]
    with_it, without = (sum(seconds[on]) for on in (True, False))
    print(
        f"{network}: with it, the same bits twice: {twice[True]}; after kill and resume: {resumed}, noted {set(noted)}"
    )
    print(f"{network}: without it, the same bits twice: {twice[False]}; cost {with_it / without:.3f} times the time")
    return twice[True] and resumed


def same(one: Path, other: Path) -> bool:
    assert len(records(one)) == len(records(other)) > 0
    return records(one) == records(other)


def events(root: Path) -> list[dict[str, Any]]:
    store = Store(root)
    return [event for id in store.ids() for event in store.events(id) if "environment" in event]


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU, 1 thread"
    print(f"{name}, torch {torch.__version__}, {CYCLES} cycles, batch 128", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        images(Path(folder) / "own.npz")
        held = [compare(device, network, Path(folder)) for network in SIZES[device]]
    sys.exit(not all(held))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        print(json.dumps(train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] == "1", sys.argv[5] == "1")))
    else:
        main()
