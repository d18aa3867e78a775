"""What a tuning prints: from records typed by hand, and lines that can be pasted."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from scyc.config import part
from scyc.report import tuned
from scyc.run import PEAK, SHAPE
from scyc.store.runs import Store
from scyc.suggest import Tuning

WARMUP = part(SHAPE, {"name": "warmup", "ramp": 100, "drops": [250, 350]})
DENSE: dict[str, Any] = {
    "cycle": 0,
    "density": 1.0,
    "peaks": [0.1, 0.2, 0.4],
    "each_validation_accuracy": [[0.90, 0.92], [0.91, 0.90], [None, 0.5]],
    "peak": 0.1,
    "region": [0.1, 0.2],
    "edge": True,
    "validation_accuracy": 0.91,
}
PRUNED = {**DENSE, "cycle": 3, "density": 0.512, "peaks": [0.1, 0.2, 0.4], "peak": 0.1}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    made.create("0" * 12, {"steps": 100, "cycles": 4, "seed": [0, 1], "peak": {"name": "tune"}})
    made.append("0" * 12, DENSE)
    made.event("0" * 12, "finished", seconds=2.0)
    made.create("1" * 12, {"steps": 100, "cycles": 4, "seed": [0, 1], "peak": {"name": "refine", "trials": 3}})
    made.event("1" * 12, "told", seconds=5.0)
    return made


def test_candidates_stand_with_their_distance_to_the_best() -> None:
    head, _, *lines = (line.split() for line in tuned.candidates(DENSE).splitlines())
    assert head == ["peak", "validation", "%", "n", "behind", "the", "best"]
    assert lines == [
        ["0.1", "91.00±1.4", "2", "0.00", "best,", "at", "the", "edge", "of", "the", "grid"],
        ["0.2", "90.50±0.7", "2", "0.50", "feasible"],
        ["0.4", "1", "diverged", "1", "-"],
    ]


def test_deltas_are_what_a_peak_has_above_epsilon() -> None:
    words = [line.split()[0] for line in tuned.candidates(PRUNED, "delta", 0.1).splitlines()]
    assert words == ["delta", "-----", "0", "0.1", "0.3"]


def test_a_benchmarks_lines_can_be_pasted(store: Store) -> None:
    text = tuned.benchmark(store, "warmup-1", WARMUP, DENSE, "0" * 12)
    assert "best peak 0.1, its neighbours 0.2" in text
    assert "the best peak is at the edge of its grid" in text
    assert "cost: 6 trainings of 100 steps, 600 steps in all, 2 seconds" in text
    pasted = tomllib.loads(text[text.index("[schedules") :])["schedules"]["warmup-1"]
    assert pasted == {
        "peak": {"name": "fixed", "lr": 0.1},
        "shape": {"name": "warmup", "ramp": 100, "drops": [250, 350]},
    }


def test_s_cycs_lines_can_be_pasted_and_its_cost_is_that_of_all_stages(store: Store) -> None:
    peak = part(PEAK, {"name": "scyc", "eps": 0.1, "delta": 0.2, "q": 1.25, "beta": 4.5})
    tunings = [Tuning(0, 2.0, 3.0, 0.8), Tuning(1, 1.25, 4.5, 0.9), Tuning(2, 3.0, 5.0, 0.9)]
    studies = {"eps and delta": "0" * 12, "q and beta": "1" * 12}
    text = tuned.scyc(store, DENSE, PRUNED, tunings, peak, part(SHAPE, "constant"), studies)
    assert "m = 3, 51.20 % left, pruned with the peak 0.1 up to there" in text
    assert "the best eps is at the edge" in text
    assert "the best delta is at the edge" not in text  # it is 0, and none is below
    assert [line.split() for line in text.splitlines() if line.endswith("best")][-1] == ["1.25", "4.5", "90.00", "best"]
    assert "cost: 30 trainings of 100 steps, 3,000 steps in all, 7 seconds" in text  # 3 x 2, and 3 x 2 x 4
    pasted = tomllib.loads(text[text.index("[schedules") :])["schedules"]["scyc"]
    assert pasted == {"peak": {"name": "scyc", "eps": 0.1, "delta": 0.2, "q": 1.25, "beta": 4.5}, "shape": "constant"}
