"""What a training left behind, truncated, empty, missing or exchanged: refused in one line, at once."""

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from command import command
from scyc.store import checkpoint, weights
from scyc.store.files import Integrity
from scyc.store.runs import Store
from test_flipped_bits import WORDS, Left, left, made  # noqa: F401  (fixtures)

SECONDS = 1.0


def refused(load: Callable[[], Any], path: Path) -> None:
    """In one line that names the file, in less than a second: of the processor, since others may be using it too."""
    began = time.process_time()
    with pytest.raises(Integrity) as error:
        print(load())
    assert time.process_time() - began < SECONDS
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def sealed(left: Left) -> dict[Path, Callable[[], Any]]:  # noqa: F811
    """Files that are whole or nothing, and who reads them."""
    store, (older, newest) = left.whole, left.generations
    older.unlink()
    id = store.ids()[0]
    state, folder = store.records(id)[-1]["state"], left.part.stack_folder(left.stack)
    return {
        newest: lambda: checkpoint.load(folder, stack=left.part.stacks()[0] if newest.exists() else folder.name),
        store.root / id / "cycle-002.safetensors": lambda: store.load_state(id, "cycle-002", state),
        store.root / id / "config.json": lambda: store.config(id),
        store.root / ".experiments/tiny.json": lambda: store.manifest("tiny"),
    }


@pytest.mark.torture
def test_truncated_or_empty_files_are_refused(
    left: Left,  # noqa: F811
    size: Callable[[int, int], int],
    figure: Callable[[str], None],
) -> None:
    count = 0
    for path, load in sealed(left).items():
        data = path.read_bytes()
        for percent in range(0, 100, size(11, 1)):
            path.write_bytes(data[: len(data) * percent // 100])
            refused(load, path)
            count += 1
        path.write_bytes(data)
        assert load()
    figure(f"files of a store cut to 0..99 %: {count}, each refused in a line and in under {SECONDS:g} s")


@pytest.mark.torture
def test_a_truncated_journal_is_its_first_lines_and_the_torn_one_is_said(
    left: Left,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    size: Callable[[int, int], int],
    figure: Callable[[str], None],
) -> None:
    store, count = left.whole, 0
    id = store.ids()[0]
    for name, load in (("records", store.records), ("events", store.events)):
        path, rows = store.root / id / f"{name}.jsonl", load(id)
        data = path.read_bytes()
        for percent in range(0, 100, size(11, 1)):
            cut = data[: len(data) * percent // 100]
            path.write_bytes(cut)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                found = load(id)
            lines = data.splitlines()
            whole = sum(
                cut.startswith(b"\n".join(lines[: n + 1])) for n in range(len(lines))
            )  # a newline may be missing
            assert found == rows[:whole]
            torn = cut not in (b"\n".join(lines[:whole]), b"\n".join([*lines[:whole], b""]))
            assert caplog.messages == [f"{path}: its last line was never finished and is left out"] * torn
            count += 1
        path.write_bytes(data)
    figure(f"journals cut to 0..99 %: {count}, the whole lines were read, the torn one was said")


@pytest.mark.torture
def test_missing_files_are_refused(left: Left) -> None:  # noqa: F811
    for path, load in sealed(left).items():
        os.rename(path, path.with_name("away"))
        began = time.process_time()
        with pytest.raises(ValueError, match=r"is missing|empty or missing|unknown experiment") as error:
            print(load())
        assert time.process_time() - began < SECONDS
        assert "\n" not in str(error.value)
        os.rename(path.with_name("away"), path)


@pytest.mark.torture
def test_exchanged_files_are_refused(left: Left) -> None:  # noqa: F811
    """Every file in the place of every other one, and in that of the same one of another run."""
    files, store = sealed(left), left.whole
    one, other = store.ids()
    for path, load in files.items():
        data = path.read_bytes()
        neighbour = store.root / other / path.name
        for source in [*files, *([neighbour] if neighbour.exists() else []), store.root / one / "records.jsonl"]:
            if source != path:
                path.write_bytes(source.read_bytes())
                refused(load, path)
                path.write_bytes(data)
    for name, load in (("records", store.records), ("events", store.events)):
        path = store.root / one / f"{name}.jsonl"
        data = path.read_bytes()
        for source in (store.root / other / path.name, store.root / one / "config.json", *files):
            path.write_bytes(source.read_bytes())
            refused(lambda: load(one), path)  # noqa: B023
            path.write_bytes(data)


def test_a_large_truncated_file_of_weights_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    sha256 = weights.save_tensors(path, {"a": torch.zeros(10)}, {})
    os.truncate(path, 200 * 2**30)  # sparse: reading it would take minutes
    refused(lambda: weights.load_tensors(path, sha256), path)


@pytest.mark.torture
@pytest.mark.parametrize("percent", [1, 50, 99])
def test_a_command_that_meets_one_goes_on_or_is_one_line(
    left: Left,  # noqa: F811
    made: Left,  # noqa: F811
    percent: int,
) -> None:
    records = {path.parent.name: path.read_bytes() for path in made.whole.root.glob("*/records.jsonl")}
    for name in ("config.json", "records.jsonl"):
        shutil.rmtree(left.whole.root)
        shutil.copytree(made.whole.root, left.whole.root)
        path = left.whole.root / left.whole.ids()[0] / name
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * percent // 100])
        said = command(left.folder, WORDS)
        if name == "records.jsonl":  # what was torn off is trained again
            assert said.code == 0, said.err
            found = {path.parent.name: path.read_bytes() for path in left.whole.root.glob("*/records.jsonl")}
            assert found == records
        else:
            assert (said.code, len(said.err.splitlines())) == (4, 1)
            assert said.seconds < SECONDS
    store = Store(left.whole.root)
    assert len(store.ids()) == 2
