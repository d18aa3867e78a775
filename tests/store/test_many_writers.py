"""Eight writers and four readers on one store, each killed at random times: no acknowledged row is lost."""

import mmap
import os
import random
import signal
import time
from typing import Any

import pytest

from scyc.store.lock import Hold
from scyc.store.runs import Store

WRITERS, READERS, CYCLES = 8, 4, 25


def name(number: int) -> str:
    return f"{number:012x}"


def record(number: int, cycle: int) -> dict[str, Any]:
    return {"cycle": cycle, "density": 0.8**cycle, "layers": {"fc1": cycle, "fc2": None}, "number": number}


class Acknowledged:
    """How many rows of every run were acknowledged, in memory that outlives whoever wrote it; and the end of all."""

    def __init__(self, runs: int) -> None:
        self.runs, self.bytes = runs, mmap.mmap(-1, runs + 1)

    def over(self) -> bool:
        return bool(self.bytes[self.runs])

    def end(self) -> None:
        self.bytes[self.runs] = 1


def checked(store: Store, acknowledged: Acknowledged, number: int) -> int:
    """How many rows a run has: at least those acknowledged before, and each as it was written."""
    least = acknowledged.bytes[number]
    found = store.records(name(number))
    assert len(found) >= least, f"run {number}: {least} rows were acknowledged, {len(found)} are there"
    assert found == [record(number, cycle) for cycle in range(len(found))]
    return len(found)


def write(store: Store, acknowledged: Acknowledged, numbers: range) -> None:
    with Hold(store.root, [name(number) for number in numbers]):
        for number in numbers:
            if acknowledged.bytes[number] == CYCLES:
                continue
            store.create(name(number), {"number": number})
            for cycle in range(checked(store, acknowledged, number), CYCLES):
                store.append(name(number), record(number, cycle))
                acknowledged.bytes[number] = cycle + 1


def read(store: Store, acknowledged: Acknowledged, seed: int) -> None:
    chance = random.Random(seed)
    while not acknowledged.over():
        number = chance.randrange(acknowledged.runs)
        if acknowledged.bytes[number]:
            checked(store, acknowledged, number)
            assert store.config(name(number)) == {"number": number}


@pytest.mark.torture
@pytest.mark.slow
def test_writers_and_readers_killed_at_random_lose_no_acknowledged_row(
    tmp_path: Any, faults: Any, size: Any, figure: Any
) -> None:
    store, chance, runs = Store(tmp_path / "runs"), random.Random(0), size(320, 40_000)
    acknowledged = Acknowledged(runs)
    jobs: list[Any] = [
        lambda k=k: write(store, acknowledged, range(k * runs // WRITERS, (k + 1) * runs // WRITERS))
        for k in range(WRITERS)
    ]
    jobs += [lambda seed=seed: read(store, acknowledged, seed) for seed in range(READERS)]
    at_work, kills, began = {faults.start(job): job for job in jobs}, {"writers": 0, "readers": 0}, time.monotonic()
    while any(job in jobs[:WRITERS] for job in at_work.values()):
        time.sleep(chance.uniform(0, size(0.05, 0.5)))
        pid = chance.choice(list(at_work))
        os.kill(pid, signal.SIGKILL)
        job, status = at_work.pop(pid), faults.status(pid)
        assert status in (0, -signal.SIGKILL, -signal.SIGALRM)
        if status:
            kills["writers" if job in jobs[:WRITERS] else "readers"] += 1
            at_work[faults.start(job)] = job
    seconds = time.monotonic() - began
    acknowledged.end()
    assert [faults.status(pid) for pid in at_work] == [0] * READERS
    assert sum(checked(store, acknowledged, number) for number in range(runs)) == runs * CYCLES
    assert kills["writers"] > 0
    figure(
        f"{runs * CYCLES:,} rows by {WRITERS} writers beside {READERS} readers in {seconds:.0f} s, "
        f"{kills['writers']} + {kills['readers']} of them killed: no acknowledged row lost"
    )
