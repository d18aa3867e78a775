"""Cycles after the first: fewer steps, a shape of their own, and a peak that looks at what the pruning took."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import SMALL, finished, small, stack_of
from scyc import describe, oracle, stack
from scyc.cli.train import steps_in
from scyc.config import ConfigError
from scyc.distribution.measuring import due
from scyc.experiment import Experiment, experiment
from scyc.pace import Pace
from scyc.plan import grid, planned
from scyc.report.analysis import analysed
from scyc.report.budget import budget
from scyc.report.claims import fixed
from scyc.report.cost import cost
from scyc.report.document import conditions
from scyc.report.page import made, peaks
from scyc.report.repeat import toml
from scyc.report.rows import collect
from scyc.run import effective, identity, stack_key
from scyc.store.runs import Store
from scyc.training import Interrupted
from test_cycle import Scripted
from test_sweep import Stopping, train

WARMUP = {"name": "warmup", "ramp": 2, "drops": [6, 9]}
FIXED = {"name": "fixed", "lr": 0.1}
RIVALS: dict[str, dict[str, Any]] = {  # T = 12, T_rt = 4; the rates of every later cycle, by hand
    "FT": {"retrain_shape": {"name": "ft", "share": 0.01}},
    "LRW": {},
    "SLR": {"retrain_shape": {"name": "slr", "steps": 4}},
    "CLR": {"retrain_shape": {"name": "one-cycle", "steps": 4, "rise": 0.5, "div": 100.0, "final_div": 100.0}},
    "LLR": {"retrain_shape": {"name": "llr", "steps": 4}},
    "cosine": {"retrain_shape": {"name": "cosine", "steps": 4}},
}
EXPECTED = {
    "FT": [0.001] * 4,
    "LRW": [0.01, 0.001, 0.001, 0.001],  # steps 8, 9, 10, 11 of the dense run
    "SLR": [0.001, 0.1, 0.1, 0.01],  # 0.4 steps warm up; the drops are at 2.2 and 3.1
    "CLR": [0.001, 0.1, 0.05 + 0.5e-5, 1e-5],  # half a cosine from step 1 to step 3
    "LLR": [0, 0.1 * 3 / 3.6, 0.1 * 2 / 3.6, 0.1 / 3.6],
    "cosine": [0.1, 0.05 + 0.05 * math.sqrt(0.5), 0.05, 0.05 - 0.05 * math.sqrt(0.5)],
}
LENGTHS = {"steps": 12, "retrain_steps": 4, "eval_every": 0}


def rivals(**changes: Any) -> Experiment:
    base = {name: value for name, value in SMALL.items() if name not in ("peak", "shape")}
    schedules = {label: {"peak": FIXED, "shape": WARMUP, **own} for label, own in RIVALS.items()}
    schedules["ALLR"] = {**schedules["LLR"], "peak": {"name": "allr", "lr": 0.1}}
    return experiment({"run": {**base, **LENGTHS, **changes}, "schedules": schedules}, "rivals", seeds="1")


def test_the_rates_are_those_computed_by_hand() -> None:
    runs = [small(**LENGTHS, peak=FIXED, shape=WARMUP, **RIVALS[label]) for label in RIVALS]
    made = stack_of(runs)
    made.engine = engine = Scripted(made.engine.weights(), [[1.0] * len(runs)] * 20)
    finished(made)
    dense = [0.05, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001]
    for k, label in enumerate(RIVALS):
        rates = [step[k] for step in engine.rates]
        assert rates == pytest.approx([*dense, *EXPECTED[label], *EXPECTED[label]], rel=1e-9, abs=1e-12), label
    assert [row["steps"] for row in made.history[0]] == [12, 4, 4]
    assert [row["curve_step"] for row in made.history[0]][1:] == [[1, 2, 3, 4]] * 2


def test_without_them_nothing_changes() -> None:
    plain = small()
    assert identity(small(retrain_steps=0), "d") == identity(plain, "d")
    assert [plain.steps_of(m) for m in (0, 1, 9)] == [6, 6, 6]
    assert plain.shape_of(0) == plain.shape_of(5) == (plain.shape, 0)
    assert plain.steps_before(plain.cycles) == 18


def test_lengths_of_cycles() -> None:
    run = small(**LENGTHS, cycles=5)
    assert [run.steps_of(m) for m in range(3)] == [12, 4, 4]
    assert [run.steps_before(m) for m in range(6)] == [0, 12, 16, 20, 24, 28]
    assert [small(steps=1000, retrain_steps=120, eval_every=0).evaluations_of(m) for m in (0, 1)] == [20, 3]
    assert [small(steps=1000, retrain_steps=120, eval_every=7).evaluations_of(m) for m in (0, 1)] == [7, 7]
    assert identity(run, "d") != identity(small(steps=12, eval_every=0, cycles=5), "d")


def test_scale_reaches_them() -> None:
    run = small(steps=1000, retrain_steps=250, retrain_shape={"name": "llr", "steps": 250}, scale=0.1)
    assert (effective(run).steps_of(0), effective(run).steps_of(1)) == (100, 25)
    assert effective(run).retrain_shape == small(retrain_shape={"name": "llr", "steps": 25}).retrain_shape
    assert effective(small(steps=1000, scale=0.1)).retrain_steps == 0


def test_later_cycles_are_never_longer() -> None:
    with pytest.raises(ConfigError, match="retrain_steps = 7 is more than the 6 steps of the first cycle; use as many"):
        small(retrain_steps=7)
    assert small(retrain_steps=6).steps_of(1) == 6


def test_they_stack_by_their_lengths_not_by_their_shapes() -> None:
    own = small(**LENGTHS, retrain_shape={"name": "llr", "steps": 4})
    assert stack_key(own) == stack_key(small(**LENGTHS))
    assert stack_key(own) != stack_key(small(steps=12, eval_every=0))


def norms(weights: dict[str, Tensor], masks: dict[str, Tensor], k: int) -> tuple[float, float]:
    """Share and norm that a pruning by magnitude to these masks took, from all weights of a run as one vector."""
    old = torch.cat([weights[name][k].flatten() for name in masks])
    kept = torch.cat([masks[name][k].flatten() for name in masks])
    left = int((old != 0).sum())
    return 1 - int(kept.sum()) / left, float(old[~kept].norm() / old.norm())


def test_allr_is_computed_from_the_weights_before_and_after_each_pruning() -> None:
    runs = [small(**LENGTHS, peak={"name": "allr", "lr": rate}, pruning={"amount": 0.5}) for rate in (0.1, 0.3)]
    found = stack_of(runs)
    trained: list[dict[str, Tensor]] = []
    masks: list[dict[str, Tensor]] = []

    def pulse(now: stack.Stack) -> None:
        if now.step == now.steps:
            trained.append(now.engine.weights())
            masks.append(now.masks)

    records = finished(found, pulse)
    for k, rate in enumerate((0.1, 0.3)):
        assert [records[k][0][name] for name in ("pruned_share", "pruned_norm", "peak")] == [None, None, rate]
        for m in (1, 2):
            share, norm = norms(trained[m - 1], masks[m], k)
            row = records[k][m]
            assert row["pruned_share"] == pytest.approx(share, abs=1e-12) == pytest.approx(0.5, abs=0.01)
            assert row["pruned_norm"] == pytest.approx(norm, rel=1e-11)
            assert row["peak"] == pytest.approx(rate * max(norm / math.sqrt(share), 4 / 12), rel=1e-11)
            assert 1 / 3 * rate < row["peak"] < rate  # it is the norm that decides
    assert records[0][1]["peak"] * 3 != pytest.approx(records[1][1]["peak"], rel=1e-6)


def test_where_a_run_diverges_the_others_go_on() -> None:
    """Its peak is asked for until the end, though there is nothing more to know of it."""
    runs = [small(peak={"name": "allr", "lr": rate}, retrain_steps=3, precision="float32") for rate in (0.1, 1e30)]
    records = finished(stack_of(runs))
    assert [len(rows) for rows in records] == [3, 1]
    assert "diverged" in records[1][0]


@pytest.mark.parametrize("after", [5, 12, 14, 16, 18])
def test_interrupted_it_goes_on_to_the_same_records(tmp_path: Path, after: int) -> None:
    """Of 12 + 4 + 4 steps: in the dense cycle, at its end, in the second, at its end, in the third."""
    whole = train(tmp_path / "whole", rivals())
    with pytest.raises(Interrupted):
        train(tmp_path / "parts", rivals(), Stopping(after))
    parts = train(tmp_path / "parts", rivals())
    assert whole.ids() == parts.ids()
    assert [whole.records(id) for id in whole.ids()] == [parts.records(id) for id in parts.ids()]
    assert {len(parts.records(id)) for id in parts.ids()} == {3}


def test_a_checkpoint_from_before_these_counts_is_taken() -> None:
    first = stack_of([small()])
    head, saved = stack.head(first), stack.tensors(first)
    old = {name: tensor for name, tensor in saved.items() if not name.startswith("now/pruned")}
    assert len(old) == len(saved) - 2
    again = stack_of([small()])
    stack.restore_(again, head, old)
    assert finished(again)[0][0]["pruned_share"] is None


def test_scyc_lr_shows_them() -> None:
    rows = describe.peaks(rivals())
    assert rows[0][2:] == [*RIVALS, "ALLR"]
    assert rows[1][2:] == ["0.1"] * 7
    assert rows[2][2:] == [*["0.1"] * 6, "history"]
    steps = list(describe.every_step(rivals(), 1))
    assert len(steps) == 1 + 4
    assert [row[1 + list(RIVALS).index("LRW")] for row in steps[1:]] == ["0.01", "0.001", "0.001", "0.001"]
    assert [row[-1] for row in steps[1:3]] == ["0 x peak", "0.833333 x peak"]
    assert len(list(describe.every_step(rivals(), 0))) == 1 + 12


def test_an_oracle_refuses_to_place_a_peak_that_it_cannot_know() -> None:
    with pytest.raises(ConfigError, match="schedule 'ALLR': its peak 'allr' waits for what its own run measures"):
        oracle.compared(rivals(), ["ALLR"])
    assert list(oracle.compared(rivals(), ["LLR"])) == ["LLR"]


def test_a_plan_counts_the_steps_of_every_cycle() -> None:
    (plan,) = planned(rivals(), {}, device=torch.device("cpu"))
    assert (plan.steps, plan.run_steps) == (12 + 4 + 4, 7 * 20)
    assert grid([plan])[1][3] == "12 + 2 x 4"
    assert grid([plan])[2][3] == "140 in all"
    assert steps_in({"a": small(**LENGTHS), "b": small(steps=100, retrain_steps=50, scale=0.1)}) == 20 + 20


def test_progress_counts_them() -> None:
    seconds = [0.0]
    made = stack_of([small(**LENGTHS)])
    pace = Pace(20, lambda: seconds[0])
    pace.began_at(made)
    seen = []

    def pulse(now: stack.Stack) -> None:
        seconds[0] += 1
        pace.stepped(now)
        standing = pace.standing(now)
        seen.append((standing.cycle, standing.step, standing.steps, round(standing.done * 20), pace.left))

    finished(made, pulse)
    assert seen[11] == (0, 12, 12, 12, pytest.approx(8))
    assert seen[13] == (1, 2, 4, 14, pytest.approx(6))
    assert seen[17] == (2, 2, 4, 18, pytest.approx(2))
    assert seen[19] == (2, 4, 4, 20, pytest.approx(0))


def test_distributions_are_due_where_the_cycle_has_its_peak_and_its_end() -> None:
    run = small(**LENGTHS, shape=WARMUP, retrain_shape={"name": "one-cycle", "steps": 4, "rise": 0.75})
    assert due(run, 0, 2) == [(0, "peak")]
    assert due(run, 1, 1) == [(0, "peak"), (0, "end")]
    assert due(run, 1, 2) == [(0, "peak"), (0, "end")]  # its highest rate is at step 2
    assert due(run, 1, 3) == [(0, "peak"), (0, "end"), (1, "peak")]
    assert due(run, 1, 4) == [(0, "peak"), (0, "end"), (1, "peak"), (1, "end")]


def test_reports_know_them(tmp_path: Path) -> None:
    store = train(tmp_path, rivals())
    results = collect(store, "rivals", whole=True)
    assert (results.steps, results.retrained) == (12, 4)
    assert "; 12 steps a cycle (scale 1), 4 after the first, 3 of 3 cycles," in conditions(analysed(results))
    words = cost(store, results, store.ids()).words
    assert words.startswith("21 trainings of at most 12 steps, 140 steps in all, ")
    assert (fixed(results, warm=True), fixed(results, warm=False)) == (["LRW"], [])  # the others have two shapes
    text = toml(results)
    assert "retrain_steps = 4" in text.partition("[schedules")[0]
    assert 'retrain_shape = { name = "ft", share = 0.01 }' in text
    assert "retrain_shape" not in text.partition("[schedules.LRW]")[2].partition("[schedules.")[0]
    section = made.schedules(results).grid
    assert section[0] == ["schedule", "peak", "shape", "retrain shape"]
    assert [row[3] for row in section[1:3]] == ['{ name = "ft", share = 0.01 }', "-"]


def test_the_page_draws_the_line_of_each_cycle(tmp_path: Path) -> None:
    results = collect(train(tmp_path, rivals()), "rivals", whole=True)
    found = list(peaks.rates(results))
    drawn = [(row["step"], row["rate"]) for row in found if (row["schedule"], row["cycle"]) == ("LRW", 1)]
    assert drawn == [(0, 0.01), (1, 0.001), (3, 0.001)]
    dense = [row["step"] for row in found if (row["schedule"], row["cycle"]) == ("LRW", 0)]
    assert dense == [0, 1, 5, 6, 8, 9, 11]


def test_a_search_pays_for_the_steps_of_its_cycles(tmp_path: Path) -> None:
    store = Store(tmp_path)
    config = {"peak": {"name": "oracle", "peaks": [0.1, 0.2]}, "seed": [0, 1], "steps": 1000, "retrain_steps": 250}
    store.create("0123456789ab", {**config, "scale": 0.1})
    for m in range(3):
        store.append("0123456789ab", {"cycle": m, "peaks": [0.1, 0.2]})
    words = "12 trainings of at most 100 steps, 600 steps in all, 0 seconds"  # 4 x (100 + 25 + 25)
    assert budget(store, ["0123456789ab"]).words == words
