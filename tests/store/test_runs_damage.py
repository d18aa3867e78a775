import logging
import os
import re
import shutil
from pathlib import Path

import pytest
from stored import CONFIG, A, B, C, record

from scyc.store import journal, runs
from scyc.store.files import Integrity

BAD_IDS = [
    "",
    "..",
    "../../x",
    "00000000000A",
    "00000000000a\n",
    "00000000000a/",
    "0000000000000",
    "٠٠٠٠٠٠٠٠٠٠٠٠",
    "\0",
]


@pytest.mark.parametrize("id", BAD_IDS)
def test_no_path_is_built_from_anything_but_an_id(store, id):
    before = sorted(store.root.parent.rglob("*"))
    calls = [
        lambda: store.create(id, {}), lambda: store.config(id), lambda: store.records(id), lambda: store.rows([id]),
        lambda: store.append(id, record(0)), lambda: store.event(id, "start"), lambda: store.events(id),
        lambda: store.remove(id), lambda: store.save_state(id, "state", {}), lambda: store.load_state(id, "state", ""),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="is not 12 hexadecimal digits"):
            call()
    assert sorted(store.root.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../x", "/etc/passwd", ".hidden", "a/b", "a\n", "a b", "ä", "a\0", "x" * 101]
)
def test_names_that_are_no_file_names_are_refused_with_the_fix(store, name):
    calls = [
        lambda: store.write_manifest(name, {}), lambda: store.manifest(name), lambda: store.stack_folder(name),
        lambda: store.drop_stack(name), lambda: store.save_state(A, name, {}), lambda: store.load_state(A, name, ""),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="cannot be a file name; use letters, digits") as error:
            call()
        assert "\n" not in str(error.value)


def test_a_flipped_bit_in_a_small_file_never_loads(store, flips):
    for path, load in [
        (store.root / A / "config.json", lambda: store.config(A)),
        (store.root / A / "records.jsonl", lambda: store.records(A)),
        (store.root / A / "records.jsonl", lambda: store.rows()),
        (store.root / ".experiments" / "table-a@0.1.json", lambda: store.manifest("table-a@0.1")),
    ]:
        loaded = load()
        for place in flips(path):
            with pytest.raises(Integrity) as error:
                print(place, load())
            assert str(error.value).startswith(f"{path}: ")
            assert "\n" not in str(error.value)
        assert load() == loaded


def test_cut_files_are_refused(store):
    for path, load in [
        (store.root / A / "config.json", lambda: store.config(A)),
        (store.root / ".experiments" / "table-a@0.1.json", lambda: store.manifest("table-a@0.1")),
    ]:
        data, loaded = path.read_bytes(), load()
        for size in range(len(data) - 1):
            path.write_bytes(data[:size])
            with pytest.raises(Integrity, match=f"^{path}: expected the"):
                load()
        path.write_bytes(data[:-1])  # only the last newline is gone
        assert load() == loaded


def test_a_torn_record_is_left_out_aloud_and_its_repair_is_an_event(store, caplog):
    path = store.root / A / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    with caplog.at_level(logging.WARNING):
        assert store.records(A) == [record(0)]
    assert caplog.messages == [f"{path}: its last line was never finished and is left out"]
    store.append(A, record(1))
    assert store.records(A) == [record(0), record(1)]
    (event,) = store.events(A)
    assert (event["kind"], event["file"]) == ("repair", "records.jsonl")
    assert event["bytes"] == len(journal.seal({**record(1), "run": A})) + 1 - 9


def test_a_torn_event_is_an_event_too(store):
    store.event(A, "start")
    path = store.root / A / "events.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind":"en')
    store.event(A, "end")
    assert [event["kind"] for event in store.events(A)] == ["start", "end", "repair"]


def test_a_record_that_was_taken_out_is_missed(store):
    path = store.root / A / "records.jsonl"
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    with pytest.raises(Integrity, match=f"{path}: expected cycles 0 to 0 in order"):
        store.records(A)


def test_swapped_files_are_refused(store):
    store.event(A, "start")
    store.write_manifest("other", {"runs": []})
    for name in ("config.json", "records.jsonl", "events.jsonl"):
        shutil.copy(store.root / A / name, store.root / B / name)
    for load in (store.config, store.records, store.events):
        with pytest.raises(Integrity, match=f"^{store.root}/{B}/"):
            load(B)
    with pytest.raises(Integrity, match="lines of another run"):
        store.rows()
    shutil.copy(store.root / ".experiments" / "other.json", store.root / ".experiments" / "table-a@0.1.json")
    with pytest.raises(Integrity, match=r"expected the manifest of experiment table-a@0.1"):
        store.manifest("table-a@0.1")


def test_a_missing_or_empty_configuration_is_said(store):
    path = store.root / A / "config.json"
    path.write_bytes(b"")
    with pytest.raises(Integrity, match=f"^{path}: expected the config of run {A}"):
        store.config(A)
    path.unlink()
    for call in (lambda: store.config(A), lambda: store.create(A, CONFIG)):
        with pytest.raises(Integrity, match=f"^{path}: is missing"):
            call()


def test_a_run_folder_that_is_a_link_is_refused(store, tmp_path):
    shutil.move(store.root / B, tmp_path / "outside")
    os.symlink(tmp_path / "outside", store.root / B)
    calls = [store.config, store.records, store.events, store.remove, lambda id: store.append(id, record(1))]
    for call in [
        *calls,
        lambda id: store.event(id, "start"),
        lambda id: store.rows(),
        lambda id: store.create(id, {"seed": 1}),
    ]:
        with pytest.raises(Integrity, match=f"{B}: expected a folder, found a link"):
            call(B)
    os.symlink(tmp_path / "outside", store.root / ".stacks" / "other")
    with pytest.raises(Integrity, match="other: expected a folder, found a link"):
        store.drop_stack("other")
    assert sorted(os.listdir(tmp_path / "outside")) == ["config.json", "records.jsonl"]


def test_other_things_in_the_folder_are_ignored(store):
    rows, ids = store.rows(), store.ids()
    (store.root / "notes").mkdir()
    (store.root / "notes" / "records.jsonl").write_bytes(b"garbage")
    (store.root / "README").write_bytes(b"")
    (store.root / C).write_bytes(b"a file, no run")
    (store.root / A / "plot.png").write_bytes(b"")
    (store.root / ".experiments" / "notes.txt").write_bytes(b"")
    (store.root / ".stacks" / "empty").mkdir()
    assert (store.rows(), store.ids(), store.experiments(), store.stacks()) == (rows, ids, ["table-a@0.1"], ["stack"])


def test_nothing_is_ever_pickled():
    code = re.compile(r"pickle\b|marshal|\b(eval|exec)\(|(?<!safetensors\.)torch\.(load|save)\(")
    paths = list(Path(runs.__file__).parent.glob("*.py"))
    assert len(paths) > 5
    assert [path.name for path in paths if code.search(path.read_text())] == []
