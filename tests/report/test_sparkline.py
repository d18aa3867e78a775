"""Blocks of a terminal's chart, by hand."""

from pathlib import Path

from experiments import Accuracies, stored
from scyc.report.rows import collect
from scyc.report.sparkline import chart


def drawn(folder: Path, accuracies: Accuracies) -> list[str]:
    return chart(collect(stored(folder, accuracies), "e")).splitlines()


def test_the_highest_is_a_full_block_and_the_lowest_the_smallest(tmp_path: Path) -> None:
    """From 20 to 100 %, a block every 10 points."""
    lines = drawn(tmp_path, {"a": {0: (1.0, 0.65, 0.2)}, "longer": {0: (0.9, 0.55, 0.35)}})
    assert lines[0] == "Test accuracy from 100.0 % of the weights to 25.0 %, ▁ is 20.0 %, █ 100.0 %"
    assert lines[2:] == ["a       █▅▁", "longer  ▇▄▂"]


def test_where_no_run_is_left_is_a_gap_and_one_cycle_is_no_chart(tmp_path: Path) -> None:
    assert drawn(tmp_path / "one", {"a": {0: (1.0,)}}) == []
    lines = drawn(tmp_path / "two", {"a": {0: (1.0, None)}, "b": {0: (0.5, 0.5)}})
    assert lines[2:] == ["a  █", "b  ▁▁"]


def test_long_names_are_clipped(tmp_path: Path) -> None:
    assert drawn(tmp_path, {"x" * 90: {0: (1.0, 0.5)}})[2] == "x" * 23 + "…  █▁"
