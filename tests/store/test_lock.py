import errno
import fcntl
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scyc.store import journal, lock
from scyc.store.files import Full, Integrity
from scyc.store.lock import Held, Hold

A, B, C = "00000000000a", "00000000000b", "ffffffffffff"


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "runs"


def holding(faults, root: Path, *ids: str, job: Callable[[], object] = signal.pause) -> int:
    """The pid of a process that holds runs."""
    receive, send = os.pipe()

    def hold() -> None:
        with Hold(root, ids):
            os.write(send, b".")
            job()

    pid = faults.start(hold)
    assert os.read(receive, 1) == b"."
    os.close(receive)
    os.close(send)
    return int(pid)


def free(root: Path, *ids: str) -> bool:
    try:
        with Hold(root, ids):
            return True
    except Held:
        return False


def test_a_held_run_is_refused_at_once_with_the_name_of_its_holder(root, faults):
    pid = holding(faults, root, A, B)
    start = time.monotonic()
    with pytest.raises(Held) as error, Hold(root, [B]):
        pass
    assert time.monotonic() - start < 1
    assert str(error.value) == f"run {B} is held by process {pid} on {socket.gethostname()}; wait for it or stop it"
    assert free(root, C)
    os.kill(pid, signal.SIGKILL)
    faults.status(pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_owner_holds_nothing(root, faults, how):
    pid = holding(faults, root, A, B)
    assert not free(root, A)
    os.kill(pid, how)
    assert faults.status(pid) == -how
    assert free(root, A, B)
    assert list((root / ".holders").iterdir()) == []  # the note of the dead owner is gone too


def test_all_or_nothing(root, faults):
    pid = holding(faults, root, B)
    assert not free(root, A, B, C)
    assert free(root, A, C)
    with Hold(root, [A, C]):
        assert not free(root, C)
    os.kill(pid, signal.SIGKILL)
    faults.status(pid)


def test_an_error_inside_frees_the_run(root):
    with pytest.raises(KeyError), Hold(root, [A]):
        raise KeyError
    assert free(root, A)
    assert list((root / ".holders").iterdir()) == []


def test_two_owners_in_one_process_exclude_each_other(root):
    seen = []
    with Hold(root, [A]):
        thread = threading.Thread(target=lambda: seen.append(free(root, A)))
        thread.start()
        thread.join()
        assert not free(root, A)
        assert not free(root, A)  # the failed attempt has dropped nothing
    assert seen == [False]
    assert free(root, A)


def test_reading_or_copying_the_lock_file_drops_nothing(root, faults):
    with Hold(root, [A]):
        (root / ".lock").read_bytes()
        os.close(os.open(root / ".lock", os.O_RDWR))
        with (root / ".lock").open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
        assert faults.child(lambda: os._exit(0 if free(root, A) else 7)) == 7
    assert faults.child(lambda: os._exit(0 if free(root, A) else 7)) == 0


def test_a_worker_forked_inside_frees_nothing_when_it_ends(root, faults):
    with Hold(root, [A]):
        assert faults.child(lambda: None) == 0
        assert not free(root, A)


def test_a_worker_forked_inside_keeps_nothing_when_the_owner_is_done(root, faults):
    with Hold(root, [A]):
        pid = faults.start(signal.pause)
    assert free(root, A)
    os.kill(pid, signal.SIGKILL)
    faults.status(pid)


def test_runs_left_by_a_killed_owner_stay_held_while_its_workers_live(root, faults):
    receive, send = os.pipe()

    def fork() -> None:
        os.write(send, b"%d\n" % faults.start(signal.pause))
        signal.pause()

    owner = holding(faults, root, A, job=fork)
    worker = int(os.read(receive, 20))
    os.kill(owner, signal.SIGKILL)
    faults.status(owner)
    with pytest.raises(Held, match=f"run {A} is held by another process"), Hold(root, [A]):
        pass
    os.kill(worker, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while not free(root, A):
        assert time.monotonic() < deadline


def test_of_many_that_want_a_run_one_has_it_at_a_time(root, tmp_path, faults):
    def job() -> None:
        done = 0
        while done < 10:
            try:
                with Hold(root, [A, B]):
                    os.mkdir(tmp_path / "mine")  # fails if another owner is inside
                    os.rmdir(tmp_path / "mine")
                    done += 1
            except Held:
                time.sleep(0.001)

    assert [faults.status(pid) for pid in [faults.start(job) for _ in range(8)]] == [0] * 8


@pytest.mark.parametrize(
    "id", ["", "../../x", "0xffffffffff", "FFFFFFFFFFFF", "00000000000a\n", "1_0000000000", "+00000000001"]
)
def test_only_ids_can_be_held(root, id):
    with pytest.raises(ValueError, match="is not 12 hexadecimal digits"), Hold(root, [A, id]):
        pass
    assert free(root, A)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(root, faults):
    root.mkdir(mode=0o555)

    def job() -> None:
        os.chdir(root)
        if os.getuid() == 0:  # root may write anywhere
            os.setuid(65534)
        with (
            pytest.raises(ValueError, match=r"^\.: cannot be written \(Permission denied\); choose a folder"),
            Hold(Path(), [A]),
        ):
            pass

    assert faults.child(job) == 0


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOTDIR])
def test_every_reason_for_no_lock_file_is_said(root, monkeypatch, number):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.files, "plain", fail)
    with pytest.raises(ValueError, match=rf"cannot be written \({os.strerror(number)}\)"), Hold(root, [A]):
        pass


def test_a_drive_without_locks_is_said(root, monkeypatch):
    real = fcntl.fcntl

    def fail(fd: int, command: int, *rest: object) -> object:
        if command == fcntl.F_OFD_SETLK:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        return real(fd, command, *rest)

    monkeypatch.setattr(fcntl, "fcntl", fail)
    with pytest.raises(ValueError, match=r"cannot be locked here .*; choose a local disk"), Hold(root, [A]):
        pass


def test_a_full_disk_does_not_stop_an_owner_who_wants_to_remove(root, monkeypatch):
    with Hold(root, [A]):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with Hold(root, [A]):
            assert not free(root, A)
    monkeypatch.setattr(os, "mkdir", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(Full, match="no room"), Hold(root / "new", [A]):
        pass


def test_a_link_in_place_of_the_lock_file_is_refused(root):
    root.mkdir()
    os.symlink("/dev/null", root / ".lock")
    with pytest.raises(Integrity, match="expected a plain file"), Hold(root, [A]):
        pass


@pytest.mark.parametrize("note", [b"", b"\xff\n", b"[]\n", journal.seal({"runs": 5}), journal.seal({"pid": 5})])
def test_a_damaged_note_costs_only_the_name(root, note):
    with Hold(root, [A]):
        (path,) = (root / ".holders").iterdir()
        path.write_bytes(note)
        with pytest.raises(Held, match=f"run {A} is held by another process"), Hold(root, [A]):
            pass


def test_nothing_to_hold_is_fine(root):
    with Hold(root, []), Hold(root, []):
        pass
