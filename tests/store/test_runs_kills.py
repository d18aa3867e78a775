import os
import random
import signal
import time

import pytest
import torch
from stored import CONFIG, A, B, C, record

from scyc.store import checkpoint
from scyc.store.files import Full
from scyc.store.lock import Hold
from scyc.store.runs import Store


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
    receive, send = os.pipe()

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
                os.write(send, b".")
            os.write(send, b"." * 10)  # whoever waits for more cycles than are left is not kept waiting

    kills = 0
    while True:
        pid = faults.start(job)
        for _ in range(chance.randint(1, 10)):  # cycles, not seconds: a fast machine is killed as often as a slow one
            os.read(receive, 1)
        time.sleep(chance.uniform(0, 0.002))
        os.kill(pid, signal.SIGKILL)
        if faults.status(pid) == 0:
            break
        kills += 1
    expected = [0]
    for cycle in range(1, 60):
        expected.append((expected[-1] * 31 + cycle) % 1009)
    assert [row["value"] for row in store.records(A)] == expected
    assert kills > 3
