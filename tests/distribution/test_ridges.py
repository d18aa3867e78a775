"""Figures: what is drawn is what was measured, and every file opens as what it says it is."""

from pathlib import Path
from typing import Any

import pytest
from test_narrowing import distributions, part

from scyc.report import ridges


def boxes(spec: dict[str, Any], panel: int = 0) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = spec["hconcat"][panel]["layer"][0]["data"]["values"]
    return values


def test_a_box_for_every_bin_cut_at_the_thresholds(tmp_path: Path) -> None:
    """Edges -1, 0, 1 and thresholds -0.5 and 0.25: four boxes, the outer two in the tails."""
    found = distributions(tmp_path)
    for row in found.rows["warmup"].values():
        for one in row:
            one["gradients"].update({**part(1.0), "thresholds": [-0.5, 0.25]})  # type: ignore[index]
    drawn = [box for box in boxes(ridges.spec(found, "warmup", "end")) if box["cycle"] == 2]
    assert [(box["start"], box["end"], box["tail"]) for box in drawn] == [
        (-1.0, -0.5, True),
        (-0.5, 0.0, False),
        (0.0, 0.25, False),
        (0.25, 1.0, True),
    ]


@pytest.mark.parametrize(
    ("share", "height"), [(1.0, 0.95), (0.1, 0.76), (1e-3, 0.38), (1e-5, 0.0), (0.0, 0.0)]
)  # five decades make 0.95 of a row
def test_heights_are_logarithms_of_shares(share: float, height: float) -> None:
    box = next(ridges.outline(3, ([0.0, 1.0], [share], -9.0, 9.0)))
    assert box["top"] == pytest.approx(3 - height)


def test_the_share_of_the_tails_stands_beside_every_cycle(tmp_path: Path) -> None:
    spec = ridges.spec(distributions(tmp_path), "warmup", "end")
    words = [row["text"] for row in spec["hconcat"][0]["layer"][2]["data"]["values"]]
    assert words == ["3.05 ± 0.19 %", "3.06 ± 0.16 %", "2.44 ± 0.09 %", "1.56 ± 0.09 %"]  # 3 % of the mean width


def test_every_axis_has_words_and_a_unit(tmp_path: Path) -> None:
    for panel in ridges.spec(distributions(tmp_path), "warmup", "end")["hconcat"]:
        encoding = panel["layer"][0]["encoding"]
        assert "(" in encoding["x"]["title"]
        assert encoding["y"]["title"] == "cycle m (weights left)"


def test_seeds_with_other_numbers_of_bins_are_left_out_of_the_mean(tmp_path: Path) -> None:
    rows = dict(
        enumerate([{"hidden": part(1.0)}, {"hidden": {**part(1.0), "edges": [-1.0, 1.0], "counts": [1, 98, 1]}}])
    )
    edges, shares, _, _ = ridges.averaged(rows, "hidden")
    assert edges == [-1.0, 0.0, 1.0]
    assert shares == [0.48, 0.5]


def test_svg_png_and_pdf_for_every_schedule_and_moment(tmp_path: Path) -> None:
    paths = ridges.draw(distributions(tmp_path / "runs"), tmp_path / "figures")
    names = [f"tiny-warmup-{moment}.{ending}" for moment in ("peak", "end") for ending in ("svg", "png", "pdf")]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(names)
    starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(starts[path.suffix[1:]]) for path in paths)
    assert "share of the values" in (tmp_path / "figures/tiny-warmup-end.svg").read_text()
