"""Tuning: every stage against runs trained one by one, nothing but validation accuracy, and the same after any kill."""

import builtins
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples import digit_images, finished, small, stack_of
from scyc import experiment, suggest, tune
from scyc.config import part
from scyc.refine import Refinement
from scyc.run import PEAK, Run
from scyc.search import Search
from scyc.stack import Record, Stack
from scyc.store.runs import Store
from scyc.suggest import Tuning, best_of
from scyc.train import single, stacked
from scyc.training import Control, Interrupted, Options

SEEDS = (0, 3)
RUNS = tuple(small(seed=seed) for seed in SEEDS)
EPS = (0.02, 0.1, 0.4)
DIGEST = digit_images().digest()
CONFIG = {
    "run": {
        "data": {"name": "digits", "limit": 200},
        "model": {"name": "mlp", "widths": [8]},
        "steps": 6,
        "batch": 16,
        "cycles": 3,
        "eval_every": 2,
    },
    "schedules": {
        "constant": {"peak": {"name": "fixed", "lr": 0.1}, "shape": "constant"},
        "warmup-1": {"peak": {"name": "fixed", "lr": 0.2}, "shape": {"name": "warmup", "ramp": 2}},
        "warmup-2": {"peak": {"name": "fixed", "lr": 0.3}, "shape": {"name": "warmup", "ramp": 3}},
        "scyc": {
            "peak": {"name": "scyc", "eps": 0.1, "delta": 0.1, "q": 1, "beta": 5},
            "shape": {"name": "warmup", "ramp": 2},
        },
    },
}


@pytest.fixture(autouse=True)
def _no_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever selects must not see the test set: in this file, looking at it is an error."""
    for engine in (stacked.Stacked, single.Single):
        evaluate = engine.evaluate

        def careful(self: Any, part: str, *rest: Any, evaluate: Any = evaluate) -> Any:
            assert part == "validation"
            return evaluate(self, part, *rest)

        monkeypatch.setattr(engine, "evaluate", careful)


def alone(run: Run, peak: Any, cycles: int) -> list[Record]:
    """Validation accuracies, cycle by cycle, of one ordinary run: the loop without its look at the test set."""
    stack = stack_of([replace(run, peak=peak, cycles=cycles)], engine="single")
    return validation_records(stack)


def validation_records(stack: Stack) -> list[Record]:
    seen = stack.engine.evaluate
    stack.engine.evaluate = lambda part, *rest: seen("validation", *rest)  # type: ignore[method-assign]
    (records,) = finished(stack)
    return records


def fixed(lr: float) -> Any:
    return part(PEAK, {"name": "fixed", "lr": lr})


def mean_at(records: Sequence[Sequence[Record]], cycle: int) -> float:
    return statistics.fmean(rows[cycle]["validation_accuracy"] for rows in records)


def options(**fields: Any) -> Options:
    return Options(**{"checkpoint_every": 1e9, **fields})


def searched(root: Path, question: Any, control: Control | None = None, **fields: Any) -> list[Record]:
    return Search(Store(root), question, digit_images(), options(**fields), control or Control()).run()


def refined(root: Path, trials: int = 6, control: Control | None = None, **fields: Any) -> Refinement:
    return Refinement(Store(root), RUNS, 0.1, 0.3, trials, digit_images(), options(**fields), control or Control())


def test_epsilon_is_the_best_of_the_dense_network_and_delta_of_the_target(tmp_path: Path) -> None:
    delta = (0.0, 0.1, 0.3)
    records = searched(tmp_path, tune.climb(RUNS, EPS, delta, 2, DIGEST))
    dense = [mean_at([alone(run, fixed(eps), 1) for run in RUNS], 0) for eps in EPS]
    assert [statistics.fmean(row) for row in records[0]["each_validation_accuracy"]] == pytest.approx(dense, abs=1e-9)
    eps = EPS[dense.index(max(dense))]
    assert records[0]["peak"] == eps
    assert records[1]["peaks"] == [eps]  # pruned with epsilon on the way
    assert records[2]["peaks"] == [eps + rise for rise in delta]
    there = [statistics.fmean(row) for row in records[2]["each_validation_accuracy"]]
    stays = mean_at([alone(run, fixed(eps), 3) for run in RUNS], 2)  # delta 0 is epsilon all the way
    assert there[0] == pytest.approx(stays, abs=1e-9)
    assert records[2]["peak"] == eps + delta[there.index(max(there))]


def test_deltas_not_given_go_up_in_halves_of_epsilon(tmp_path: Path) -> None:
    grid = tune.climb(RUNS, EPS, 4, 2, DIGEST).grid
    assert grid(0, []) == EPS
    assert grid(1, [0.1]) == (0.1,)
    assert grid(2, [0.1, 0.1]) == pytest.approx((0.1, 0.15, 0.2, 0.25))


def test_a_tuning_is_worth_its_mean_validation_accuracy_over_seeds_and_pruned_cycles(tmp_path: Path) -> None:
    for found in refined(tmp_path, 5).run():
        assert 0 <= found.q <= 3 <= found.beta <= 6
        peak = part(PEAK, {"name": "scyc", "eps": 0.1, "delta": 0.3, "q": found.q, "beta": found.beta})
        records = [alone(run, peak, 3) for run in RUNS]
        assert found.accuracy == pytest.approx((mean_at(records, 1) + mean_at(records, 2)) / 2, abs=1e-9)


def test_the_store_keeps_the_cycles_of_the_best(tmp_path: Path) -> None:
    refinement = refined(tmp_path, 5)
    best = best_of(refinement.run())
    peak = part(PEAK, {"name": "scyc", "eps": 0.1, "delta": 0.3, "q": best.q, "beta": best.beta})
    records = Store(tmp_path).records(refinement.id)
    assert [record["peak"] for record in records] == [peak.make()(cycle, 0.2) for cycle in range(3)]
    assert statistics.fmean(r["validation_accuracy"] for r in records[1:]) == pytest.approx(best.accuracy)


def test_the_first_of_equals_is_the_best() -> None:
    found = [Tuning(0, 1, 3, 0.5), Tuning(1, 2, 4, 0.75), Tuning(2, 3, 5, 0.75)]
    assert best_of(found) == found[1]


def test_a_diverged_run_counts_as_nothing_right(tmp_path: Path) -> None:
    refinement = Refinement(Store(tmp_path), RUNS, 0.1, 1e300, 4, digit_images(), options(), Control())
    for found in refinement.run():
        dense_only = found.q >= 2  # the peak rises after cycle q, and the last of three cycles is 2
        assert (found.accuracy > 0.05) == (found.q >= 1)
        if not dense_only:
            assert found.accuracy < 0.5


class Stop:
    """Ends a tuning after so many steps, by a signal or as a kill would."""

    def __init__(self, control: Control, after: int, *, kill: bool) -> None:
        self.control, self.left, self.kill = control, after, kill

    def began(self, stack: Stack) -> None: ...
    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None: ...
    def said(self, line: str) -> None: ...

    def stepped(self, stack: Stack) -> None:
        self.left -= 1
        if self.left == 0 and self.kill:
            raise KeyboardInterrupt
        if self.left == 0:
            self.control.signal = 15


def stopped(root: Path, after: int, *, kill: bool) -> tuple[int, list[Tuning]]:
    """Tune, stopped after every so many steps and started again; how often, and what came of it."""
    for times in range(1, 100):
        control = Control()
        control.listeners.append(Stop(control, after, kill=kill))
        try:
            return times, refined(root, 6, control, checkpoint_every=0.0 if kill else 1e9).run()
        except (Interrupted, KeyboardInterrupt):
            continue
    raise AssertionError("never finished")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Tuning], bytes]:
    """A tuning that nothing stopped, and its journal."""
    root = tmp_path_factory.mktemp("whole")
    refinement = refined(root)
    return refinement.run(), (root / refinement.id / "records.jsonl").read_bytes()


@pytest.mark.parametrize(("after", "kill"), [(10, False), (13, True)])
def test_stopped_again_and_again_it_asks_and_finds_the_same(
    after: int, kill: bool, whole: tuple[list[Tuning], bytes], tmp_path: Path
) -> None:
    times, found = stopped(tmp_path, after, kill=kill)
    assert times > 2
    assert (found, (tmp_path / refined(tmp_path).id / "records.jsonl").read_bytes()) == whole


@pytest.mark.parametrize("call", ["ask", "tell", "set_user_attr"])
@pytest.mark.parametrize("times", [1, 3])
def test_killed_while_optuna_writes_it_asks_the_same(
    call: str, times: int, whole: tuple[list[Tuning], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study dies after its n-th such call; what was asked or told by then stands."""
    study = suggest.library().study.Study
    real, left = getattr(study, call), iter(range(times - 1, -1, -1))

    def dying(self: Any, *arguments: Any, **fields: Any) -> Any:
        made = real(self, *arguments, **fields)
        if next(left) == 0:
            raise KeyboardInterrupt
        return made

    with monkeypatch.context() as patch:
        patch.setattr(study, call, dying)
        with pytest.raises(KeyboardInterrupt):
            refined(tmp_path).run()
    assert refined(tmp_path).run() == whole[0]


def test_what_was_asked_by_half_is_forgotten(tmp_path: Path) -> None:
    with suggest.opened(tmp_path / "a file?#%.sqlite3", "name") as found:
        found.ask({"q": suggest.spaced(0, 3)})  # and killed before beta
        suggest.dropped_(found)
        suggest.asked_(found, 6)
        assert len(suggest.running(found)) == 4
        asked = [trial.params for trial in suggest.tried(found)]
    assert (tmp_path / "a file?#%.sqlite3").exists()
    with suggest.opened(tmp_path / "other", "name") as found:
        suggest.asked_(found, 6)
        assert [trial.params for trial in suggest.tried(found)] == asked


def test_a_finished_tuning_is_read_from_the_store(tmp_path: Path) -> None:
    found = refined(tmp_path).run()
    control = Control()
    control.listeners.append(Stop(control, 1, kill=True))
    assert refined(tmp_path, 6, control).run() == found


def test_tunings_that_do_not_fit_into_memory_go_in_smaller_stacks(
    whole: tuple[list[Tuning], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = whole[0]
    started = Refinement.started

    def cramped(self: Refinement, found: Any, engine: str) -> Stack:
        if len(self.numbers) > 1:
            raise RuntimeError("out of memory")
        return started(self, found, engine)

    monkeypatch.setattr(Refinement, "started", cramped)
    apart = refined(tmp_path / "apart").run()
    assert [(t.q, t.beta) for t in apart] == [(t.q, t.beta) for t in together]
    assert [t.accuracy for t in apart] == pytest.approx([t.accuracy for t in together], abs=1e-9)


def test_all_stages_together(tmp_path: Path) -> None:
    question = tune.climb(RUNS, EPS, (0.1, 0.3), 2, DIGEST)
    found = tune.tune(Store(tmp_path), question, 4, digit_images(), options(), Control())
    assert found.eps in EPS
    assert found.delta in (0.1, 0.3)
    assert found.peak.fields["eps"] == found.eps
    assert len(found.pairs) == 4
    assert list(found.studies) == ["eps and delta", "q and beta"]
    tune.register(Store(tmp_path), "x-tune", "doc", found.studies)
    assert [ids for _, ids in Store(tmp_path).manifest("x-tune")["schedules"]] == [
        [id] for id in found.studies.values()
    ]


def test_no_peak_left_is_said_with_its_cycle(tmp_path: Path) -> None:
    with pytest.raises(tune.NoPeakLeft, match="cycle 0: no peak left"):
        tune.tune(
            Store(tmp_path), tune.climb(RUNS, (1e300, 1e301), 2, 1, DIGEST), 4, digit_images(), options(), Control()
        )


def test_a_benchmark_is_found_by_label_by_shape_or_made_of_a_shape_alone() -> None:
    known = experiment.experiment(CONFIG, "x", seeds="2")
    assert tune.benchmark(known, "warmup-2") == ("warmup-2", known.runs["warmup-2"])
    assert tune.benchmark(known, "warmup") == ("warmup-1", known.runs["warmup-1"])  # the first of this shape
    less = replace(known, runs={label: runs for label, runs in known.runs.items() if label != "constant"})
    label, runs = tune.benchmark(less, "constant")
    assert (label, runs[0].shape.name, len(runs)) == ("constant", "constant", 2)
    with pytest.raises(ValueError, match=r"--schedule decay: x has none of this shape .*steps.*add one"):
        tune.benchmark(known, "decay")
    with pytest.raises(ValueError, match=r"unknown schedule or shape 'warmpu'; did you mean 'warmup'\?"):
        tune.benchmark(known, "warmpu")


def test_a_benchmark_is_tuned_on_the_dense_network(tmp_path: Path) -> None:
    (record,) = searched(tmp_path, tune.dense(RUNS, EPS, DIGEST))
    means = [mean_at([alone(run, fixed(eps), 1) for run in RUNS], 0) for eps in EPS]
    assert record["peak"] == EPS[means.index(max(means))]
    assert "each_test_accuracy" not in record


def test_twenty_tunings_are_six_six_and_eight() -> None:
    assert tune.stages(20) == tune.Stages(eps=6, delta=6, pairs=8)
    assert tune.stages(5) == tune.Stages(eps=2, delta=2, pairs=1)
    with pytest.raises(ValueError, match="--trials 4"):
        tune.stages(4)


def test_delta_is_tuned_in_the_last_cycle_or_the_one_named() -> None:
    assert tune.target_cycle(RUNS, None) == 2
    assert tune.target_cycle(RUNS, 1) == 1
    for wrong in (0, 3):
        with pytest.raises(ValueError, match="pruned cycles are 1 to 2"):
            tune.target_cycle(RUNS, wrong)


@pytest.mark.parametrize("text", ["", "0", "0,0", "-1,2", "a,b", "nan,1", "0,inf"])
def test_deltas_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--delta"):
        tune.listed_deltas(text)


def test_deltas_may_be_zero() -> None:
    assert tune.listed_deltas("0.1,0,0.05") == (0.0, 0.05, 0.1)


def test_without_optuna_one_line_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "optuna":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"scyc\[tune\]"):
        suggest.library()
