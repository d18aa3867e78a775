"""Measuring while runs train: when, that the runs do not notice, and that kills, resumes and repeats change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from scyc import sweep
from scyc.distribution import Measuring, Settings, rows
from scyc.experiment import Experiment, experiment
from scyc.stack import Record, Stack
from scyc.store.files import Integrity
from scyc.store.runs import Store
from scyc.training import Control, Interrupted, Options, Training

FEW = Settings(batches=2)
WARMUP = {"peak": {"name": "fixed", "lr": 0.2}, "shape": {"name": "warmup", "ramp": 3, "drops": [5]}}
SMALL: dict[str, Any] = {
    "seeds": 2,
    "run": {
        "data": {"name": "digits", "limit": 300},
        "model": {"name": "mlp", "widths": [6], "bn": True, "dropout": 0.2},
        "steps": 6,
        "batch": 20,
        "cycles": 3,
        "eval_every": 2,
    },
    "schedules": {
        "constant": {"peak": {"name": "fixed", "lr": 0.05}, "shape": "constant"},
        "cyclical": {"peak": {"name": "fixed", "lr": 0.05}, "shape": {"name": "cyclical", "half": 4}},
        "warmup": WARMUP,
    },
}


class Killed(BaseException):
    """Stands for a kill: nothing is saved on the way out."""


class Watch:
    """A listener that stops or kills the training after so many steps."""

    def __init__(self, steps: int = -1, *, kill: bool = False) -> None:
        self.control, self.left, self.kill, self.lines = Control(listeners=[self]), steps, kill, list[str]()
        self.begun: list[tuple[int, int]] = []

    def began(self, stack: Stack) -> None:
        self.begun.append((stack.cycle, stack.step))

    def ended(self, stack: Stack, records: object) -> None: ...

    def said(self, line: str) -> None:
        self.lines.append(line)

    def stepped(self, stack: object) -> None:
        self.left -= 1
        if self.left == 0:
            if self.kill:
                raise Killed
            self.control.signal = 2


def plan(**run: Any) -> Experiment:
    return experiment({**SMALL, "run": {**SMALL["run"], **run}}, "small")


def train(
    root: Path, what: Experiment, settings: Settings | None = FEW, watch: Watch | None = None, **options: Any
) -> Store:
    store, found = Store(root), sweep.datasets(what, ())
    ids = sweep.identities(what, found)
    sweep.register(store, what, ids, found)
    measure = Measuring(store, settings) if settings else None
    control = (watch or Watch()).control
    Training(store, found, Options(**options), control, measure).train(sweep.by_id(what, ids))
    return store


def journals(store: Store, name: str) -> dict[str, bytes]:
    return {id: (store.root / id / f"{name}.jsonl").read_bytes() for id in store.ids()}


def times(found: list[Record]) -> list[tuple[int, str, int]]:
    return [(row["cycle"], row["moment"], row["step"]) for row in found]


def of(store: Store, what: Experiment, label: str) -> str:
    return dict(store.manifest(what.name)["schedules"])[label][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("label", "peak"),
    [("constant", 1), ("cyclical", 5), ("warmup", 3)],  # steps done once the first step at the highest rate is
)
def test_every_cycle_is_measured_at_its_peak_and_at_its_end(tmp_path: Path, label: str, peak: int) -> None:
    what = plan()
    store = train(tmp_path, what)
    found = rows(store, of(store, what, label), FEW)
    assert times(found) == [(m, moment, step) for m in range(3) for moment, step in (("peak", peak), ("end", 6))]
    densities = [record["density"] for record in store.records(of(store, what, label))]
    assert [row["density"] for row in found if row["moment"] == "end"] == densities
    assert densities[0] == 1


def test_a_peak_at_the_last_step_is_measured_before_the_end(tmp_path: Path) -> None:
    what = plan(steps=3, eval_every=1)
    store = train(tmp_path, what)
    assert times(rows(store, of(store, what, "warmup"), FEW))[:2] == [(0, "peak", 3), (0, "end", 3)]


def test_scaled_runs_are_measured_at_scaled_steps(tmp_path: Path) -> None:
    what = plan(scale=2.0)
    store = train(tmp_path, what)
    assert times(rows(store, of(store, what, "warmup"), FEW))[:2] == [(0, "peak", 6), (0, "end", 12)]


def test_edges_and_thresholds_are_those_of_cycle_0_at_the_same_moment(tmp_path: Path) -> None:
    what = plan()
    store = train(tmp_path, what)
    found = rows(store, of(store, what, "warmup"), FEW)
    for kind in ("gradients", "hidden"):
        for key in ("edges", "thresholds"):
            fixed = {row["moment"]: row[kind][key] for row in reversed(found)}
            assert all(row[kind][key] == fixed[row["moment"]] for row in found)
    assert found[0]["gradients"]["edges"] != found[1]["gradients"]["edges"]


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_the_runs_do_not_notice(tmp_path: Path, engine: str) -> None:
    """Records hold a hash of the weights, so equal records are equal runs."""
    what = plan(data={"name": "digits", "limit": 300, "augment": True})
    with_, without = (
        train(tmp_path / name, what, settings, engine=engine) for name, settings in (("with", FEW), ("without", None))
    )
    assert journals(with_, "records") == journals(without, "records")
    assert [path.name for path in without.root.glob("*/distribution.jsonl")] == []
    weights = [sorted((s.root / id / "cycle-002.safetensors").read_bytes() for id in s.ids()) for s in (with_, without)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 4, 6, 9, 12, 17, 18])
def test_stopped_anywhere_and_resumed_it_measures_the_same(
    tmp_path: Path, whole: Store, steps: int, kill: bool
) -> None:
    """A stop saves the step in hand; a kill loses what came after the last checkpoint."""
    with pytest.raises(Killed if kill else Interrupted):
        train(tmp_path, plan(), watch=Watch(steps, kill=kill), checkpoint_every=0.0 if steps % 2 else 300.0)
    store = train(tmp_path, plan())
    for name in ("records", "distribution"):
        assert journals(store, name) == journals(whole, name)
    assert store.stacks() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return train(tmp_path_factory.mktemp("whole"), plan())


def test_runs_recorded_without_are_trained_again_from_the_start(tmp_path: Path, whole: Store) -> None:
    train(tmp_path, plan(), None)
    before = journals(Store(tmp_path), "records")
    store = train(tmp_path, plan())
    assert journals(store, "records") == before
    assert journals(store, "distribution") == journals(whole, "distribution")


def test_a_checkpoint_that_is_past_what_was_to_be_measured_is_not_gone_on_from(tmp_path: Path, whole: Store) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, plan(), None, watch=Watch(9))
    watch = Watch()
    store = train(tmp_path, plan(), watch=watch)
    assert watch.begun == [(0, 0)]
    assert journals(store, "distribution") == journals(whole, "distribution")


def test_a_checkpoint_from_before_the_first_measurement_is_gone_on_from(tmp_path: Path, whole: Store) -> None:
    one = experiment({**SMALL, "schedules": {"warmup": WARMUP}}, "small")
    with pytest.raises(Interrupted):
        train(tmp_path, one, None, watch=Watch(2))
    watch = Watch()
    train(tmp_path, one, watch=watch)
    assert watch.begun == [(0, 2)]


def test_what_is_measured_is_not_measured_again(tmp_path: Path) -> None:
    train(tmp_path, plan())
    watch = Watch()
    train(tmp_path, plan(), watch=watch)
    assert watch.begun == []
    train(tmp_path, plan(), Settings(batches=3), watch=watch)  # other settings are other measurements
    assert watch.begun == [(0, 0)]
    store = Store(tmp_path)
    assert [len(rows(store, id, FEW)) for id in store.ids()] == [6] * 6
    assert [len(rows(store, id, Settings(batches=3))) for id in store.ids()] == [6] * 6


def test_a_measurement_that_comes_out_otherwise_is_refused(tmp_path: Path) -> None:
    what = plan()
    store = train(tmp_path, what)
    id = of(store, what, "warmup")
    row = rows(store, id, FEW)[2]
    store.append_beside(
        id, "distribution", row, ("batches", "weights", "cycle", "moment")
    )  # an equal one is nothing new
    with pytest.raises(Integrity, match=r"cycle 1, moment peak holds other values of step; remove the file to redo it"):
        store.append_beside(id, "distribution", {**row, "step": 4}, ("batches", "weights", "cycle", "moment"))


@pytest.mark.parametrize("cycle", [0, 1])
def test_a_run_that_diverges_is_measured_until_then_and_disturbs_nobody(tmp_path: Path, cycle: int) -> None:
    wild = {"name": "scyc", "eps": 1e30 if cycle == 0 else 0.05, "delta": 1e30, "q": 0, "beta": 4}
    shape = {"name": "warmup", "ramp": 3, "drops": [5]}
    schedules = {"wild": {"peak": wild, "shape": shape}, "warmup": WARMUP}
    what = experiment({**SMALL, "schedules": schedules}, "small")
    store = train(tmp_path, what)
    lost, kept = (rows(store, of(store, what, label), FEW) for label in ("wild", "warmup"))
    assert [(row["cycle"], row["moment"]) for row in lost] == [
        *[(0, "peak"), (0, "end")][: 2 * cycle],
        (cycle, "diverged"),
    ]
    assert len(kept) == 6
    watch = Watch()
    train(tmp_path, what, watch=watch)
    assert watch.begun == []


def test_a_stack_in_which_every_run_diverges_is_done(tmp_path: Path) -> None:
    wild = {"peak": {"name": "fixed", "lr": 1e30}, "shape": {"name": "warmup", "ramp": 6}}
    what = experiment({**SMALL, "schedules": {"wild": wild}}, "small")
    store = train(tmp_path, what)
    assert [[row["moment"] for row in rows(store, id, FEW)] for id in store.ids()] == [["diverged"]] * 2
    watch = Watch()
    train(tmp_path, what, watch=watch)
    assert watch.begun == []


def test_rows_are_plain_json(whole: Store) -> None:
    row = rows(whole, whole.ids()[0], FEW)[-1]
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert {"cycle", "moment", "step", "density", "batches", "weights"} < row.keys()


def test_a_network_without_activations_is_refused_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scyc.distribution.capture.ACTIVATIONS", {})
    with pytest.raises(ValueError, match="no activation module found"):
        train(tmp_path, plan())
    assert all(Store(tmp_path).records(id) == [] for id in Store(tmp_path).ids())


def test_what_cannot_be_measured_is_refused_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activation whose output is no tensor."""
    monkeypatch.setattr("scyc.model.activation.ACTIVATIONS", {"relu": Wrapped})
    monkeypatch.setattr("scyc.distribution.capture.ACTIVATIONS", {"relu": Wrapped})
    with pytest.raises(ValueError, match=r"module 'act1' puts out tuple; name others in net\.hidden"):
        train(tmp_path, plan(model={"name": "mlp", "widths": [6]}))
    assert all(Store(tmp_path).records(id) == [] for id in Store(tmp_path).ids())


class Wrapped(nn.Module):
    """Puts out a tuple, and is called by what unpacks it."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (x.clamp_min(0),)
