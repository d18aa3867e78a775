"""The greedy search against a reference that trains every peak and seed alone, from the start, through the one loop."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from examples import digit_images, finished, small, stack_of
from scyc import cycle, oracle
from scyc.config import Part
from scyc.question import Outcome, Question, reported
from scyc.run import PEAK, Run
from scyc.search import Search
from scyc.stack import Record, Stack
from scyc.store import checkpoint
from scyc.store.lock import Held, Hold
from scyc.store.runs import Store
from scyc.training import Control, Interrupted, Options, Training

SEEDS = (0, 3)
PEAKS = (0.02, 0.1, 0.3, 0.6)
RUNS = tuple(small(seed=seed) for seed in SEEDS)


@dataclass(frozen=True)
class Walk:
    """A peak that is told cycle by cycle."""

    peaks: tuple[float, ...]

    def __call__(self, cycle: int, amount: float, history: object = ()) -> float:
        return self.peaks[cycle]


def alone(run: Run, peaks: Sequence[float]) -> Record:
    """The last record of one ordinary run with these peaks."""
    peak = Part("walk", {"peaks": tuple(peaks)}, Walk, PEAK)
    (records,) = finished(stack_of([replace(run, peak=peak, cycles=len(peaks))], engine="single"))
    return records[-1]


def by_hand(runs: Sequence[Run], peaks: Sequence[float]) -> list[list[list[Record]]]:
    """Per cycle, peak and seed a record; the first of the best means is walked on from."""
    found: list[list[list[Record]]] = []
    walked: list[float] = []
    for _ in range(runs[0].cycles):
        found.append([[alone(run, [*walked, peak]) for run in runs] for peak in peaks])
        means = [
            -1.0 if any("diverged" in r for r in rows) else statistics.fmean(r["validation_accuracy"] for r in rows)
            for rows in found[-1]
        ]
        walked.append(peaks[means.index(max(means))])
    return found


def asked(runs: Sequence[Run] = RUNS, peaks: Sequence[float] = PEAKS) -> Question:
    return oracle.question(runs, peaks, digit_images().digest())


def search(root: Path, question: Question | None = None, control: Control | None = None, **options: Any) -> Search:
    return Search(
        Store(root),
        question or asked(),
        digit_images(),
        Options(**{"checkpoint_every": 1e9, **options}),
        control or Control(),
    )


@pytest.mark.parametrize(
    "pruning",
    [
        {},
        {"score": "gradient", "scope": "layer", "score_batches": 2},
        {"score": "random"},
        {"rewind": "init"},
        {"rewind": {"name": "step", "k": 3}},
        {"rewind": "reinit"},
    ],
    ids=str,
)
@pytest.mark.parametrize("width", [0, 3])
def test_it_finds_what_training_every_peak_and_seed_alone_finds(
    pruning: dict[str, Any], width: int, tmp_path: Path
) -> None:
    runs = [replace(small(seed=seed, pruning=pruning)) for seed in SEEDS]
    records = search(tmp_path, asked(runs), width=width).run()
    reference = by_hand(runs, PEAKS)
    for record, rows in zip(records, reference, strict=True):
        for name in ("validation_accuracy", "test_accuracy", "last_test_accuracy", "step"):
            expected = [[r[name] for r in row] for row in rows]
            assert record[f"each_{name}"] == [pytest.approx(row, abs=1e-9) for row in expected]
        assert record["density"] == rows[0][0]["density"]
        assert record["density_all"] == rows[0][0]["density_all"]
    assert len({record["peak"] for record in records}) > 1 or pruning  # the walk is not the same peak all the way


def test_the_record_says_the_pick_and_what_its_rows_reached(tmp_path: Path) -> None:
    for record in search(tmp_path).run():
        means = [statistics.fmean(row) for row in record["each_validation_accuracy"]]
        best = means.index(max(means))
        assert record["peak"] == PEAKS[best]
        assert record["validation_accuracy"] == pytest.approx(means[best])
        assert record["test_accuracy"] == pytest.approx(statistics.fmean(record["each_test_accuracy"][best]))
        assert record["step"] == record["each_step"][best]
        low, high = record["region"]
        assert low <= record["peak"] <= high
        assert record["edge"] == (best in (0, len(PEAKS) - 1))


def test_a_diverged_peak_is_out_for_this_cycle_and_lives_again_in_the_next(tmp_path: Path) -> None:
    peaks = (0.1, 0.3, 1e300)
    records = search(tmp_path, asked(peaks=peaks)).run()
    reference = by_hand(RUNS, peaks)
    for record, rows in zip(records, reference, strict=True):
        assert record["each_diverged"] == [[r.get("diverged") for r in row] for row in rows]
        assert record["each_validation_accuracy"][2] == [None, None]
        assert all(step is not None and step > 0 for step in record["each_diverged"][2])  # it took steps: it lived
        assert record["peak"] in peaks[:2]
        assert not record["edge"] or record["peak"] == 0.1  # 0.3 is no end of the grid, beyond it peaks diverge


def losing(seed: int, peak: float, cycles: Sequence[int]) -> Callable[[Stack], list[Outcome]]:
    """As if one seed had diverged with one peak."""

    def measure(stack: Stack) -> list[Outcome]:
        return [
            {"diverged": 4} if stack.cycle in cycles and run.seed == seed and run.peak.fields["lr"] == peak else outcome
            for run, outcome in zip(stack.runs, reported(stack), strict=True)
        ]

    return measure


@pytest.mark.parametrize("width", [0, 1, 3])
def test_one_diverged_seed_disqualifies_the_best_peak_for_one_cycle(width: int, tmp_path: Path) -> None:
    free = search(tmp_path / "free").run()
    best = free[0]["peak"]
    question = replace(asked(), measure=losing(3, best, [0]))
    records = search(tmp_path / "lost", question, width=width).run()
    place = PEAKS.index(best)
    assert records[0]["peak"] != best
    assert records[0]["each_validation_accuracy"][place][0] == free[0]["each_validation_accuracy"][place][0]
    assert records[0]["each_validation_accuracy"][place][1] is None
    assert None not in records[1]["each_validation_accuracy"][place]


def test_it_ends_where_every_peak_lost_a_seed(tmp_path: Path) -> None:
    records = search(tmp_path, asked(peaks=(1e300, 1e301))).run()
    assert len(records) == 1
    assert records[0]["diverged"] > 0
    assert "peak" not in records[0]
    assert search(tmp_path, asked(peaks=(1e300, 1e301))).run() == records  # and is not searched again


@pytest.mark.parametrize("options", [{"width": 1}, {"width": 5}, {"engine": "single"}], ids=str)
def test_in_parts_and_one_by_one_it_finds_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    together = search(tmp_path / "together").run()
    apart = search(tmp_path / "apart", **options).run()
    for one, other in zip(together, apart, strict=True):
        assert one["peak"] == other["peak"]
        for name in ("each_validation_accuracy", "each_test_accuracy"):
            assert other[name] == [pytest.approx(row, abs=1e-9) for row in one[name]]


def test_rows_that_do_not_fit_into_memory_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = search(tmp_path / "together").run()
    started = Search.started

    def cramped(self: Search, rows: Sequence[Any]) -> Stack:
        if len(rows) > 3:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes")
        return started(self, rows)

    monkeypatch.setattr(Search, "started", cramped)
    split = search(tmp_path / "split")
    assert [record["peak"] for record in split.run()] == [record["peak"] for record in together]
    assert [event["runs"] for event in split.store.events(split.question.id) if event["kind"] == "out of memory"] == [
        8,
        4,
    ]


def test_scores_are_computed_for_the_picked_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[int] = []
    advance_ = cycle.advance_
    monkeypatch.setattr(cycle, "advance_", lambda stack: (pruned.append(len(stack.runs)), advance_(stack)))
    search(tmp_path).run()
    assert pruned == [2, 2]  # after cycles 0 and 1, one row per seed


class Stop:
    """A listener that stops the search after so many steps: by a signal, or as a kill would."""

    def __init__(self, control: Control, after: int, *, kill: bool) -> None:
        self.control, self.left, self.kill = control, after, kill
        self.steps = 0

    def began(self, stack: Stack) -> None: ...
    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None: ...
    def said(self, line: str) -> None: ...

    def stepped(self, stack: Stack) -> None:
        self.steps += 1
        self.left -= 1
        if self.left == 0 and self.kill:
            raise KeyboardInterrupt
        if self.left == 0:
            self.control.signal = 15


def stopped(root: Path, after: int, *, kill: bool, question: Question | None = None, **options: Any) -> int:
    """Search, stopped after every so many steps and started again; how many times it took."""
    for times in range(1, 200):
        control = Control()
        control.listeners.append(Stop(control, after, kill=kill))
        try:
            search(root, question, control, **options).run()
        except (Interrupted, KeyboardInterrupt):
            continue
        return times
    raise AssertionError("never finished")


@pytest.mark.parametrize(
    ("pruning", "after", "kill", "width"),
    [
        ({}, 1, False, 0),
        ({}, 5, False, 3),
        ({}, 7, True, 3),
        ({"rewind": {"name": "step", "k": 3}}, 5, False, 0),
        ({"rewind": {"name": "step", "k": 3}}, 7, True, 5),
    ],
)
def test_stopped_again_and_again_it_finds_the_same_bytes(
    pruning: dict[str, Any], after: int, kill: bool, width: int, tmp_path: Path
) -> None:
    question = asked([small(seed=seed, pruning=pruning) for seed in SEEDS])
    search(tmp_path / "whole", question, width=width).run()
    every = 0.0 if kill else 1e9  # a kill loses what was not saved
    times = stopped(tmp_path / "parts", after, kill=kill, question=question, width=width, checkpoint_every=every)
    assert times > 2
    files = [tmp_path / name / question.id / "records.jsonl" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not Store(tmp_path / "parts").stacks()


def test_a_record_that_was_not_written_any_more_is_said_again_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search(tmp_path / "whole").run()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "cut").run()
    control = Control()
    control.listeners.append(steps := Stop(control, 10**9, kill=False))
    assert search(tmp_path / "cut", None, control).run() == whole
    assert steps.steps == 2 * 6  # cycles 1 and 2 of three


def test_a_search_that_ended_is_read_from_the_store(tmp_path: Path) -> None:
    records = search(tmp_path).run()
    control = Control()
    control.listeners.append(steps := Stop(control, 10**9, kill=False))
    with Hold(tmp_path, [asked().id]):  # it needs no owner
        assert search(tmp_path, None, control).run() == records
    assert steps.steps == 0


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with Hold(tmp_path, [asked().id]), pytest.raises(Held):
        search(tmp_path).run()


def test_its_checkpoint_is_left_alone_by_trainings_in_the_same_store(tmp_path: Path) -> None:
    control = Control()
    control.listeners.append(Stop(control, 8, kill=False))
    with pytest.raises(Interrupted):
        search(tmp_path, None, control).run()
    Training(Store(tmp_path), {}, Options(), Control()).train({})
    assert checkpoint.exists(Store(tmp_path).stack_folder(asked().id))


def test_another_environment_is_refused_or_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control()
    control.listeners.append(Stop(control, 8, kill=False))
    with pytest.raises(Interrupted):
        search(tmp_path, None, control).run()
    monkeypatch.setattr("scyc.study.environment", lambda device: {"torch": "9", "device": "abacus", "threads": "1"})
    with pytest.raises(ValueError, match="--accept-environment"):
        search(tmp_path).run()
    search(tmp_path, accept_environment=True).run()
    assert "environment changed" in [event["kind"] for event in Store(tmp_path).events(asked().id)]
