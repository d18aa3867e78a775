"""An experiment in a store: identities, manifests, jobs, and training with resumes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scyc import sweep
from scyc.config import digest, plain
from scyc.data import read
from scyc.experiment import Experiment, experiment
from scyc.store import checkpoint
from scyc.store.runs import Store
from scyc.training import Control, Interrupted, Options, Training

SMALL: dict[str, Any] = {
    "doc": "small",
    "seeds": 2,
    "run": {
        "data": {"name": "digits", "limit": 300},
        "model": {"name": "mlp", "widths": [6]},
        "steps": 6,
        "batch": 20,
        "cycles": 3,
        "eval_every": 2,
    },
    "schedules": {
        "low": {"peak": {"name": "fixed", "lr": 0.05}, "shape": "constant"},
        "scyc": {"peak": {"name": "scyc", "eps": 0.05, "delta": 0.1, "q": 0, "beta": 4}, "shape": "constant"},
    },
}


class Stopping(Control):
    """Asks to stop after so many steps, as a signal would."""

    def __init__(self, steps: int) -> None:
        super().__init__(listeners=[self])
        self.left = steps

    def began(self, stack: object) -> None: ...
    def ended(self, stack: object, records: object) -> None: ...
    def said(self, line: str) -> None: ...

    def stepped(self, stack: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.signal = 2


def train(root: Path, plan: Experiment, control: Control | None = None, **options: Any) -> Store:
    store = Store(root)
    found = sweep.datasets(plan, ())
    ids = sweep.identities(plan, found)
    sweep.register(store, plan, ids, found)
    Training(store, found, Options(**options), control or Control()).train(sweep.unfinished(store, plan, ids))
    return store


def small(**run: Any) -> Experiment:
    return experiment({**SMALL, "run": {**SMALL["run"], **run}}, "small")


def journals(store: Store) -> dict[str, bytes]:
    return {id: (store.root / id / "records.jsonl").read_bytes() for id in store.ids()}


def test_every_run_is_recorded_to_its_end_and_nothing_is_left_over(tmp_path: Path) -> None:
    store = train(tmp_path, small())
    assert [len(store.records(id)) for id in store.ids()] == [3, 3, 3, 3]
    assert store.stacks() == []
    kinds = [event["kind"] for event in store.events(store.ids()[0])]
    assert kinds == ["started", "finished"]


def test_kept_weights_are_those_the_record_proves_and_pruned_ones_are_zero(tmp_path: Path) -> None:
    store = train(tmp_path, small())
    for id in store.ids():
        state = store.load_state(id, "cycle-002", store.records(id)[-1]["state"])
        mask = state["mask/fc1.weight"]
        assert 0 < int(mask.sum()) < mask.numel()
        assert bool((state["fc1.weight"][~mask] == 0).all())
    assert not list(tmp_path.glob("*/cycle-001.safetensors"))


@pytest.mark.parametrize(("keep", "files"), [("all", 3), ("last", 1), ("none", 0)])
def test_keep_decides_whose_weights_stay(tmp_path: Path, keep: str, files: int) -> None:
    store = train(tmp_path, small(), keep=keep)
    assert len(list((tmp_path / store.ids()[0]).glob("*.safetensors"))) == files


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 13, 17])
@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_interrupted_and_repeated_ends_with_the_same_bytes(tmp_path: Path, steps: int, engine: str) -> None:
    undisturbed = journals(train(tmp_path / "one", small(), engine=engine))
    with pytest.raises(Interrupted):
        train(tmp_path / "two", small(), Stopping(steps), engine=engine)
    assert journals(train(tmp_path / "two", small(), engine=engine)) == undisturbed


def test_a_finished_experiment_trains_nothing_again(tmp_path: Path) -> None:
    before = journals(train(tmp_path, small()))
    store = train(tmp_path, small())
    assert journals(store) == before
    assert [event["kind"] for event in store.events(store.ids()[0])] == ["started", "finished"]


def test_more_seeds_join_the_experiment_and_other_settings_replace_it_without_loss(tmp_path: Path) -> None:
    train(tmp_path, small())
    store = train(tmp_path, experiment({**SMALL, "seeds": "1-2"}, "small"))
    assert [len(ids) for _, ids in store.manifest("small")["schedules"]] == [3, 3]
    former = store.manifest("small")
    store = train(tmp_path, small(cycles=2))
    assert len(store.ids()) == 6 + 4
    assert store.manifest(f"small@{former['settings']}") == former


def test_a_subset_resumes_from_the_checkpoint_of_its_stack(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, small(), Stopping(9))
    one = experiment({**SMALL, "seeds": "1"}, "small")
    store = Store(tmp_path)
    found = sweep.datasets(one, ())
    ids = {
        id: run
        for label, names in sweep.identities(one, found).items()
        for id, run in zip(names, one.runs[label], strict=True)
    }
    (job,) = sweep.jobs(sweep.saved(store), ids)
    assert (set(job.runs), job.source) == (set(ids), store.stacks()[0])
    Training(store, found, Options(), Control()).train(ids)
    assert sweep.complete(store, next(iter(ids)))
    assert store.stacks() == [job.source]  # the other members still need it


def test_runs_stack_where_they_differ_in_seed_and_schedule_alone(tmp_path: Path) -> None:
    both = {**small().runs, "wide": small(model={"name": "mlp", "widths": [7]}).runs["low"]}
    runs = {f"{k:012x}": run for k, run in enumerate(run for group in both.values() for run in group)}
    assert [len(job.runs) for job in sweep.jobs([], runs)] == [4, 2]
    assert [len(job.runs) for job in sweep.jobs([], runs, width=3)] == [3, 1, 2]


def test_the_id_of_a_run_holds_the_content_of_its_data(tmp_path: Path) -> None:
    plan = small()
    found = sweep.datasets(plan, ())
    run = plan.runs["low"][0]
    expected = {
        **plain(run), "seed": 0, "precision": "float32", "data_digest": read("digits", {}, ()).digest(),
    }  # fmt: skip
    assert sweep.identities(plan, found)["low"][0] == digest(expected)


def test_another_environment_is_refused_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, small(), Stopping(4))
    monkeypatch.setattr("torch.__version__", "9.9.9")
    with pytest.raises(ValueError, match=r"torch .* is now 9\.9\.9.*--accept-environment"):
        train(tmp_path, small())
    store = train(tmp_path, small(), accept_environment=True)
    resumed = [event for event in store.events(store.ids()[0]) if event["kind"] == "resumed"]
    assert resumed[0]["environment"]["torch"] == "9.9.9"


def test_deterministic_is_part_of_the_environment_and_not_of_the_id(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, small(), Stopping(4), deterministic=True)
    store = Store(tmp_path)
    (started, *_) = store.events(store.ids()[0])
    assert started["environment"]["deterministic"] == "on"
    with pytest.raises(ValueError, match=r"deterministic on is now off.*--accept-environment"):
        train(tmp_path, small())
    assert not torch.are_deterministic_algorithms_enabled()
    train(tmp_path, small(), deterministic=True)
    assert journals(store) == journals(train(tmp_path / "without", small()))  # the same ids, and here the same bits


def test_a_damaged_checkpoint_gives_way_to_the_older_one_aloud(tmp_path: Path) -> None:
    undisturbed = journals(train(tmp_path / "one", small()))
    with pytest.raises(Interrupted):
        train(tmp_path / "two", small(), Stopping(9))
    store = Store(tmp_path / "two")
    folder = store.stack_folder(store.stacks()[0])
    newest = checkpoint.generations(folder)[-1]
    data = newest.read_bytes()
    newest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    heard = Heard()
    assert journals(train(tmp_path / "two", small(), Control(listeners=[heard]))) == undisturbed
    assert any("sha256" in line for line in heard.lines)


class Heard(Stopping):
    def __init__(self) -> None:
        super().__init__(0)
        self.lines: list[str] = []

    def said(self, line: str) -> None:
        self.lines.append(line)
