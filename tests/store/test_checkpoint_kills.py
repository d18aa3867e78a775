import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from stored import STACK, names, save, step_of

from scyc.store import checkpoint
from scyc.store.files import Full


def test_an_old_one_is_deleted_only_when_the_new_one_is_durable(tmp_path, monkeypatch):
    save(tmp_path, 0)
    save(tmp_path, 1)
    done = []
    for name in ("fsync", "replace", "unlink"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append(name), call(*a))[1])
    save(tmp_path, 2)
    assert done == ["fsync", "replace", "fsync", "unlink"]


def test_killed_at_every_call_the_former_or_the_new_one_loads(tmp_path, faults):
    seen = set()
    save(tmp_path / "kept", 0)
    save(tmp_path / "kept", 1)
    for number in faults.everywhere(lambda: save(tmp_path / "now", 2)):
        if (tmp_path / "now").is_dir():  # else nothing had been saved before
            found = checkpoint.load(tmp_path / "now", stack=STACK)
            seen.add(step_of(found))
            assert found.rejected == (), number
            save(tmp_path / "now", 3)
            assert step_of(checkpoint.load(tmp_path / "now", stack=STACK)) == 3
            assert len(names(tmp_path / "now")) == 2  # neither older ones nor what the killed writer left
            shutil.rmtree(tmp_path / "now")
        shutil.copytree(tmp_path / "kept", tmp_path / "now")
    assert seen == {1, 2}


def test_a_full_disk_at_any_byte_keeps_the_former_one(tmp_path, faults):
    size = save(tmp_path, 1).stat().st_size
    path = tmp_path / "0000000001.ckpt"

    def job() -> None:
        with pytest.raises(Full, match=f"^{path}: no room for {size} bytes"):
            save(tmp_path, 2)

    for limit in range(0, size, 29):
        assert faults.limited(limit, job) == 0
        assert step_of(checkpoint.load(tmp_path, stack=STACK)) == 1
        assert names(tmp_path) == ["0000000000.ckpt"]
    assert faults.limited(size, lambda: save(tmp_path, 2)) == 0
    assert step_of(checkpoint.load(tmp_path, stack=STACK)) == 2


def test_a_writer_that_goes_on_while_one_reads_is_followed(tmp_path, monkeypatch):
    save(tmp_path, 0)
    real, steps = checkpoint.files.opened, iter((1, 2))

    def opened(path: Path):
        for step in steps:  # two more are saved before the first one listed is opened
            save(tmp_path, step)
        return real(path)

    monkeypatch.setattr(checkpoint.files, "opened", opened)
    found = checkpoint.load(tmp_path, stack=STACK)
    assert (step_of(found), found.rejected) == (2, ())


@pytest.mark.parametrize("repeats", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_at_any_time_the_last_acknowledged_one_or_a_newer_one_loads(tmp_path, faults, repeats):
    chance = random.Random(0)
    highest = 0
    for number in range(repeats):
        folder, (receive, send) = tmp_path / str(number), os.pipe()

        def job(folder: Path = folder, send: int = send) -> None:
            for step in range(10**6):
                save(folder, step)
                os.write(send, b".")

        pid = faults.start(job)
        os.close(send)
        with open(receive, "rb", buffering=0) as pipe:
            waited = len([pipe.read(1) for _ in range(chance.randint(0, 6))])  # saves, not seconds, of a busy machine
            time.sleep(chance.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
            assert faults.status(pid) == -signal.SIGKILL
            acknowledged = waited + len(pipe.read())
        highest = max(highest, acknowledged)
        if acknowledged:
            assert acknowledged - 1 <= step_of(checkpoint.load(folder, stack=STACK)) <= acknowledged
    assert highest > 3


def test_a_reader_beside_a_writer_always_finds_a_whole_one(tmp_path, faults):
    save(tmp_path, 0)
    pid = faults.start(lambda: [save(tmp_path, step) for step in range(1, 100)])
    last = 0
    while last < 99:
        step = step_of(checkpoint.load(tmp_path, stack=STACK))
        assert step >= last
        last = step
    assert faults.status(pid) == 0
