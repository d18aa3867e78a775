"""The page's numbers are the store's, whatever lies in the store, and nothing in it can become markup."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from experiments import TWO, Accuracies, stored
from scyc import sweep
from scyc.config import part
from scyc.experiment import experiment, load
from scyc.report import inside, page, repeat
from scyc.report.page import accuracy, made, palette, peaks, theme
from scyc.report.page.figure import Data, Look
from scyc.report.page.holdings import holdings
from scyc.report.rows import collect
from scyc.run import SHAPE
from scyc.store.runs import Store


@pytest.fixture(autouse=True)
def _no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundling the scripts takes a second, and is looked at in a browser."""
    monkeypatch.setattr("scyc.report.page.document.vega", lambda: "/* vega */")


def figures(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])["figures"]  # type: ignore[no-any-return]


def test_every_point_is_a_mean_of_the_store_in_the_words_of_the_tables(tmp_path: Path) -> None:
    """90 and 80 % are 85 ± 7.07; validation and seeds beside them."""
    held = holdings(stored(tmp_path, TWO), "e")
    assert held.analysis
    drawn = accuracy.curve(held.analysis, Look(held.labels, "scyc")).data["accuracy"].records()
    dense = next(row for row in drawn if (row["schedule"], row["cycle"]) == ("scyc", 0))
    assert dense["accuracy_percent"] == pytest.approx(85)
    assert dense["low"] == pytest.approx(77.93, abs=0.005)
    assert dense["high"] == pytest.approx(92.07, abs=0.005)
    words = ("test accuracy", "seeds", "left", "rate")
    assert [dense[name] for name in words] == ["85.00 ± 7.07 %", "2", "100.00 %", "0.1"]
    assert [round(row["accuracy_percent"], 6) for row in drawn] == [80, 75, 77, 85, 85, 75]


def test_differences_are_the_comparisons_of_the_tables(tmp_path: Path) -> None:
    held = holdings(stored(tmp_path, TWO), "e")
    assert held.analysis
    rows = accuracy.gain(held.analysis).data["difference"].records()
    assert [row["difference"] for row in rows] == ["+10.00 points", "-2.00 points"]
    assert [row["seeds"] for row in rows] == ["2", "2"]
    assert rows[0]["low"] is None  # equal differences have no interval


def test_the_best_is_bold_and_ties_are_underlined(tmp_path: Path) -> None:
    """At m = 2: 77 and 75 %, a noise floor of √((4² + 10²) / 2) = 7.6 points."""
    text = page.html(stored(tmp_path, TWO), ["e"])
    assert "<td><strong>77.0±2.8</strong></td>" in text
    assert '<td><span class="tie">75.0±7.1</span></td>' in text


def test_layers_early_stops_and_curves_are_means_over_seeds(tmp_path: Path) -> None:
    row = collect(stored(tmp_path, TWO), "e", whole=True).row("scyc", 2)
    assert row
    assert [(layer.name, layer.density.mean, layer.near_collapse) for layer in inside.layers(row)] == [
        ("first", 0.25, False),
        ("last", 0.36, False),
    ]
    assert inside.early_stop(row).mean == 52
    curve = inside.curve(row, "validation_accuracy")
    assert [(step, round(found.mean, 6), found.n) for step, found in curve] == [(50, 0.65, 2), (100, 0.75, 2)]


def test_a_layer_with_less_than_a_tenth_of_the_networks_density_is_near_collapse(tmp_path: Path) -> None:
    row = collect(stored(tmp_path, TWO, layers={"a": 0.01, "b": 0.9}, guarded=True), "e", whole=True).row("low", 2)
    assert row
    assert [(layer.near_collapse, layer.guarded) for layer in inside.layers(row)] == [(True, True), (False, True)]


@pytest.mark.parametrize(("many", "expected"), [(3, 3), (60, 60), (61, 60), (5000, 60)])
def test_a_curve_has_at_most_sixty_points_with_both_ends(many: int, expected: int) -> None:
    found = inside.thinned(range(many))
    assert len(found) == len({*found}) == expected
    assert (found[0], found[-1]) == (0, many - 1)


@pytest.mark.parametrize(
    ("shape", "corners"),
    [
        ({"name": "constant"}, [(0, 1.0), (99, 1.0)]),
        ({"name": "decay", "steps": 100}, [(0, 1.0), (99, 0.01)]),
        ({"name": "warmup", "ramp": 4, "drops": [60]}, [(0, 0.25), (3, 1.0), (59, 1.0), (60, 0.1), (99, 0.1)]),
        ({"name": "cyclical", "half": 50}, [(0, 0.0), (50, 1.0), (99, 0.02)]),
    ],
)
def test_the_rate_inside_a_cycle_is_kept_where_it_turns(shape: dict[str, Any], corners: list[Any]) -> None:
    found = peaks.turns(part(SHAPE, shape), 100)
    assert [step for step, _ in found] == [step for step, _ in corners]
    assert [factor for _, factor in found] == pytest.approx([factor for _, factor in corners])


EVIL = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}<!--data-->"


def test_names_from_the_store_are_text(tmp_path: Path) -> None:
    text = page.html(stored(tmp_path, {EVIL: {0: (0.5, 0.4)}, "scyc": {0: (0.6, 0.5)}}, doc=EVIL), ["e"])
    assert "<img" not in text
    assert text.count("</script>") == 3  # data, vega, page: none more than the frame has
    assert figures(text)["figure-accuracy"]["data"]["accuracy"]["schedule"][0] == EVIL


ODD: dict[str, Accuracies] = {
    "one run": {"scyc": {0: (0.5, 0.4, 0.3)}},
    "one cycle": {"low": {0: (0.5,)}, "scyc": {0: (0.6,)}},
    "one seed": {"low": {0: (0.5, 0.4)}, "scyc": {0: (0.6, 0.5)}},
    "hundred runs": {f"s{k}": dict.fromkeys(range(10), (0.5, 0.4)) for k in range(10)},
    "missing cycles": {"low": {0: (0.5, 0.4, 0.3), 1: (0.5,)}, "scyc": {0: (0.6, 0.5), 1: ()}},
    "one diverged": {"low": {0: (0.5, None), 1: (0.5, 0.4, 0.3)}, "scyc": {0: (0.6, 0.5, 0.4), 1: (0.6, 0.5, 0.4)}},
    "all diverged": {"low": {0: (None,), 1: (None,)}, "scyc": {0: (None,), 1: (None,)}},
    "nothing yet": {"low": {0: ()}, "scyc": {0: ()}},
    "no challenger": {"low": {0: (0.5, 0.4), 1: (0.5, 0.4)}, "high": {0: (0.6, 0.5), 1: (0.6, 0.5)}},
}


@pytest.mark.parametrize("kind", ODD)
def test_a_page_of_whatever_lies_in_the_store(tmp_path: Path, kind: str) -> None:
    text = page.html(stored(tmp_path, ODD[kind]), ["e"])
    assert "NaN" not in text
    assert text.count("<h1>") == 1
    for figure in figures(text).values():
        assert all(figure["data"].values())  # no chart without a point


def test_diverged_seeds_are_named_where_they_are_lost(tmp_path: Path) -> None:
    text = page.html(stored(tmp_path, ODD["one diverged"]), ["e"])
    assert "Diverged: low seed 0 in cycle 1." in text
    assert "4 of 4 runs finished, 1 diverged" in text


def test_several_experiments_stand_beside_each_other(tmp_path: Path) -> None:
    stored(tmp_path, TWO, "one")
    text = page.html(stored(tmp_path, TWO, "other"), ["one", "other"])
    assert "2 experiments compared" in text
    assert {"figure-compared-scyc", "e0-figure-accuracy", "e1-figure-accuracy"} <= figures(text).keys()
    assert "<td>85.0±7.1 (2)</td>" in text
    assert page.path_of(Store(tmp_path), ["one", "other"]).name == "one+other.html"


def test_the_store_gives_the_file_that_repeats_an_experiment(tmp_path: Path) -> None:
    """Written from the store and read again, it means the same runs."""
    store, changes = Store(tmp_path), ["pruning.amount=0.3", "steps=300", "optimizer=adam"]
    wanted = load("digits", seeds="0,2", overrides=[f"run.{change}" for change in changes], label="mine")
    found = sweep.datasets(wanted, ())
    sweep.register(store, wanted, sweep.identities(wanted, found), found)
    results = collect(store, "mine")
    again = experiment(tomllib.loads(repeat.toml(results)), "mine")
    assert again.settings == wanted.settings
    assert again.seeds == [0, 2]
    assert again.runs == wanted.runs
    assert repeat.command(results, wanted.settings) == "scyc run mine.toml"


def test_a_preset_as_it_is_repeats_by_its_name(tmp_path: Path) -> None:
    store, wanted = Store(tmp_path), load("digits", seeds="2")
    found = sweep.datasets(wanted, ())
    sweep.register(store, wanted, sweep.identities(wanted, found), found)
    assert repeat.command(collect(store, "digits"), wanted.settings) == "scyc run digits --seeds 0-1"


def test_settings_stand_beside_their_defaults(tmp_path: Path) -> None:
    section = made.settings(collect(stored(tmp_path, TWO), "e"))
    assert ["model.widths", "[8]", "[256, 256, 256]"] in section.grid
    assert ["cycles", "3", "25"] in section.grid
    assert "optimizer.momentum 0.9" in section.notes[0]
    assert not any(row[0] == "precision" for row in section.grid)  # float32 is the default


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 has it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_line_stands_out_from_the_page_and_words_more_so(name: str) -> None:
    ink, paper = theme.INKS[name], luminance(theme.INKS[name]["paper"])
    needed = dict.fromkeys([*palette.CALM[name], palette.ACCENT[name]], 3.0) | {ink["ink"]: 4.5, ink["soft"]: 4.5}
    for colour, least in needed.items():
        high, low = sorted([luminance(colour), paper], reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least, colour


def test_twenty_schedules_are_told_apart_by_more_than_colour() -> None:
    labels = [f"s{k}" for k in range(20)] + ["scyc"]
    styles = palette.styles(labels, "scyc")
    assert len({(s["light"], tuple(s["dash"]), s["shape"]) for s in styles.values()}) == 21
    assert [label for label in labels if styles[label]["light"] == palette.ACCENT["light"]] == ["scyc"]
    assert [label for label in labels if styles[label]["dash"] == [1, 0]] == ["scyc"]


def test_columns_are_packed_and_nothing_is_lost() -> None:
    data = Data.of([{"a": 1, "b": "x", "c": float("nan"), "d": k} for k in range(9)])
    assert data.columns() == {
        "a": {"all": 1, "count": 9},
        "b": {"all": "x", "count": 9},
        "c": {"all": None, "count": 9},
        "d": list(range(9)),
    }
    words = Data.of([{"b": word} for word in "xxxxyyyy"]).columns()
    assert words == {"b": {"words": ["x", "y"], "at": [0, 0, 0, 0, 1, 1, 1, 1]}}
