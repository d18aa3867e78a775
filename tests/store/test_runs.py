import datetime
import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from scyc.store import checkpoint, journal, runs
from scyc.store.files import Full, Integrity
from scyc.store.lock import Held, Hold
from scyc.store.runs import Store

A, B, C = "00000000000a", "0000000000b0", "ffffffffffff"
CONFIG = {"network": "mlp", "lr": {"peak": 0.03, "drops": [20, 25]}, "seed": 0}


@pytest.fixture
def store(tmp_path) -> Store:
    """Two runs, of two cycles and of one, an experiment and a stack."""
    store = Store(tmp_path / "runs")
    store.create(A, CONFIG)
    store.create(B, {"seed": 1})
    for id, cycle in ((A, 0), (B, 0), (A, 1)):
        store.append(id, record(cycle))
    store.write_manifest("table-a@0.1", {"runs": [A, B]})
    checkpoint.save(store.stack_folder("stack"), {"stack": "stack"}, {"a": torch.zeros(2)})
    return store


def record(cycle: int) -> dict[str, object]:
    return {"cycle": cycle, "density": 0.8**cycle, "accuracy": None}


def test_what_was_stored_comes_back(store):
    assert store.config(A) == CONFIG
    assert store.records(A) == [record(0), record(1)]
    assert store.manifest("table-a@0.1") == {"runs": [A, B]}
    assert store.ids() == [A, B]
    assert store.experiments() == ["table-a@0.1"]
    assert store.stacks() == ["stack"]
    assert store.events(A) == []


def test_the_files_lie_where_the_documentation_says(store):
    store.event(A, "start")
    store.save_state(A, "state", {"a": torch.zeros(1)})
    found = {str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()}
    assert found == {
        f"{A}/config.json", f"{A}/records.jsonl", f"{A}/events.jsonl", f"{A}/state.safetensors",
        f"{B}/config.json", f"{B}/records.jsonl", ".experiments/table-a@0.1.json", ".stacks/stack/0000000000.ckpt",
    }  # fmt: skip


def test_every_file_of_a_run_is_readable_json_that_says_whose_it_is(store):
    config = json.loads((store.root / A / "config.json").read_text())
    assert (config["run"], config["config"]) == (A, CONFIG)
    rows = [json.loads(line) for line in (store.root / A / "records.jsonl").read_text().splitlines()]
    assert [(row["run"], row["cycle"]) for row in rows] == [(A, 0), (A, 1)]


def test_an_empty_store_has_nothing(tmp_path):
    store = Store(tmp_path / "missing")
    assert (store.ids(), store.experiments(), store.stacks(), store.rows(), store.clean()) == ([], [], [], [], [])
    with pytest.raises(ValueError, match="unknown run '00'; known: none"):
        store.find("00")


def test_a_run_is_created_once_and_keeps_its_configuration(store):
    store.create(A, CONFIG)
    store.create(A, dict(reversed(CONFIG.items())))
    with pytest.raises(Integrity, match=f"{A}/config.json: holds another configuration"):
        store.create(A, {**CONFIG, "seed": 1})
    assert store.config(A) == CONFIG


def test_a_cycle_is_recorded_once(store):
    store.append(A, record(0))
    store.append(A, record(1))
    assert store.records(A) == [record(0), record(1)]
    with pytest.raises(Integrity, match=f"{A}/records.jsonl: cycle 1 holds other values of accuracy, density, loss;"):
        store.append(A, {"cycle": 1, "density": 0.5, "accuracy": False, "loss": 1})
    with pytest.raises(Integrity, match="cycle 0 holds other values of density"):
        store.append(A, {**record(0), "density": 1})  # 1 is not 1.0 bit for bit
    assert store.records(A) == [record(0), record(1)]


@pytest.mark.parametrize("cycle", [3, -1, "2", 2.0, True, None])
def test_cycles_are_recorded_in_order(store, cycle):
    with pytest.raises(ValueError, match=r"is out of order; the next one is 2"):
        store.append(A, record(0) | {"cycle": cycle})


def test_a_record_needs_its_cycle_and_cannot_say_another_run(store):
    with pytest.raises(ValueError, match="cycle None is out of order"):
        store.append(A, {"loss": 1.0})
    with pytest.raises(ValueError, match="'run'"):
        store.append(A, {"cycle": 2, "run": B})


def test_rows_of_many_runs_say_their_run(store):
    rows = [{**record(0), "run": A}, {**record(1), "run": A}, {**record(0), "run": B}]
    assert store.rows() == rows
    assert store.rows([B]) == rows[2:]
    with pytest.raises(ValueError, match=f"unknown run '{C}'"):
        store.rows([C])


def test_events_keep_their_order_when_the_clock_is_set_back(store, monkeypatch):
    class Clock(datetime.datetime):
        years = iter([2030, 2020, 2025])

        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(next(cls.years), 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(runs, "datetime", Clock)
    for kind in ("start", "resume", "end"):
        store.event(A, kind, device="cpu")
    assert store.events(A) == [
        {"run": A, "kind": "start", "device": "cpu", "time": "2030-01-02T03:04:05.000+00:00"},
        {"run": A, "kind": "resume", "device": "cpu", "time": "2020-01-02T03:04:05.000+00:00"},
        {"run": A, "kind": "end", "device": "cpu", "time": "2025-01-02T03:04:05.000+00:00"},
    ]


def test_an_event_cannot_lie_about_its_run_or_time(store):
    for name in ("run", "time"):
        with pytest.raises(ValueError, match=f"'{name}'"):
            store.event(A, "start", **{name: "x"})


def test_states_come_back_and_are_checked(store):
    sha256 = store.save_state(A, "state", {"a": torch.arange(3)})
    assert store.load_state(A, "state", sha256)["a"].tolist() == [0, 1, 2]
    store.save_state(B, "state", {"a": torch.arange(3)})
    shutil.copy(store.root / B / "state.safetensors", store.root / A / "state.safetensors")
    with pytest.raises(Integrity, match=f"{A}/state.safetensors: sha256 is"):
        store.load_state(A, "state", sha256)
    with pytest.raises(Integrity, match=f"{A}/other.safetensors: is missing"):
        store.load_state(A, "other", sha256)


def test_find_takes_the_beginning_of_an_id(store):
    assert store.find(A) == A
    assert store.find("0000000000b") == B
    with pytest.raises(ValueError, match=f"run '0' is ambiguous: {A}, {B}; type more digits"):
        store.find("0")
    with pytest.raises(ValueError, match=f"unknown run '10000000000a'; did you mean '{A}'"):
        store.find("10000000000a")


def test_an_unknown_id_among_thousands_is_answered_in_a_short_line(tmp_path):
    for number in range(2000):
        (tmp_path / f"{number:012x}").mkdir()
    with pytest.raises(ValueError, match="unknown run 'zzz'") as error:
        Store(tmp_path).find("zzz")
    assert len(str(error.value)) < 150


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


@pytest.mark.parametrize("name", ["a", "A-b_c.d@0.1", "-", "x" * 100, "table-a"])
def test_other_names_are_fine(store, name):
    store.write_manifest(name, {"name": name})
    assert store.manifest(name) == {"name": name}
    assert name in store.experiments()


def test_an_unknown_experiment_names_the_nearest(store):
    with pytest.raises(ValueError, match=r"unknown experiment 'table-b@0.1'; did you mean 'table-a@0.1'"):
        store.manifest("table-b@0.1")


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


def test_a_store_can_be_moved(store, tmp_path):
    sha256 = store.save_state(A, "state", {"a": torch.zeros(1)})
    moved = Store(shutil.move(store.root, tmp_path / "elsewhere"))
    assert moved.records(A) == [record(0), record(1)]
    assert moved.load_state(A, "state", sha256)["a"].tolist() == [0]
    assert checkpoint.load(moved.stack_folder("stack"), stack="stack").generation == 0
    assert not any(bytes(store.root) in path.read_bytes() for path in moved.root.rglob("*") if path.is_file())


def test_a_run_is_removed_unless_it_is_held(store):
    with Hold(store.root, [A]), pytest.raises(Held, match=f"run {A} is held by process {os.getpid()}"):
        store.remove(A)
    assert store.ids() == [A, B]
    store.remove(A)
    assert store.ids() == [B]
    with pytest.raises(ValueError, match="unknown run"):
        store.remove(A)


def test_a_stack_is_dropped(store):
    store.drop_stack("stack")
    store.drop_stack("stack")
    assert store.stacks() == []


def test_killed_while_creating_there_is_a_whole_run_or_none(tmp_path, faults):
    store = Store(tmp_path / "runs")
    for _ in faults.everywhere(lambda: store.create(A, CONFIG)):
        if store.ids():
            assert store.config(A) == CONFIG
            assert store.records(A) == []
            store.remove(A)
    store.clean()
    assert sorted(os.listdir(store.root)) == [A, ".holders", ".lock"] or store.ids() == [A]
    assert not list(store.root.glob(".*.tmp"))


def test_killed_while_removing_there_is_a_whole_run_or_none(tmp_path, faults):
    store = Store(tmp_path / "runs")
    store.create(A, CONFIG)
    for _ in faults.everywhere(lambda: store.remove(A)):
        if store.ids():
            assert store.config(A) == CONFIG
        store.create(A, CONFIG)
    store.clean()
    assert sorted(os.listdir(store.root)) == [".holders", ".lock"]


def test_killed_while_writing_a_manifest_there_is_the_old_or_the_new_one(store, faults):
    seen = []
    for _ in faults.everywhere(lambda: store.write_manifest("table-a@0.1", {"runs": []})):
        seen.append(len(store.manifest("table-a@0.1")["runs"]))
        store.write_manifest("table-a@0.1", {"runs": [A, B]})
    assert set(seen) == {0, 2}


def test_killed_while_recording_the_record_can_be_appended_again(store, faults):
    path = store.root / A / "records.jsonl"
    before = path.read_bytes()
    for _ in faults.everywhere(lambda: store.append(A, record(2))):
        store.append(A, record(2))
        assert store.records(A) == [record(0), record(1), record(2)]
        path.write_bytes(before)


def test_a_full_disk_loses_nothing_and_names_the_file(store, faults):
    def job() -> None:
        calls = {
            f"{A}/records.jsonl": lambda: store.append(A, record(2)),
            f"{A}/events.jsonl": lambda: store.event(A, "start"),
            f"{A}/state.safetensors": lambda: store.save_state(A, "state", {"a": torch.zeros(9)}),
            ".experiments/table-a@0.1.json": lambda: store.write_manifest("table-a@0.1", {}),
            f"{C}/config.json": lambda: store.create(C, CONFIG),
        }
        for name, call in calls.items():
            with pytest.raises(Full, match=r"no room for [0-9]+ bytes") as error:
                call()
            assert name in str(error.value)

    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    for limit in (0, 20):
        assert faults.limited(limit, job) == 0
    after = {
        path: path.read_bytes() for path in store.root.rglob("*") if path.is_file() and path.name != "events.jsonl"
    }
    assert after == before
    assert store.events(A) == []


def test_clean_removes_what_killed_writers_left_everywhere(store, faults):
    gone = faults.start(lambda: None)
    faults.status(gone)
    for folder in (".", A, ".experiments", ".stacks", ".stacks/stack"):
        (store.root / folder / f".x.{os.uname().nodename}-{gone}-00000000.tmp").write_bytes(b"")
    store.write_manifest("another", {})
    assert not list(store.root.glob(".x.*"))  # one that is used from time to time needs no cleaning
    assert len(store.clean()) == 3
    assert not list(store.root.rglob(".x.*"))
    assert store.clean() == []


def test_eight_writers_and_two_readers(tmp_path, faults):
    store = Store(tmp_path / "runs")
    ids = [f"{number:012x}" for number in range(8)]

    def write(id: str) -> None:
        store.create(id, {"id": id})
        with Hold(store.root, [id]):
            for cycle in range(15):
                store.append(id, {"cycle": cycle, "text": id * cycle})
                store.event(id, "cycle", cycle=cycle)
                store.write_manifest("shared", {"runs": ids, "cycle": cycle})

    def read() -> None:
        while len(rows := store.rows()) < 8 * 15:
            for id in store.ids():
                cycles = [row["cycle"] for row in rows if row["run"] == id]
                assert cycles == list(range(len(cycles)))
                assert store.config(id) == {"id": id}
            if store.experiments():
                assert store.manifest("shared")["runs"] == ids

    pids = [*(faults.start(lambda id=id: write(id)) for id in ids), *(faults.start(read) for _ in range(2))]
    assert [faults.status(pid) for pid in pids] == [0] * 10
    assert [len(store.events(id)) for id in ids] == [15] * 8


def test_eight_that_create_the_same_run_make_one(tmp_path, faults):
    store = Store(tmp_path / "runs")
    pids = [faults.start(lambda: [store.create(f"{n:012x}", CONFIG) for n in range(20)]) for _ in range(8)]
    assert [faults.status(pid) for pid in pids] == [0] * 8
    assert len(store.ids()) == 20
    assert not list(store.root.glob(".*.tmp"))


@pytest.mark.slow
def test_resuming_after_every_kill_ends_with_the_records_of_an_undisturbed_run(tmp_path, faults):
    store = Store(tmp_path / "runs")
    chance = random.Random(0)

    def job() -> None:
        with Hold(store.root, [A]):
            store.create(A, CONFIG)
            folder = store.stack_folder("stack")
            found = checkpoint.load(folder, stack="stack") if checkpoint.exists(folder) else None
            value = int(found.tensors["a"][0]) if found else 0
            for cycle in range(found.head["cycle"] + 1 if found else 0, 60):
                value = (value * 31 + cycle) % 1009
                store.append(A, {"cycle": cycle, "value": value})
                checkpoint.save(folder, {"stack": "stack", "cycle": cycle}, {"a": torch.tensor([value])})

    kills = 0
    while True:
        pid = faults.start(job)
        time.sleep(chance.uniform(0.002, 0.05))
        os.kill(pid, signal.SIGKILL)
        if faults.status(pid) == 0:
            break
        kills += 1
    expected = [0]
    for cycle in range(1, 60):
        expected.append((expected[-1] * 31 + cycle) % 1009)
    assert [row["value"] for row in store.records(A)] == expected
    assert kills > 3


def test_questions_need_no_torch():
    code = "import sys; from scyc.store.runs import Store; Store('missing').rows(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_is_ever_pickled():
    code = re.compile(r"pickle\b|marshal|\b(eval|exec)\(|(?<!safetensors\.)torch\.(load|save)\(")
    paths = list(Path(runs.__file__).parent.glob("*.py"))
    assert len(paths) > 5
    assert [path.name for path in paths if code.search(path.read_text())] == []
