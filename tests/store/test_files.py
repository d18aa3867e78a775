import errno
import os
import time
from pathlib import Path

import pytest

from scyc.store import files


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_write_then_read(tmp_path):
    files.write(tmp_path / "a", b"one")
    files.write(tmp_path / "a", b"two")
    assert files.read(tmp_path / "a") == b"two"
    assert names(tmp_path) == ["a"]


def test_content_is_durable_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    done = []
    for name in ("write", "fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append(name), call(*a))[1])
    files.write(tmp_path / "a", b"one")
    assert done == ["write", "fsync", "replace", "fsync"]


def test_a_folder_is_durable_when_it_is_there_and_when_it_is_gone(tmp_path, monkeypatch):
    done = []
    for name in ("rename", "replace", "fsync"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append(name), call(*a))[1])
    files.whole_folder_(tmp_path / "a", "config", b"content")
    assert done == ["fsync", "replace", "fsync", "rename", "fsync"]
    files.remove_folder_(tmp_path / "a")
    assert done[5:] == ["rename", "fsync"]


def test_killed_at_every_call_the_file_is_the_old_or_the_new_one(tmp_path, faults):
    path, seen = tmp_path / "a", []
    for _ in faults.everywhere(lambda: files.write(path, b"new content")):
        seen.append(files.read(path) if path.exists() else b"")
    assert set(seen) == {b"", b"new content"}
    path.write_bytes(b"old")
    seen = []
    for _ in faults.everywhere(lambda: files.write(path, b"new content")):
        seen.append(files.read(path))
        path.write_bytes(b"old")
    assert set(seen) == {b"old", b"new content"}
    files.write(path, b"next")
    assert names(tmp_path) == ["a"]  # what the killed writers left is gone


def test_what_living_writers_and_other_hosts_have_begun_is_left_alone(tmp_path, faults):
    gone = faults.start(lambda: None)
    faults.status(gone)
    host = os.uname().nodename
    kept = [f".a.{host}-{os.getpid()}-00000000.tmp", f".a.elsewhere-{gone}-00000000.tmp", f"{gone}.tmp", "b"]
    for name in [*kept, f".a.{host}-{gone}-00000000.tmp"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f".b.{host}-{gone}-11111111.tmp").mkdir()
    (tmp_path / f".b.{host}-{gone}-11111111.tmp" / "c").write_bytes(b"")
    assert sorted(files.clean_(tmp_path)) == [f".a.{host}-{gone}-00000000.tmp", f".b.{host}-{gone}-11111111.tmp"]
    assert names(tmp_path) == sorted(kept)


def test_a_link_with_the_name_of_a_leftover_is_removed_but_not_followed(tmp_path, faults):
    gone = faults.start(lambda: None)
    faults.status(gone)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "a").write_bytes(b"kept")
    (tmp_path / "x").mkdir()
    os.symlink(tmp_path / "precious", tmp_path / "x" / f".a.{os.uname().nodename}-{gone}-00000000.tmp")
    files.clean_(tmp_path / "x")
    assert names(tmp_path / "x") == []
    assert files.read(tmp_path / "precious" / "a") == b"kept"


@pytest.mark.parametrize("size", [0, 1, 500, 999])
def test_full_disk_keeps_the_old_file_and_names_path_and_bytes(tmp_path, faults, size):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def job() -> None:
        with pytest.raises(files.Full) as error:
            files.write(path, bytes(1000))
        text = str(error.value)
        assert text.startswith(f"{path}: no room for 1000 bytes (File too large)")
        assert "\n" not in text

    assert faults.limited(size, job) == 0
    assert files.read(path) == b"old"
    assert names(tmp_path) == ["a"]
    assert faults.limited(1000, lambda: files.write(path, bytes(1000))) == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "mkdir"])
def test_every_call_may_find_the_disk_full(tmp_path, monkeypatch, call, number):
    (tmp_path / "a").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(files.Full, match=f"^{tmp_path}/.*bytes"):
            files.folder_(tmp_path / "b") if call == "mkdir" else files.write(tmp_path / "a", b"new")
    assert names(tmp_path) == ["a"]
    assert files.read(tmp_path / "a") == b"old"


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken") as error:
        files.write(tmp_path / "a", b"new")
    assert not isinstance(error.value, files.Full)
    assert names(tmp_path) == []


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_only_plain_files_are_read_and_a_pipe_does_not_block(tmp_path):
    (tmp_path / "file").write_bytes(b"secret")
    os.symlink(tmp_path / "file", tmp_path / "link")
    os.symlink("/dev/zero", tmp_path / "endless")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    start = time.monotonic()
    for name in ("link", "endless", "pipe", "folder"):
        with pytest.raises(files.Integrity, match=f"{name}: expected a plain file"):
            files.read(tmp_path / name)
    assert time.monotonic() - start < 1


def test_a_link_is_replaced_not_followed_when_written(tmp_path):
    (tmp_path / "outside").write_bytes(b"kept")
    os.symlink(tmp_path / "outside", tmp_path / "a")
    files.write(tmp_path / "a", b"new")
    assert files.read(tmp_path / "outside") == b"kept"
    assert files.read(tmp_path / "a") == b"new"


def test_folder_makes_parents_and_refuses_a_file_in_the_way(tmp_path):
    files.folder_(tmp_path / "a" / "b")
    files.folder_(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        files.folder_(tmp_path / "file")


def test_a_drive_that_cannot_sync_folders_is_still_usable(tmp_path, monkeypatch):
    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", lambda _: fail(errno.EINVAL))
    files.sync(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: fail(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        files.sync(tmp_path)


def test_a_folder_is_seen_with_its_file_or_not_at_all(tmp_path, faults):
    path = tmp_path / "run"
    for _ in faults.everywhere(lambda: files.whole_folder_(path, "config", b"content")):
        assert not path.exists() or files.read(path / "config") == b"content"
        files.remove_folder_(path)
    files.clean_(tmp_path)
    assert names(tmp_path) == ["run"]


def test_the_first_of_two_that_create_a_folder_wins(tmp_path):
    files.whole_folder_(tmp_path / "run", "config", b"first")
    files.whole_folder_(tmp_path / "run", "config", b"second")
    assert files.read(tmp_path / "run" / "config") == b"first"
    assert names(tmp_path) == ["run"]


def test_a_folder_is_removed_whole_or_not_at_all(tmp_path, faults):
    path = tmp_path / "run"
    files.whole_folder_(path, "config", b"content")
    for _ in faults.everywhere(lambda: files.remove_folder_(path)):
        assert not path.exists() or files.read(path / "config") == b"content"
        files.whole_folder_(path, "config", b"content")
    files.remove_folder_(path)
    files.clean_(tmp_path)
    assert names(tmp_path) == []
