"""Figures for a paper: of the width of a column, in three formats, valid, and as many as the page has."""

import re
from pathlib import Path

import pytest
from PIL import Image
from test_page import EVIL

from experiments import TWO, stored
from scyc.report import page
from scyc.report.page import column
from scyc.report.page.figure import Look
from scyc.report.page.holdings import holdings

COLUMN = 240  # points


def test_an_odd_name_is_a_file_name_and_stays_in_its_folder(tmp_path: Path) -> None:
    held = holdings(stored(tmp_path, {EVIL: {0: (0.5, 0.4)}, "scyc": {0: (0.6, 0.5)}}), "e")
    figure = next(f for f in column.figures(held, Look(held.labels, "scyc")) if f.name == f"layers-{EVIL}")
    written = [path.name for path in column.drawn("e", figure, Look(held.labels, "scyc"), tmp_path)]
    assert [re.fullmatch(r"e-layers-[A-Za-z0-9._-]+\.(svg|pdf|png)", name) is not None for name in written] == [
        True
    ] * 3


def test_what_only_a_pointer_can_use_is_left_out(tmp_path: Path) -> None:
    held = holdings(stored(tmp_path, TWO), "e")
    for figure in column.figures(held, Look(held.labels, "scyc")):
        text = str(column.still(figure, Look(held.labels, "scyc")))
        assert "nearest" not in text
        assert "tooltip" not in text


@pytest.mark.slow
def test_every_figure_has_the_width_of_a_column_in_three_formats(tmp_path: Path) -> None:
    paths = page.draw(stored(tmp_path / "store", TWO), "e", tmp_path / "figures")
    names = {path.stem for path in paths}
    assert {
        "e-accuracy",
        "e-difference",
        "e-peaks",
        "e-rate",
        "e-layers-scyc",
        "e-stops",
        "e-curve-train-loss",
    } <= names
    assert len(paths) == 3 * len(names - {"e"}) + 1
    for path in paths:
        if path.suffix == ".svg":
            assert f'width="{COLUMN}pt"' in path.read_text()[:400]
        elif path.suffix == ".png":
            with Image.open(path) as picture:
                assert picture.size[0] / 600 * 72 == pytest.approx(COLUMN, abs=1)  # at 600 dots per inch
        elif path.suffix == ".pdf":
            box = re.search(rb"MediaBox ?\[0 0 ([\d.]+) ", path.read_bytes())
            assert box
            assert float(box[1]) == pytest.approx(COLUMN, abs=1)
    assert r"\textbf{85.0$\pm$7.1}" in (tmp_path / "figures" / "e.tex").read_text()


@pytest.mark.slow
def test_every_specification_is_valid_by_the_schema(tmp_path: Path) -> None:
    import altair

    held = holdings(stored(tmp_path, TWO), "e")
    look = Look(held.labels, "scyc")
    for figure in column.figures(held, look):
        altair.Chart.from_dict(column.still(figure, look))
        altair.Chart.from_dict({"datasets": {n: d.records() for n, d in figure.data.items()}, **figure.spec})
