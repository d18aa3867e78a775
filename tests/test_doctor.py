"""`scyc doctor`: what is sound is said to be, and every injury is one line that names the place and the remedy."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from scyc import cli
from scyc.doctor import Finding, stored
from scyc.doctor.installation import folder, installation, numbers, packages, python
from scyc.store import checkpoint, files, journal
from scyc.store.lock import Hold
from scyc.store.runs import Store
from scyc.training import Interrupted
from test_sweep import Stopping, small, train


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An experiment of four runs that was interrupted in its second cycle, and one that is finished."""
    with pytest.raises(Interrupted):
        train(tmp_path / "runs", small(), Stopping(9))
    return train(tmp_path / "runs", small(cycles=2), keep="all")


def wrong(store: Store) -> list[Finding]:
    return [finding for finding in stored(store) if finding.kind != "ok"]


def finished(store: Store) -> str:
    return next(id for id in store.ids() if store.config(id).get("cycles") == 2)


def flip(path: Path, place: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def test_a_sound_store_has_no_finding_but_the_count(store: Store) -> None:
    (line,) = list(stored(store))
    assert line == Finding("ok", f"{store.root}: looked at 8 runs, 1 checkpoint, 2 experiments")


@pytest.mark.parametrize("name", ["config.json", "records.jsonl", "events.jsonl", "cycle-000.safetensors"])
def test_a_flipped_bit_in_any_file_of_a_run_is_one_line_that_names_it(store: Store, name: str) -> None:
    path = store.root / finished(store) / name
    flip(path, 40)
    found = wrong(store)
    assert {finding.kind for finding in found} == {"damaged"}
    assert str(path) in found[0].line
    assert "restore" in found[0].line


def test_a_configuration_of_another_run_is_damage_though_its_checksum_is_right(store: Store) -> None:
    id = finished(store)
    config = {**store.config(id), "batch": 21}
    (store.root / id / "config.json").write_bytes(journal.seal({"config": config, "run": id}) + b"\n")
    (found,) = wrong(store)
    assert found.kind == "damaged"
    assert "config.json: holds the configuration of run " in found.line


def test_a_damaged_checkpoint_is_named_and_whether_the_other_serves(store: Store) -> None:
    generations = checkpoint.generations(store.stack_folder(store.stacks()[0]))
    assert len(generations) == 2
    for path in generations:
        flip(path)
        (one,) = wrong(store)
        assert one.kind == "damaged"
        assert one.line.startswith(f"{path}: its content does not match the sha256")
        assert one.line.endswith("the other generation serves")
        flip(path)
    for path in generations:
        flip(path)
    assert [finding.kind for finding in wrong(store)] == ["damaged"] * 3
    assert "to start again from what is recorded" in wrong(store)[-1].line


def test_runs_that_a_manifest_names_and_nobody_has_are_a_note(store: Store) -> None:
    id = finished(store)
    shutil.rmtree(store.root / id)
    (found,) = wrong(store)
    assert found.kind == "note"
    assert "experiment small: 1 of its 4 runs are gone" in found.line
    assert id in found.line


def test_a_damaged_manifest_is_damage(store: Store) -> None:
    flip(store.root / ".experiments" / "small.json")
    (found,) = wrong(store)
    assert (found.kind, "small.json" in found.line) == ("damaged", True)


def test_what_a_killed_process_left_is_a_note_and_gone_after_the_next_training(store: Store, faults: Any) -> None:
    gone = faults.start(lambda: None)
    faults.status(gone)
    (store.root / ".stacks" / f".x.{os.uname().nodename}-{gone}-00000000.tmp").write_bytes(b"x" * 3_000_000)
    with (store.root / finished(store) / "records.jsonl").open("ab") as file:
        file.write(b'{"cycle":2,"den')
    torn, left = wrong(store)
    assert (torn.kind, left.kind) == ("note", "note")
    assert "its last line was never finished" in torn.line
    assert "1 leftover of killed processes, 3.0 MB" in left.line
    train(store.root, small())
    assert len(wrong(store)) == 1  # the line is of a run that is finished: nobody writes there any more


def test_who_holds_runs_is_said(store: Store, faults: Any) -> None:
    id, (receive, send) = finished(store), os.pipe()

    def hold() -> None:
        with Hold(store.root, [id]):
            os.write(send, b".")
            signal.pause()

    pid = faults.start(hold)
    os.read(receive, 1)
    (found,) = wrong(store)
    assert found == Finding("note", f"process {pid} on {os.uname().nodename} holds 1 run: {id}")


def test_a_link_in_place_of_a_run_is_damage(store: Store, tmp_path: Path) -> None:
    id = finished(store)
    shutil.move(store.root / id, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", store.root / id)
    assert any(f.kind == "damaged" and "found a link" in f.line for f in wrong(store))


def test_a_file_that_may_not_be_read_is_not_called_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = store.root / finished(store) / "events.jsonl", files.plain

    def refused(asked: Path, flags: int) -> int:
        if asked == path:
            raise PermissionError(13, "Permission denied", str(asked))
        return read(asked, flags)

    monkeypatch.setattr(files, "plain", refused)
    (found,) = wrong(store)
    assert found == Finding("wrong", f"{path}: cannot be read; look as its owner, or have it made readable")


def test_this_installation_is_sound(tmp_path: Path) -> None:
    found = list(installation(tmp_path))
    assert {finding.kind for finding in found} <= {"ok", "note"}
    text = "\n".join(map(str, found))
    for word in ("python 3.", "torch 2.", "numpy", "cores", "of memory are free", "of disk are free", "is synced in"):
        assert word in text
    assert os.listdir(tmp_path) == []


def test_packages_are_required_or_optional_and_old_or_missing_ones_come_with_the_command() -> None:
    needed = ["numpy>=999", "no-such-thing>=1.0", 'neither-this>=2; extra == "tune"', "nor-that; extra == 'dev-all'"]
    said = [str(finding) for finding in packages(needed)][1:]
    assert len(said) == 3
    assert said[0].startswith("wrong    numpy ")
    assert said[0].endswith("is older than 999; pip install 'numpy>=999'")
    assert said[1] == "wrong    no-such-thing is not installed; pip install 'no-such-thing>=1.0'"
    assert said[2] == "note     neither-this is not installed, which is optional; pip install 'scyc[tune]'"


@pytest.mark.parametrize(("text", "expected"), [("2.13.0+cpu", [2, 13, 0]), ("1.9.0.post1", [1, 9, 0]), ("5", [5])])
def test_releases_are_compared_by_their_numbers(text: str, expected: list[int]) -> None:
    assert numbers(text) == expected


def test_an_old_python_is_said() -> None:
    assert [python(running).kind for running in ((3, 10), (3, 11))] == ["wrong", "ok"]


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    last = list(folder(tmp_path / "a" / "runs"))[-1]
    assert last.kind == "ok"
    assert last.line.endswith(f"; {tmp_path}/a/runs is made by the first run")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("scyc.store.files.write", refuse)
    last = list(folder(tmp_path))[-1]
    assert last == Finding(
        "note", f"{tmp_path}: cannot be written (Permission denied); train in a folder of your own (--root)"
    )


def test_the_command_prints_a_line_each_and_exits_with_4_where_something_is_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def code() -> int:
        monkeypatch.setattr(sys, "argv", ["scyc", "doctor", "--root", str(store.root)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0)

    assert code() == 0
    assert "looked at 8 runs" in capsys.readouterr().out.splitlines()[-1]
    flip(store.root / finished(store) / "records.jsonl")
    assert code() == 4
    assert any(line.startswith("damaged  ") for line in capsys.readouterr().out.splitlines())
