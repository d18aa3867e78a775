"""Changes against cycle 0 and the verdicts on claims 1 to 3, from rows written by hand, against scipy's own tests."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scyc.distribution import Settings
from scyc.report import narrowing_text
from scyc.report.distribution import Distributions, changes, collect
from scyc.report.narrowing import Finding, findings
from scyc.store.runs import Store

# By cycle and seed. Pruned three times: the first changes little, the others narrow.
NARROWING = {
    0: [1.00, 1.10, 0.95, 1.02],
    1: [1.01, 1.09, 0.96, 1.02],
    2: [0.80, 0.86, 0.79, 0.81],
    3: [0.50, 0.56, 0.49, 0.53],
}
WIDENING = {m: [value * (1 + 0.3 * m) for value in values] for m, values in NARROWING.items()}
CONFIG = {"peak": {"name": "fixed"}, "shape": {"name": "warmup"}}


def part(value: float) -> dict[str, Any]:
    """A stream's summary in which every width is the value."""
    fixed = {"thresholds": [-1.0, 2.0], "edges": [-1.0, 0.0, 1.0]}
    counts = {
        "count": 100,
        "mean": 0.0,
        "zero": 0.5,
        "below": value / 100,
        "above": value / 50,
        "counts": [1, 48, 50, 1],
    }
    return {"std": value, "magnitudes": [value / 9, value / 3, value * 2, value * 3], **fixed, **counts}


def row(cycle: int, moment: str, value: float, step: int) -> dict[str, Any]:
    variance = {"count": 100, "mean": 0.0, "variance": value**2, "layers": {"act1": value**2}}
    parts = {"gradients": part(value), "hidden": part(value / 2), "preactivations": variance}
    settings = {"batches": 100, "weights": "surviving"}
    return {"cycle": cycle, "moment": moment, "step": step, "density": 0.8**cycle, **settings, **parts}


def stored(root: Path, values: dict[int, list[float]], peak: int = 5, label: str = "warmup") -> Store:
    store = Store(root)
    ids = [f"{seed:012x}" for seed in range(len(values[0]))]
    for seed, id in enumerate(ids):
        store.create(id, {**CONFIG, "seed": seed})
        for cycle, widths in values.items():
            for moment, step in (("peak", peak), ("end", 10)):
                if seed < len(widths):
                    found = row(cycle, moment, widths[seed] * (2 if moment == "peak" else 1), step)
                    store.append_beside(id, "distribution", found, ("batches", "weights", "cycle", "moment"))
    manifest = {"doc": "a doc", "published": "", "settings": "", "schedules": [[label, ids]]}
    store.write_manifest("tiny", manifest)
    return store


def distributions(root: Path, values: dict[int, list[float]] = NARROWING, **more: Any) -> Distributions:
    return collect(stored(root, values, **more), "tiny", Settings())


def logs(values: dict[int, list[float]], cycle: int) -> Any:
    return np.log(np.divide(values[cycle], values[0][: len(values[cycle])]))


def verdict(found: list[Finding], claim: int, what: str, moment: str = "end") -> Finding:
    chosen = [one for one in found if (one.moment, one.verdict.claim) == (moment, claim)]
    return next(one for one in chosen if any(what in cell.what for cell in one.verdict.cells) or not what)


def test_changes_are_ratios_to_cycle_0_of_the_same_seed(tmp_path: Path) -> None:
    found = changes(distributions(tmp_path), "warmup", "end", "gradients std")
    assert [one.cycle for one in found] == [1, 2, 3]
    for one in found:
        expected = logs(NARROWING, one.cycle)
        assert one.ratio == pytest.approx(math.exp(expected.mean()))
        assert one.spread == pytest.approx(np.exp(expected).std(ddof=1))
        assert one.value == pytest.approx(np.mean(NARROWING[one.cycle]))
        assert one.density == pytest.approx(0.8**one.cycle)
        assert one.p == pytest.approx(stats.ttest_1samp(expected, 0).pvalue)
        assert (one.n, one.missing) == (4, 0)
    ps = sorted(one.p for one in found)  # Holm by hand: three, two and one times the p-values in order
    assert sorted(one.holm for one in found) == pytest.approx([3 * ps[0], max(3 * ps[0], 2 * ps[1]), ps[2]])


def test_a_variance_falls_with_the_square(tmp_path: Path) -> None:
    found = distributions(tmp_path)
    widths, variances = (changes(found, "warmup", "end", q) for q in ("hidden std", "pre-activation variance"))
    assert [one.ratio for one in variances] == pytest.approx([one.ratio**2 for one in widths])


def test_what_narrows_is_reproduced(tmp_path: Path) -> None:
    found = findings(distributions(tmp_path))
    assert len(found) == 2 * 6
    for what in ("gradients std", "gradients 90 %", "hidden std", "hidden 90 %"):
        one = verdict(found, 1, what)
        assert one.verdict.verdict == "reproduced"
        assert [cell.cycle for cell in one.verdict.cells] == [2, 3]  # the first pruning is claim 2's
        assert one.trend.rho == pytest.approx(stats.spearmanr(range(4), [1, 1.002, 0.8, 0.5]).statistic)
    assert verdict(found, 3, "variance").verdict.verdict == "not reproduced"  # the first pruning did not lower it


def test_what_widens_is_not_reproduced(tmp_path: Path) -> None:
    one = verdict(findings(distributions(tmp_path, WIDENING)), 1, "gradients std")
    assert one.verdict.verdict == "not reproduced"
    assert "first" not in one.verdict.words


def test_narrower_on_average_is_the_direction_only(tmp_path: Path) -> None:
    noisy = {0: [1.0, 1.0, 1.0, 1.0], 1: [1.0, 1.0, 1.0, 1.0], 2: [0.5, 1.4, 0.6, 1.1]}
    assert verdict(findings(distributions(tmp_path, noisy)), 1, "gradients std").verdict.verdict == "direction only"


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ([1.01, 1.09, 0.96, 1.02], "reproduced"),
        ([0.85, 0.99, 0.75, 0.86], "not reproduced"),  # 15 % below
        ([1.35, 0.92, 1.10, 0.84], "direction only"),  # equal on average, and too noisy to say so
    ],
)
def test_the_first_pruning_changes_little(tmp_path: Path, first: list[float], expected: str) -> None:
    values = {**NARROWING, 1: first}
    one = verdict(findings(distributions(tmp_path, values)), 2, "gradients std")
    assert one.verdict.verdict == expected
    apart, margin = logs(values, 1), math.log(1.1)
    sides = (
        stats.ttest_1samp(apart, margin, alternative="less"),
        stats.ttest_1samp(apart, -margin, alternative="greater"),
    )
    assert one.verdict.cells[0].p == pytest.approx(max(side.pvalue for side in sides))


def test_a_peak_at_the_first_step_is_not_tested(tmp_path: Path) -> None:
    found = findings(distributions(tmp_path, peak=1))
    peaks = [one.verdict for one in found if one.moment == "peak"]
    assert [(one.claim, one.verdict) for one in peaks] == [(claim, "not tested") for claim in (1, 2, 3)]
    assert "cycle 0 is untrained" in peaks[0].words
    assert verdict(found, 1, "gradients std").verdict.verdict == "reproduced"


def test_one_seed_proves_nothing(tmp_path: Path) -> None:
    found = findings(distributions(tmp_path, {m: values[:1] for m, values in NARROWING.items()}))
    assert verdict(found, 1, "gradients std").verdict.verdict == "direction only"


def test_a_seed_without_a_pair_is_said_to_be_missing(tmp_path: Path) -> None:
    found = distributions(tmp_path, {**NARROWING, 3: NARROWING[3][:3]})
    assert [(one.n, one.missing) for one in changes(found, "warmup", "end", "hidden std")] == [(4, 0), (4, 0), (3, 1)]


def test_a_width_of_zero_has_no_ratio(tmp_path: Path) -> None:
    found = distributions(tmp_path, {**NARROWING, 3: [0.0, 0.56, 0.49, 0.53]})
    last = changes(found, "warmup", "end", "gradients std")[-1]
    assert (last.n, last.missing) == (3, 1)
    assert last.ratio == pytest.approx(math.exp(logs(NARROWING, 3)[1:].mean()))


def test_nothing_measured_says_how_to_measure(tmp_path: Path) -> None:
    store = stored(tmp_path, NARROWING)
    with pytest.raises(
        ValueError, match=r"nothing measured with batches 7, weights surviving; .*`scyc distribution tiny`"
    ):
        collect(store, "tiny", Settings(batches=7))


def test_the_table_shows_means_ratios_and_tails(tmp_path: Path) -> None:
    text = narrowing_text.text(distributions(tmp_path))
    lines = [line.split() for line in text.splitlines() if line.startswith("3 ")]
    assert text.startswith("tiny: distributions, n = 4 seeds")
    assert [line[:2] for line in lines] == [["3", "51.20"]] * len(lines)
    assert any(line[2:4] == ["0.52", "0.511±0.009"] for line in lines)
    assert any("1.56±0.09" in line for line in lines)  # tails: three hundredths of the width


@pytest.mark.parametrize("name", narrowing_text.FORMATS)
def test_every_format_says_the_verdict_or_the_numbers(tmp_path: Path, name: str) -> None:
    text = narrowing_text.FORMATS[name](distributions(tmp_path))
    assert ("gradients_std" if name == "csv" else "reproduced") in text
    assert "nan" not in text.lower()


def test_csv_and_json_hold_every_row(tmp_path: Path) -> None:
    found = distributions(tmp_path)
    rows = list(csv.DictReader(io.StringIO(narrowing_text.csv_text(found))))
    assert len(rows) == 4 * 4 * 2
    last = next(r for r in rows if (r["seed"], r["cycle"], r["moment"]) == ("2", "3", "end"))
    assert [float(last[name]) for name in ("gradients_std", "gradients_90", "hidden_std")] == [0.49, 0.98, 0.245]
    assert float(last["gradients_tails"]) == pytest.approx(0.49 * 3 / 100)
    document = json.loads(narrowing_text.json_text(found))
    assert len(document["rows"]) == len(rows)
    assert {one["verdict"]["verdict"] for one in document["claims"]} == {"reproduced", "not reproduced"}
