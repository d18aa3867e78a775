import hashlib
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from stored import STACK, names, save, step_of

from scyc.store import checkpoint, weights
from scyc.store.files import Integrity


def test_what_was_saved_comes_back(tmp_path):
    folder = tmp_path / "new" / "stack"
    assert not checkpoint.exists(folder)
    assert save(folder, 7) == folder / "0000000000.ckpt"
    assert checkpoint.exists(folder)
    found = checkpoint.load(folder, stack=STACK)
    assert step_of(found) == 7
    assert (found.generation, found.rejected) == (0, ())
    assert checkpoint.head(folder, stack=STACK) == {"stack": STACK, "step": 7, "lr": 0.1}


def test_the_newest_two_generations_are_kept(tmp_path):
    for step in range(5):
        save(tmp_path, step)
    assert names(tmp_path) == ["0000000003.ckpt", "0000000004.ckpt"]
    assert step_of(checkpoint.load(tmp_path, stack=STACK)) == 4


def test_the_file_is_a_line_with_the_sha256_and_then_plain_safetensors(tmp_path):
    data = save(tmp_path, 7).read_bytes()
    first, payload = data.split(b"\n", 1)
    assert first == b"scyc-checkpoint 1 " + hashlib.sha256(payload).hexdigest().encode()
    assert weights.decode(payload, tmp_path)["order"].tolist() == [[7], [7]]


def test_the_same_state_gives_the_same_bytes(tmp_path):
    assert save(tmp_path / "a", 7).read_bytes() == save(tmp_path / "b", 7).read_bytes()


def test_a_flipped_bit_is_refused_and_the_former_one_loads(tmp_path, flips):
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    for place in flips(path):
        found = checkpoint.load(tmp_path, stack=STACK)
        assert step_of(found) == 1, place
        assert len(found.rejected) == 1, place
        assert found.rejected[0].startswith(f"{path}: "), place
    assert checkpoint.load(tmp_path, stack=STACK).rejected == ()


def test_a_flipped_bit_in_the_only_one_never_loads(tmp_path, flips):
    path = save(tmp_path, 2)
    for place in flips(path):
        for load in (checkpoint.load, checkpoint.head):
            with pytest.raises(Integrity) as error:
                print(place, load(tmp_path, stack=STACK))
            assert str(error.value).startswith(f"{tmp_path}: no usable checkpoint: {path}: ")
            assert "\n" not in str(error.value)


def test_cut_anywhere_it_is_refused(tmp_path):
    path = save(tmp_path, 2)
    data = path.read_bytes()
    for size in reversed(range(len(data))):
        os.truncate(path, size)
        with pytest.raises(Integrity, match="no usable checkpoint") as error:
            checkpoint.load(tmp_path, stack=STACK)
        assert "\n" not in str(error.value)
    path.write_bytes(data + b"\0")
    with pytest.raises(Integrity, match=f"has {len(data) + 1} bytes, expected {len(data)}"):
        checkpoint.load(tmp_path, stack=STACK)


def test_a_missing_folder_and_an_empty_one_are_said(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        assert not checkpoint.exists(folder)
        with pytest.raises(Integrity, match=r"no usable checkpoint: it is empty or missing; remove the folder"):
            checkpoint.load(folder, stack=STACK)


def test_one_of_another_stack_is_refused(tmp_path):
    save(tmp_path / "a", 1)
    other = save(tmp_path / "b", 2, stack="ba9876543210")
    shutil.copy(other, tmp_path / "a" / "0000000001.ckpt")
    with pytest.raises(Integrity, match=r"holds generation 0 of stack ba9876543210, expected generation 0 of stack 01"):
        checkpoint.load(tmp_path / "b", stack=STACK)
    found = checkpoint.load(tmp_path / "a", stack=STACK)
    assert step_of(found) == 1
    assert "0000000001.ckpt: holds generation 0 of stack ba9876543210" in found.rejected[0]


def test_an_old_one_under_a_new_name_is_refused(tmp_path):
    shutil.copy(save(tmp_path, 1), tmp_path / "0000000005.ckpt")
    found = checkpoint.load(tmp_path, stack=STACK)
    assert found.generation == 0
    assert "holds generation 0 of stack 0123456789ab, expected generation 5" in found.rejected[0]


def test_both_damaged_are_both_named(tmp_path):
    for step in (1, 2):
        save(tmp_path, step).write_bytes(b"")
    with pytest.raises(Integrity, match=r"0000000001.ckpt: not a checkpoint.*0000000000.ckpt: not a checkpoint"):
        checkpoint.load(tmp_path, stack=STACK)


def test_a_link_a_pipe_and_a_folder_in_its_place_are_refused(tmp_path):
    elsewhere = save(tmp_path / "elsewhere", 1)
    folder = tmp_path / "stack"
    folder.mkdir()
    os.symlink(elsewhere, folder / "0000000000.ckpt")
    os.mkfifo(folder / "0000000001.ckpt")
    (folder / "0000000002.ckpt").mkdir()
    with pytest.raises(Integrity) as error:
        checkpoint.load(folder, stack=STACK)
    assert str(error.value).count("expected a plain file") == 3
    save(folder, 3)
    assert step_of(checkpoint.load(folder, stack=STACK)) == 3


def test_a_sick_disk_falls_back_too(tmp_path, monkeypatch):
    save(tmp_path, 1)
    save(tmp_path, 2)
    real = checkpoint.files.opened

    def opened(path: Path):
        if path.name == "0000000001.ckpt":
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(checkpoint.files, "opened", opened)
    found = checkpoint.load(tmp_path, stack=STACK)
    assert step_of(found) == 1
    assert "Input/output error" in found.rejected[0]


def forged(folder: Path, metadata: dict[str, str]) -> None:
    payload = b"".join(weights.encode({"a": torch.zeros(2)}, metadata))
    first = f"scyc-checkpoint 1 {hashlib.sha256(payload).hexdigest()}\n".encode()
    (folder / "0000000000.ckpt").write_bytes(first + payload)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"generation": "0"},
        {"head": '{"stack":"0123456789ab"}'},
        {"generation": "0", "head": "{"},
        {"generation": "0", "head": "[]"},
        {"generation": "0", "head": "{}"},
        {"generation": "0", "head": '{"stack":NaN}'},
        {"generation": "0\n", "head": '{"stack":"0123456789ab"}'},
        {"generation": "0", "head": '{"stack":"\\n\\n"}'},
        {"generation": "0", "head": "[" * 99_999},
    ],
)
def test_a_right_checksum_does_not_make_it_a_checkpoint(tmp_path, metadata):
    forged(tmp_path, metadata)
    with pytest.raises(Integrity) as error:
        checkpoint.load(tmp_path, stack=STACK)
    assert "\n" not in str(error.value)


def test_a_very_high_number_does_not_hide_later_ones(tmp_path):
    (tmp_path / "9999999999.ckpt").write_bytes(b"")
    for step in (1, 2):
        save(tmp_path, step)
        found = checkpoint.load(tmp_path, stack=STACK)
        assert (step_of(found), found.rejected) == (step, ())
    assert names(tmp_path) == ["10000000000.ckpt", "10000000001.ckpt"]


def test_other_files_are_ignored(tmp_path):
    save(tmp_path, 1)
    for name in ("notes.txt", "x.ckpt", "0000000001.ckpt.bak"):
        (tmp_path / name).write_bytes(b"")
    assert checkpoint.load(tmp_path, stack=STACK).rejected == ()


def test_a_large_one_is_refused_before_it_is_read(tmp_path):
    checkpoint.save(tmp_path, {"stack": STACK}, {"a": torch.zeros(10)})
    path = tmp_path / "0000000000.ckpt"
    os.truncate(path, 200 * 2**30)  # sparse: reading it would take minutes
    start = time.monotonic()
    with pytest.raises(Integrity, match="expected"):
        checkpoint.load(tmp_path, stack=STACK)
    with pytest.raises(Integrity, match="holds generation 0 of stack"):
        checkpoint.load(tmp_path, stack="another")
    assert time.monotonic() - start < 1


def test_a_head_without_stack_is_refused_when_saved(tmp_path):
    with pytest.raises(ValueError, match="'stack'"):
        checkpoint.save(tmp_path, {"step": 1}, {})
    assert names(tmp_path) == []
