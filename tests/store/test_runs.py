import datetime
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from stored import CONFIG, A, B, C, record

from scyc.store import checkpoint, runs
from scyc.store.files import Integrity
from scyc.store.lock import Held, Hold
from scyc.store.runs import Store


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


@pytest.mark.parametrize("name", ["a", "A-b_c.d@0.1", "-", "x" * 100, "table-a"])
def test_other_names_are_fine(store, name):
    store.write_manifest(name, {"name": name})
    assert store.manifest(name) == {"name": name}
    assert name in store.experiments()


def test_an_unknown_experiment_names_the_nearest(store):
    with pytest.raises(ValueError, match=r"unknown experiment 'table-b@0.1'; did you mean 'table-a@0.1'"):
        store.manifest("table-b@0.1")


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


def test_questions_need_no_torch():
    code = "import sys; from scyc.store.runs import Store; Store('missing').rows(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_further_journal_takes_every_key_once(store):
    for step in (0, 50):
        store.append_beside(A, "curve", {"cycle": 0, "step": step, "loss": 0.5}, key=["cycle", "step"])
    store.append_beside(A, "curve", {"cycle": 0, "step": 50, "loss": 0.5}, key=["cycle", "step"])
    assert store.beside(A, "curve") == [{"cycle": 0, "step": 0, "loss": 0.5}, {"cycle": 0, "step": 50, "loss": 0.5}]
    assert store.beside(B, "curve") == []
    with pytest.raises(Integrity, match=f"{A}/curve.jsonl: cycle 0, step 50 holds other values of loss;"):
        store.append_beside(A, "curve", {"cycle": 0, "step": 50, "loss": 1}, key=["cycle", "step"])


@pytest.mark.parametrize("name", ["records", "events", "../x", ""])
def test_a_further_journal_needs_a_name_of_its_own(store, name):
    for call in (store.beside, lambda id, name: store.append_beside(id, name, {"a": 1}, key=["a"])):
        with pytest.raises(ValueError, match=r"journal .* (choose another name|cannot be a file name)"):
            call(A, name)
