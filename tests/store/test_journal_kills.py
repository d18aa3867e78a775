import fcntl
import os
import random
import signal
import time
from pathlib import Path

import pytest
from stored import ROWS

from scyc.store import journal
from scyc.store.files import Full


def test_killed_at_every_call_no_acknowledged_row_is_lost(path, faults):
    before = path.read_bytes()
    seen = []
    for _ in faults.everywhere(lambda: journal.append_(path, [{"cycle": 3}])):
        rows, torn = journal.read(path)
        seen.append((len(rows), torn))
        assert rows == [*ROWS, {"cycle": 3}][: len(rows)]
        journal.append_(path, [{"cycle": 4}])
        assert journal.read(path) == ([*rows, {"cycle": 4}], False)
        path.write_bytes(before)
    assert set(seen) == {(3, False), (3, True), (4, False)}


def test_killed_while_repairing_a_torn_line_nothing_is_lost(path, faults):
    torn = path.read_bytes() + b'{"cycle":3,"l'
    path.write_bytes(torn)
    for _ in faults.everywhere(lambda: journal.append_(path, [{"cycle": 3}])):
        assert journal.read(path)[0][:3] == ROWS
        path.write_bytes(torn)


def test_a_full_disk_at_every_byte_leaves_what_was_there(path, faults):
    before = path.read_bytes()
    size = len(journal.seal({"cycle": 3})) + 1

    def job() -> None:
        with pytest.raises(Full, match=f"^{path}: no room for {size} bytes"):
            journal.append_(path, [{"cycle": 3}])

    for limit in range(size):
        assert faults.limited(len(before) + limit, job) == 0
        assert path.read_bytes() == before
    assert faults.limited(len(before) + size, lambda: journal.append_(path, [{"cycle": 3}])) == 0
    assert journal.read(path) == ([*ROWS, {"cycle": 3}], False)


def test_a_full_disk_keeps_a_line_that_lacks_its_newline(path, faults):
    before = path.read_bytes()[:-1]
    path.write_bytes(before)
    assert faults.limited(len(before) + 10, lambda: journal.append_(path, [{"cycle": 3}])) == 1
    assert journal.read(path) == (ROWS, False)


def test_content_is_durable_before_append_returns(tmp_path, monkeypatch):
    done = []
    for name in ("write", "fsync"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append(name), call(*a))[1])
    journal.append_(tmp_path / "a", ROWS)
    journal.append_(tmp_path / "a", ROWS)
    assert done == ["write", "fsync", "fsync", "write", "fsync"]  # the folder too when the file is new


def test_a_line_that_another_process_is_writing_is_not_cut(path, faults):
    line = journal.seal({"cycle": 3}) + b"\n"
    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line[:9])
        pid = faults.start(lambda: journal.append_(path, [{"cycle": 4}]))
        time.sleep(0.2)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        file.write(line[9:])
        fcntl.flock(file, fcntl.LOCK_UN)
    assert faults.status(pid) == 0
    assert journal.read(path) == ([*ROWS, {"cycle": 3}, {"cycle": 4}], False)


def test_a_writer_that_never_ends_is_said(path, monkeypatch):
    monkeypatch.setattr(journal, "PATIENCE", 0.05)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match=f"^{path}: another process keeps it locked"):
            journal.append_(path, [{"cycle": 3}])
    assert journal.read(path) == (ROWS, False)


def test_a_worker_forked_during_an_append_does_not_keep_the_journal_locked(path, faults, monkeypatch):
    monkeypatch.setattr(journal, "PATIENCE", 0.05)
    extend_ = journal.extend_
    with monkeypatch.context() as patch:
        patch.setattr(journal, "extend_", lambda *given: (faults.start(signal.pause), extend_(*given))[1])
        journal.append_(path, [{"cycle": 3}])
    journal.append_(path, [{"cycle": 4}])
    assert journal.read(path) == ([*ROWS, {"cycle": 3}, {"cycle": 4}], False)


def kill_while_appending(path: Path, faults, seconds: float) -> int:
    """How many rows a writer had acknowledged when it was killed; all of them must be there."""
    receive, send = os.pipe()

    def job() -> None:
        for cycle in range(10**6):
            journal.append_(path, [{"cycle": cycle, "text": "x" * (cycle % 50)}])
            os.write(send, b".")

    pid = faults.start(job)
    os.close(send)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    assert faults.status(pid) == -signal.SIGKILL
    with open(receive, "rb") as pipe:
        acknowledged = len(pipe.read())
    rows, _ = journal.read(path) if path.exists() else ([], False)
    assert [row["cycle"] for row in rows] == list(range(len(rows)))
    assert acknowledged <= len(rows) <= acknowledged + 1
    return acknowledged


@pytest.mark.parametrize("repeats", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_any_time_no_acknowledged_row_is_lost(tmp_path, faults, repeats):
    chance = random.Random(0)
    counts = [kill_while_appending(tmp_path / str(n), faults, chance.uniform(0.005, 0.05)) for n in range(repeats)]
    assert max(counts) > 3


def test_writers_beside_each_other_and_a_reader(path, faults):
    def job(writer: int) -> None:
        for count in range(40):
            journal.append_(path, [{"writer": writer, "count": count}] * 2)

    pids = [faults.start(lambda writer=writer: job(writer)) for writer in range(8)]
    while len(journal.read(path)[0]) < 300:
        time.sleep(0.001)
    assert [faults.status(pid) for pid in pids] == [0] * 8
    rows, torn = journal.read(path)
    assert not torn
    for writer in range(8):
        counts = [row["count"] for row in rows if row.get("writer") == writer]
        assert counts == [count for count in range(40) for _ in range(2)]
