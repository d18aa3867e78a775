"""An oracle's tables from records typed by hand, beside the paper's."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from scyc.report import oracle
from scyc.store.runs import Store

PEAKS = [0.01, 0.02, 0.03, 0.04]
ID = "0123456789ab"
SCYC = {"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1, "beta": 5}


def record(cycle: int, best: int, region: tuple[int, int], edge: bool = False, **more: Any) -> dict[str, Any]:
    """Validation and test accuracies of two seeds: 80 and 84 % at the best peak, 70 elsewhere."""
    each = [[0.80, 0.84] if k == best else [0.70, 0.70] for k in range(4)]
    return {
        "cycle": cycle,
        "density": 0.8**cycle,
        "density_all": 0.8**cycle,
        "peaks": PEAKS,
        "peak": PEAKS[best],
        "region": [PEAKS[region[0]], PEAKS[region[1]]],
        "edge": edge,
        "each_validation_accuracy": each,
        "each_test_accuracy": each,
        **more,
    }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    config = {"steps": 1000, "scale": 0.1, "cycles": 4, "seed": [0, 1], "peak": {"name": "oracle", "peaks": PEAKS}}
    made.create(ID, config)
    made.append(ID, record(0, 1, (1, 2)))
    made.append(ID, record(1, 1, (0, 1)))
    lost = record(2, 2, (1, 3))
    lost["each_validation_accuracy"][3] = [None, 0.7]
    made.append(ID, {**lost, "each_diverged": [[None, None]] * 3 + [[5, None]]})
    made.append(ID, record(3, 3, (3, 3), edge=True))
    made.event(ID, "cycle", cycle=3, seconds=12.5)
    made.write_manifest(
        "o",
        {
            "doc": "",
            "published": "resnet20-cifar10-global-gradient",
            "settings": ID,
            "schedules": [["oracle", [ID]]],
            "oracle": {"compare": [["scyc", SCYC], ["low", {"name": "fixed", "lr": 0.015}]]},
        },
    )
    return made


def test_a_line_of_ours_and_below_it_the_papers_of_the_same_cycle(store: Store) -> None:
    grid = oracle.section(oracle.collect(store, "o")).grid
    assert grid[0] == [
        "m", "density %", "of", "best", "feasible", "scyc", "low", "validation %", "test %", "diverged",
    ]  # fmt: skip
    ours = ["0", "100.00", "ours", "0.02", "0.02 to 0.03", "0.03 inside", "0.015 below", "82.0±2.8", "82.0±2.8"]
    assert grid[1] == [*ours, "0 of 4"]
    assert grid[2] == ["", "100", "paper", "0.034", "0.028 to 0.036", "0.03 inside", "-", "-", "-", "-"]
    assert [row[:4] for row in grid[3:]] == [
        ["1", "80.00", "ours", "0.02"],  # the paper prints no cycle 1
        ["2", "64.00", "ours", "0.03"],
        ["", "64", "paper", "0.032"],
        ["3", "51.20", "ours", "0.04 edge"],
        ["", "51.3", "paper", "0.038"],
    ]
    assert grid[7][5] == "0.032 below"  # the paper's own S-Cyc lies outside its own region here


def test_bounds_at_an_end_of_the_grid_are_open_and_diverged_peaks_counted(store: Store) -> None:
    grid = oracle.section(oracle.collect(store, "o")).grid
    assert [row[4] for row in grid[1:] if row[2] == "ours"] == [
        "0.02 to 0.03",
        "≤0.01 to 0.02",
        "0.02 to ≥0.04",
        "0.04 to ≥0.04",
    ]
    assert [row[-1] for row in grid[1:] if row[2] == "ours"] == ["0 of 4", "0 of 4", "1 of 4", "0 of 4"]


def test_places_follow_the_peak_of_each_cycle(store: Store) -> None:
    """S-Cyc's printed peaks: .03 .03 .030039 .0321325."""
    found = oracle.collect(store, "o")
    assert oracle.places_of(found, "scyc") == {0: "inside", 1: "above", 2: "inside", 3: "below"}
    assert oracle.places_of(found, "low") == {0: "below", 1: "inside", 2: "below", 3: "below"}


def test_claims_get_verdicts_and_the_budget_is_beside(store: Store) -> None:
    notes = oracle.section(oracle.collect(store, "o")).notes
    assert notes[0] == "the best peak is at the edge of the grid at m = 3: search beyond it"
    assert notes[1] == (
        "budget: 4 peaks x 2 seeds x 4 cycles = 32 trainings of 100 steps, 3,200 steps in all, 12 seconds"
    )
    assert notes[2].startswith("claim 8, The best peak rises with pruning: direction only; rank correlation")
    assert notes[3] == (
        "claim 9, S-Cyc's peak is feasible in every cycle: not reproduced; "
        "scyc inside in 2 of 4 cycles (above at m = 1, below at m = 3)"
    )
    assert notes[4].startswith("low: inside in 1 of 4 cycles")


def test_a_cycle_without_a_best_peak_ends_the_table(store: Store) -> None:
    config = store.config(ID)
    store.create("ba9876543210", config)
    each = [[None, None]] * 4
    store.append(
        "ba9876543210",
        {
            "cycle": 0,
            "density": 1.0,
            "peaks": PEAKS,
            "each_diverged": [[3, 4]] * 4,
            "each_validation_accuracy": each,
            "diverged": 4,
        },
    )
    manifest = store.manifest("o")
    store.write_manifest("lost", {**manifest, "published": "", "schedules": [["oracle", ["ba9876543210"]]]})
    found = oracle.collect(store, "lost")
    assert oracle.section(found).grid[1] == ["0", "100.00", "none", "-", "0.03", "0.015", "-", "-", "4 of 4"]
    for layout in oracle.FORMATS.values():
        layout(found)
    assert [v.verdict for v in oracle.verdicts(found)] == ["not tested", "not tested"]


def test_every_format_says_the_same_numbers(store: Store) -> None:
    found = oracle.collect(store, "o")
    assert "82.0±2.8" in oracle.FORMATS["table"](found)
    assert "| 82.0±2.8 |" in oracle.FORMATS["md"](found)
    assert r"82.0$\pm$2.8 &" in oracle.FORMATS["latex"](found)
    rows = list(csv.DictReader(io.StringIO(oracle.FORMATS["csv"](found))))
    assert len(rows) == 16
    best = [row for row in rows if row["best"] == "True"]
    assert [(row["cycle"], row["peak"]) for row in best] == [("0", "0.02"), ("1", "0.02"), ("2", "0.03"), ("3", "0.04")]
    assert float(best[0]["validation_accuracy"]) == pytest.approx(0.82)
    assert float(best[0]["validation_accuracy_std"]) == pytest.approx(0.0282843, abs=1e-6)
    assert sum(row["feasible"] == "True" for row in rows) == 2 + 2 + 3 + 1
    document = json.loads(oracle.FORMATS["json"](found))
    assert document["cycles"][0]["compare"] == {"scyc": 0.03, "low": 0.015}
    assert document["budget"] == {"trainings": 32, "steps": 100, "seconds": 12.5, "total": 3200}
    assert document["paper"]["cycle"] == [0, 2, 3, 4, 5, 7, 13]


def test_what_is_no_oracle_is_said(store: Store) -> None:
    store.write_manifest("x", {"doc": "", "published": "", "settings": "", "schedules": []})
    assert oracle.is_oracle(store, "o")
    assert not oracle.is_oracle(store, "x")
    with pytest.raises(ValueError, match="experiment 'x' is no oracle"):
        oracle.collect(store, "x")
