"""Memory from shapes alone: by hand for one linear layer, and how a job is divided where memory is short."""

import os
from pathlib import Path

import pytest
import torch

from scyc import load, sweep, training
from scyc.data import read
from scyc.experiment import experiment
from scyc.footprint import footprint, free, room
from scyc.run import Run
from scyc.store.runs import Store

CPU = torch.device("cpu")


def linear(**fields: object) -> Run:
    run = {"data": "digits", "model": {"name": "mlp", "widths": []}, "steps": 4, "cycles": 1, "batch": 20, **fields}
    schedules = {"one": {"peak": {"name": "fixed", "lr": 0.1}, "shape": "constant"}}
    return experiment({"seeds": 1, "run": run, "schedules": schedules}, "x").all[0]


def test_one_linear_layer_by_hand() -> None:
    found = footprint(linear(), (1, 8, 8), 10)
    assert found.parameters == 64 * 10 + 10
    assert found.state == 650 * 4
    assert found.memory == 650 * 4 * 7 + 20 * 64 * 4  # seven copies, and the batch that the layer's gradient needs


def test_adam_keeps_one_more_and_float64_takes_twice() -> None:
    plain = footprint(linear(), (1, 8, 8), 10)
    assert footprint(linear(optimizer="adam"), (1, 8, 8), 10).memory - plain.memory == 650 * 4
    assert footprint(linear(precision="float64"), (1, 8, 8), 10).state == 2 * plain.state


def test_what_is_free_is_less_than_what_the_machine_has() -> None:
    pages, size = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    assert 0 < free(CPU) < pages * size


def test_room_is_at_least_one_and_falls_with_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = read("digits", {}, ())
    monkeypatch.setattr("scyc.footprint.free", lambda device: 100 * 23320)
    assert room(linear(), dataset, CPU) == 70  # seven tenths of a hundred
    monkeypatch.setattr("scyc.footprint.free", lambda device: 1)
    assert room(linear(), dataset, CPU) == 1


def test_runs_that_do_not_fit_train_in_even_stacks_and_all_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "room", lambda run, dataset, device: 2)
    plan = load("digits", seeds="1", overrides=["steps=4", "cycles=1", "eval_every=2"])
    store, found = Store(tmp_path), sweep.datasets(plan, ())
    ids = sweep.identities(plan, found)
    sweep.register(store, plan, ids, found)
    training.Training(store, found, training.Options(), training.Control()).train(sweep.unfinished(store, plan, ids))
    widths = [event["runs"] for id in store.ids() for event in store.events(id) if event["kind"] == "started"]
    assert widths == [2] * 6
