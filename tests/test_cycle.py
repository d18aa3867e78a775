"""The loop around an engine: early stop, the test set, learning rates, rewinds, and resuming at every step."""

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from examples import colour, finished, nothing, small, stack_of
from scyc import lr, mask, stack
from scyc.cycle import advance_, cycles
from scyc.draw import generator
from scyc.run import Run
from scyc.stack import Stack, network
from scyc.train import tally

ENGINES = ("stacked", "single")
Tensors = Mapping[str, Tensor]


# A scripted engine: it trains nothing, and its losses are those of a script


@dataclass
class Scripted:
    """Its weights say after how many steps they were taken, and its test loss is what they say."""

    weighted: dict[str, Tensor]
    script: list[list[float]]  # validation losses: per evaluation, per run
    name: str = "scripted"
    pace: int = 1
    steps: int = 0
    log: list[str] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        runs = len(self.script[0])
        self.finite, self.losses = torch.ones(runs, dtype=torch.bool), torch.zeros(runs)
        self.weighted["taken"] = torch.zeros(runs)

    def begin_(self, weights: Tensors, masks: Tensors) -> None:
        self.log.append("begin")

    def steps_(self, cycle: int, first: int, lrs: Tensor, counts: tally.Counts) -> None:
        for step, rates in enumerate(lrs.T, first):
            self.step_(cycle, step, rates)
            tally.add_(counts, self.finite, self.losses, step + 1)

    def step_(self, cycle: int, step: int, lrs: Tensor) -> None:
        self.steps += 1
        self.rates.append(lrs.tolist())
        self.losses = torch.full_like(self.losses, float(self.steps))
        self.log.append("step")

    def evaluate(self, part: str, weights: Tensors | None = None) -> tuple[Tensor, Tensor]:
        self.log.append(part)
        if part == "validation":
            loss = torch.tensor(self.script[self.log.count(part) - 1], dtype=torch.float64)
            return loss, loss / 100
        taken = (weights or self.weights())["taken"].double()
        return taken, taken / 100

    def gradients(self, cycle: int, batches: int | str) -> dict[str, Tensor]:
        raise AssertionError("magnitude needs no gradients")

    def weights(self) -> dict[str, Tensor]:
        runs = len(self.losses)
        return {name: t.clone() for name, t in self.weighted.items()} | {"taken": torch.full((runs,), self.steps)}

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore_(self, state: Tensors) -> None: ...


def scripted(script: list[list[float]], **changes: Any) -> tuple[Stack, Scripted]:
    """A stack whose engine reads its validation losses from a script."""
    made = stack_of([small(seed=seed, **changes) for seed in range(len(script[0]))])
    engine = Scripted(made.engine.weights(), script)
    made.engine = engine
    return made, engine


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ([5.0, 4.0, 3.0, 2.0, 1.0], 5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 1),
        ([5.0, 2.0, 3.0, 2.0, 4.0], 2),  # the first of two equal minima
        ([5.0, 2.0, 3.0, 1.9, 4.0], 4),
        ([3.0, 3.0, 3.0, 3.0, 3.0], 1),
        ([5.0, 4.0, 3.0, 3.0, 3.0], 3),
    ],
)
def test_the_early_stop_is_the_first_minimum_of_the_validation_loss(losses: list[float], step: int) -> None:
    made, _ = scripted([[loss] for loss in losses], steps=5, eval_every=1, cycles=1)
    record = finished(made)[0][0]
    assert record["step"] == step
    assert record["validation_loss"] == min(losses)
    assert record["validation_accuracy"] == min(losses) / 100
    assert (record["test_loss"], record["test_accuracy"]) == (step, step / 100)
    assert (record["last_test_loss"], record["last_test_accuracy"]) == (5.0, 0.05)
    assert record["last_validation_loss"] == losses[-1]
    assert record["curve_validation_loss"] == losses
    assert record["curve_step"] == [1, 2, 3, 4, 5]


def test_every_run_stops_at_its_own_minimum() -> None:
    made, _ = scripted([[3.0, 1.0, 2.0], [2.0, 2.0, 1.0], [1.0, 3.0, 3.0]], steps=3, eval_every=1, cycles=1)
    records = [rows[0] for rows in finished(made)]
    assert [record["step"] for record in records] == [3, 1, 2]
    assert [record["test_loss"] for record in records] == [3.0, 1.0, 2.0]


def test_the_early_stop_counts_within_a_cycle() -> None:
    made, _ = scripted([[0.1], [0.2], [9.0], [8.0], [7.0], [7.5]], steps=4, eval_every=2, cycles=3)
    assert [(row["step"], row["validation_loss"]) for row in finished(made)[0]] == [(2, 0.1), (4, 8.0), (2, 7.0)]


def test_evaluations_come_every_so_many_steps_and_at_the_last_one() -> None:
    made, engine = scripted([[3.0], [2.0], [1.0]], steps=8, eval_every=3, cycles=1)
    record = finished(made)[0][0]
    assert record["curve_step"] == [3, 6, 8]
    assert record["curve_train_loss"] == [2.0, 5.0, 7.5]  # means of 1 2 3, of 4 5 6, of 7 8
    assert engine.log.count("validation") == 3


def test_the_test_set_is_touched_twice_at_the_end_of_a_cycle_and_at_no_other_time() -> None:
    made, engine = scripted([[3.0, 1.0]] * 6, steps=4, eval_every=2, cycles=3)
    finished(made)
    training = ["step", "step", "validation"] * 2
    assert engine.log == [*training, "test", "test", *["begin", *training, "test", "test"] * 2]


def test_the_pulse_beats_after_every_step() -> None:
    made, _ = scripted([[1.0]] * 6, steps=4, eval_every=2, cycles=3)
    beats: list[tuple[int, int]] = []
    finished(made, lambda stack: beats.append((stack.cycle, stack.step)))
    assert beats == [(cycle, step) for cycle in range(3) for step in (1, 2, 3, 4)]


def test_learning_rates_are_the_schedules_table() -> None:
    schedules = [
        {
            "peak": {"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0},
            "shape": {"name": "warmup", "ramp": 3},
        },
        {"peak": {"name": "fixed", "lr": 0.5}, "shape": {"name": "cyclical", "half": 2, "low": 0.1}},
        {"peak": {"name": "fixed", "lr": 0.1}, "shape": {"name": "decay", "steps": 10}},
    ]
    common = {"steps": 4, "cycles": 5, "eval_every": 4, "pruning": {"amount": 0.3}}
    runs = [small(**schedule, **common) for schedule in schedules]
    made = stack_of(runs)
    made.engine = engine = Scripted(made.engine.weights(), [[1.0] * 3] * 5)
    records = finished(made)
    for k, run in enumerate(runs):
        expected = lr.table(run.schedule, cycles=5, steps=4, amount=0.3)
        assert [rates[k] for rates in engine.rates] == expected.flatten().tolist()
        assert [row["highest_lr"] for row in records[k]] == expected.amax(1).tolist()
        assert [row["peak"] for row in records[k]] == [run.schedule.peak(m, 0.3) for m in range(5)]
    assert [round(row["peak"], 7) for row in records[0][:2]] == [0.03, 0.03]


def test_a_loss_that_is_not_finite_is_never_the_minimum_and_never_in_a_record() -> None:
    made, _ = scripted([[4.0, 3.0], [NAN, 2.0], [1.0, 1.0]], steps=3, eval_every=1, cycles=1)
    records = [rows[0] for rows in finished(made)]
    assert records[0]["diverged"] == 2
    assert "step" not in records[0]
    assert records[1]["step"] == 3
    json.dumps(records, allow_nan=False)


def test_a_run_whose_score_is_not_finite_is_frozen_and_others_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stack_of([small(seed=seed, pruning={"score": "gradient"}) for seed in (0, 1)])
    measured = made.engine.gradients

    def spoiled(cycle: int, batches: int | str) -> dict[str, Tensor]:
        grads = {name: t.clone() for name, t in measured(cycle, batches).items()}
        grads["fc.weight"][1, 0, 0] = NAN
        return grads

    monkeypatch.setattr(made.engine, "gradients", spoiled)
    before = {}
    records = finished(made, lambda s: before.update({(s.cycle, s.step): s.engine.weights()}))
    assert [len(rows) for rows in records] == [3, 2]
    assert records[1][0]["density"] == records[1][1]["density"] == 1.0  # what it was when its score was found wanting
    assert "diverged" in records[1][1]
    assert records[0][2]["density"] == pytest.approx(0.64, abs=1e-3)
    assert all(torch.equal(t[1], before[0, 6][name][1]) for name, t in made.engine.weights().items())


@pytest.mark.parametrize("engine", ENGINES)
def test_random_scores_are_drawn_by_seed_and_cycle(engine: str) -> None:
    """And by nothing else: schedules of one seed lose the same weights."""
    common = {"pruning": {"score": "random", "amount": 0.5}, "steps": 1}
    rates = ((2, 0.1), (2, 0.2), (3, 0.1))
    runs = [small(seed=seed, peak={"name": "fixed", "lr": rate}, **common) for seed, rate in rates]
    made = stack_of(runs, engine=engine)
    finished(made)
    for k, (seed, _) in enumerate(rates):
        kept = torch.arange(8 * 64 + 10 * 8)
        for cycle in (1, 2):
            draws = generator("score", seed, cycle)
            scores = torch.cat([torch.rand(shape, generator=draws).flatten() for shape in ((8, 64), (10, 8))])
            kept = kept[scores[kept].argsort()][len(kept) // 2 :]
        left = torch.cat([made.masks[name][k].flatten() for name in ("fc1.weight", "fc.weight")])
        assert left.nonzero()[:, 0].tolist() == sorted(kept.tolist())


# What a record says of pruning


def test_densities_and_counts_follow_the_pruning() -> None:
    made = stack_of([small(cycles=4, pruning={"scope": "layer", "amount": 0.5})])
    rows = finished(made)[0]
    # digits: 64 inputs, 8 hidden units, 10 classes: layers of 512 and 80 weights
    assert [row["layers"] for row in rows] == [
        {"fc1.weight": share, "fc.weight": share} for share in (1.0, 0.5, 0.25, 0.125)
    ]
    assert [row["density"] for row in rows] == [1.0, 0.5, 0.25, 0.125]
    assert [row["density_all"] for row in rows] == [1.0, 0.5, 0.25, 0.125]
    assert [row["guarded"] for row in rows] == [False] * 4
    assert [row["cycle"] for row in rows] == [0, 1, 2, 3]


def test_two_densities_where_a_layer_is_exempt() -> None:
    model = {"name": "resnet20", "width": 0.125}
    made = stack_of([small(model=model, cycles=2, steps=1, pruning={"amount": 0.5})] * 2, colour())
    row = finished(made)[0][-1]
    every = {name: made.net.get_parameter(name).numel() for name in mask.weights(made.net)}
    exempt = every["fc.weight"]
    left = sum(every.values()) - exempt - round(0.5 * (sum(every.values()) - exempt))
    assert row["density"] == left / (sum(every.values()) - exempt)
    assert row["density_all"] == (left + exempt) / sum(every.values())
    assert "fc.weight" not in row["layers"]


def test_the_guard_is_recorded_in_the_cycle_it_acted_for() -> None:
    made = stack_of([small(cycles=3, pruning={"scope": "layer", "amount": 0.98})])
    assert [row["guarded"] for row in finished(made)[0]] == [False, False, True]  # 80 to 2, then 2 to 1 instead of 0


def test_a_record_is_json_and_the_same_every_time() -> None:
    first, again = (finished(stack_of([small(), small(seed=1)])) for _ in range(2))
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert again == first


def test_the_hash_of_the_weights_tells_runs_apart() -> None:
    rows = finished(stack_of([small(), small(seed=1)]))
    states = [row["state"] for run in rows for row in run]
    assert len(set(states)) == 6
    assert all(len(state) == 64 for state in states)


# Rewinds


def masked(weights: Tensors, masks: Tensors) -> dict[str, Tensor]:
    return {name: t.masked_fill(~masks[name], 0.0) if name in masks else t for name, t in weights.items()}


def assert_same(one: Tensors, other: Tensors) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def fresh(run: Run, made: Stack, purpose: str, cycle: int) -> dict[str, Tensor]:
    state = network(run, made.feed.shape, made.feed.classes, purpose, cycle).state_dict()
    return {name: t.double() if t.is_floating_point() else t for name, t in state.items()}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "rewind", ["none", "init", {"name": "step", "k": 4}, {"name": "step", "k": 6}, "reinit"], ids=str
)
def test_a_cycle_starts_where_the_rewind_says(engine: str, rewind: Any) -> None:
    model = {"name": "mlp", "widths": [8], "bn": True}
    runs = [small(model=model, pruning={"rewind": rewind, "amount": 0.4}, seed=seed) for seed in (0, 1)]
    made = stack_of(runs, engine=engine)
    taken = {(0, 0): made.engine.weights()}
    training = cycles(made, lambda s: taken.__setitem__((s.cycle, s.step), s.engine.weights()))
    next(training)
    for cycle in (1, 2):
        advance_(made)
        if rewind == "reinit":
            rows = [fresh(run, made, "reinit", cycle) for run in runs]
            source = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        else:
            source = taken[
                {"none": (cycle - 1, 6), "init": (0, 0)}.get(
                    str(rewind), (0, rewind["k"] if isinstance(rewind, dict) else 0)
                )
            ]
        assert_same(made.engine.weights(), masked(source, made.masks))
        assert mask.density(made.masks) == pytest.approx(0.6**cycle, abs=2e-3)
        training = cycles(made, lambda s: taken.__setitem__((s.cycle, s.step), s.engine.weights()))
        next(training)
    assert made.history[0][-1]["cycle"] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stack_starts_from_weights_drawn_by_seed(engine: str) -> None:
    runs = [small(seed=seed, peak={"name": "fixed", "lr": rate}) for seed, rate in ((3, 0.1), (3, 0.2), (4, 0.1))]
    made = stack_of(runs, engine=engine)
    weights = made.engine.weights()
    for k, run in enumerate(runs):
        assert_same({name: t[k] for name, t in weights.items()}, fresh(run, made, "init", 0))
    assert torch.equal(weights["fc1.weight"][0], weights["fc1.weight"][1])
    assert not torch.equal(weights["fc1.weight"][0], weights["fc1.weight"][2])


@pytest.mark.parametrize("engine", ENGINES)
def test_optimizer_state_starts_anew_each_cycle(engine: str) -> None:
    made = stack_of([small(optimizer="adam")], engine=engine)
    next(cycles(made, nothing))
    assert any(name.startswith("slot.") for name in made.engine.state())
    advance_(made)
    assert not any(name.startswith("slot.") for name in made.engine.state())


# Resuming

SAVED: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam, gradient, rewind to a step": {
        "optimizer": {"name": "adam", "weight_decay": 1e-4},
        "peak": {"name": "fixed", "lr": 0.01},
        "pruning": {"score": "gradient", "score_batches": 2, "rewind": {"name": "step", "k": 2}},
    },
    "rmsprop, random, imp, float32": {
        "optimizer": {"name": "rmsprop", "momentum": 0.5},
        "peak": {"name": "fixed", "lr": 0.001},
        "pruning": {"score": "random", "rewind": "init"},
        "precision": "float32",
    },
}
EVERYTHING = {
    "model": {"name": "mlp", "widths": [10, 8], "bn": True, "dropout": 0.3},
    "data": {"name": "digits", "augment": True},
    "steps": 4,
    "cycles": 3,
}


def checkpoint(made: Stack) -> tuple[str, dict[str, Tensor]]:
    """A copy of all that a checkpoint holds: its head is JSON."""
    return json.dumps(stack.head(made)), {name: t.clone() for name, t in stack.tensors(made).items()}


def resumed(saved: tuple[str, dict[str, Tensor]], made: Stack) -> Stack:
    """Trained to the end from a checkpoint, in a stack that was only started."""
    stack.restore_(made, json.loads(saved[0]), saved[1])
    for _ in cycles(made, nothing):
        pass
    return made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", SAVED)
def test_resuming_at_every_step_gives_the_same_bits(case: str, engine: str) -> None:
    runs = [small(seed=seed, **{**EVERYTHING, **SAVED[case]}) for seed in (0, 1)]
    straight = stack_of(runs, colour(), engine)
    saved: list[tuple[str, dict[str, Tensor]]] = [checkpoint(straight)]  # before the first step
    for _ in cycles(straight, lambda made: saved.append(checkpoint(made))):
        saved.append(checkpoint(straight))  # after the records were made
    assert len(saved) == 1 + 3 * (4 + 1)
    for one in saved:
        again = resumed(one, stack_of(runs, colour(), engine))
        assert again.history == straight.history
        assert_same(again.engine.weights(), straight.engine.weights())
        assert_same(again.masks, straight.masks)


@pytest.mark.parametrize("engine", ENGINES)
def test_resuming_with_a_diverged_run(engine: str) -> None:
    peaks = (0.03, 1e30, 0.03)
    runs = [small(seed=k, peak={"name": "fixed", "lr": peak}, precision="float32") for k, peak in enumerate(peaks)]
    straight = stack_of(runs, engine=engine)
    saved: list[tuple[str, dict[str, Tensor]]] = []
    finished(straight, lambda made: saved.append(checkpoint(made)))
    assert [len(rows) for rows in straight.history] == [3, 1, 3]
    for one in saved[::2]:
        again = resumed(one, stack_of(runs, engine=engine))
        assert again.history == straight.history
        assert_same(again.engine.weights(), straight.engine.weights())


def test_resuming_does_not_change_what_was_saved() -> None:
    runs = [small(**EVERYTHING)]
    made, saved = stack_of(runs, colour()), []
    finished(made, lambda made: saved.append(checkpoint(made)))
    middle = copy.deepcopy(saved[5])
    resumed(saved[5], stack_of(runs, colour()))
    assert middle[0] == saved[5][0]
    assert_same(middle[1], saved[5][1])


def test_some_members_of_a_stack_can_go_on_without_the_others() -> None:
    runs = [small(seed=seed, **EVERYTHING) for seed in range(4)]
    straight = stack_of(runs, colour())
    saved: list[tuple[str, dict[str, Tensor]]] = []
    finished(straight, lambda made: saved.append(checkpoint(made)))
    chosen = [3, 1]
    part = stack.start(
        [f"run-{k}" for k in chosen], [runs[k] for k in chosen], colour(), engine="stacked", device=torch.device("cpu")
    )
    resumed(saved[6], part)
    for row, k in enumerate(chosen):
        assert part.history[row][0] == straight.history[k][0]  # recorded before
        assert [r["step"] for r in part.history[row]] == [r["step"] for r in straight.history[k]]
        for name, value in straight.engine.weights().items():
            torch.testing.assert_close(part.engine.weights()[name][row], value[k], rtol=1e-12, atol=1e-12, msg=name)


def test_a_stack_that_stands_at_its_end_yields_its_last_records_and_trains_no_more() -> None:
    made = stack_of([small()])
    finished(made)
    saved = checkpoint(made)
    again = stack_of([small()])
    stack.restore_(again, json.loads(saved[0]), saved[1])
    beats: list[int] = []
    yielded = list(cycles(again, lambda made: beats.append(made.step)))
    assert yielded == [{"run-0": made.history[0][-1]}]
    assert beats == []


# Paired seeds


def test_schedules_of_one_seed_share_split_weights_and_batches() -> None:
    first, other = (
        stack_of([small(seed=2, peak={"name": "fixed", "lr": rate}, shape=shape), small(seed=mate)])
        for rate, shape, mate in ((0.1, "constant", 0), (0.2, {"name": "decay", "steps": 6}, 5))
    )
    assert torch.equal(first.engine.weights()["fc1.weight"][0], other.engine.weights()["fc1.weight"][0])
    for part in ("train", "validation", "test"):
        assert torch.equal(*(made.feed.index[part][made.feed.row[0]] for made in (first, other)))
    for step in (0, 9):
        assert torch.equal(*(made.feed.train(1, step)[0][0] for made in (first, other)))
