"""Test accuracy against density, and the schedule under test minus the best of the others."""

import math
from typing import Any

from scyc.report.analysis import Analysis
from scyc.report.page.figure import (
    HIDDEN,
    NEAREST,
    Data,
    Figure,
    Look,
    Spec,
    axis,
    density_axis,
    ink,
    lines,
    sized,
    told,
)
from scyc.report.rows import Row
from scyc.report.table import percent, points, probability

SEEN = (
    ("schedule", "schedule"),
    ("test accuracy", "test accuracy"),
    ("seeds", "n"),
    ("left", "weights left"),
    ("left of all", "of all weights"),
    ("rate", "peak learning rate"),
    ("cycle", "cycle m"),
)


def figures(found: Analysis, look: Look) -> list[Figure]:
    return [curve(found, look), *([gain(found)] if found.comparisons else [])]


def curve(found: Analysis, look: Look) -> Figure:
    rows = [row for column in found.results.rows.values() for row in column if row.n]
    data = Data.of(map(point, rows))
    x = density_axis("density_percent", [row.density for row in rows])
    y = axis("accuracy_percent", "test accuracy (%)", scale={"zero": False})
    return Figure(
        "accuracy",
        "Test accuracy against density",
        {"params": [HIDDEN], "data": {"name": "accuracy"}, **lines(look, x, y, SEEN)},
        {"accuracy": data},
        "Lines: mean over seeds at the early stop. Bands: ± one standard deviation." + lost(found),
        height=400,
    )


def point(row: Row) -> dict[str, Any]:
    """One schedule in one cycle, and its numbers in the words of the tables."""
    mean, spread = 100 * row.mean, 0.0 if math.isnan(row.std) else 100 * row.std
    around = "" if math.isnan(row.std) else f" ± {percent(row.std, 2)}"
    return {
        "schedule": row.schedule,
        "cycle": row.cycle,
        "density_percent": 100 * row.density,
        "density_all_percent": 100 * row.density_all,
        "peak": row.peak,
        "accuracy_percent": mean,
        "std_points": 100 * row.std,
        "low": mean - spread,
        "high": mean + spread,
        "n": row.n,
        "diverged": len(row.diverged),
        "test accuracy": f"{percent(row.mean, 2)}{around} %",
        "seeds": f"{row.n}{f', and {len(row.diverged)} diverged' if row.diverged else ''}",
        "left": f"{percent(row.density, 2)} %",
        "left of all": f"{percent(row.density_all, 2)} %",
        "rate": f"{row.peak:.4g}",
    }


def lost(found: Analysis) -> str:
    """Who diverged where: those lines have fewer seeds, or end."""
    words = []
    for label, rows in found.results.rows.items():
        seen: set[int] = set()
        for row in rows:
            if new := sorted({*row.diverged} - seen):
                words.append(
                    f"{label} seed{'s' if len(new) > 1 else ''} {', '.join(map(str, new))} in cycle {row.cycle}"
                )
                seen |= {*new}
    return f" Diverged: {'; '.join(words)}." if words else ""


def gain(found: Analysis) -> Figure:
    """Differences with their intervals, over the noise floor."""
    label = found.comparisons[0].challenger
    data = Data.of(
        {
            "cycle": c.cycle,
            "density_percent": 100 * c.density,
            "benchmark": c.benchmark,
            "difference_points": 100 * c.difference,
            "low": 100 * c.low,
            "high": 100 * c.high,
            "n": c.n,
            "lost": c.missing,
            "p": c.p,
            "holm_p": c.holm,
            "noise_points": 100 * (noise := found.noise.spread(c.cycle) if found.noise else math.nan),
            "noise_low": -100 * noise,
            "proven": c.holm < 0.05,
            "difference": f"{points(c.difference)} points",
            "interval": "-" if math.isnan(c.low) else f"{points(c.low)} to {points(c.high)}",
            "seeds": f"{c.n}{f' ({c.missing} lost)' if c.missing else ''}",
            "tested": probability(c.holm),
            "left": f"{percent(c.density, 2)} %",
        }
        for c in found.comparisons
    )
    return Figure(
        "difference",
        f"{label} minus the best benchmark",
        gain_spec(found, label),
        {"difference": data},
        "Points: mean difference paired by seed, against the benchmark that is best on validation. Whiskers: 95 % "
        "interval. Filled: Holm p < 0.05. Grey: the noise floor, what a schedule differs from itself between two "
        "halves of the seeds.",
        height=260,
    )


def gain_spec(found: Analysis, label: str) -> Spec:
    x = density_axis("density_percent", [c.density for c in found.comparisons])
    y = axis("difference_points", "difference of accuracy (points)")
    filled = {"condition": {"test": "datum.proven", "value": 1}, "value": 0}
    seen = [
        *(("left", "weights left"), ("benchmark", "best benchmark"), ("difference", f"{label} minus it")),
        *(("interval", "95 % interval"), ("seeds", "pairs"), ("tested", "Holm p"), ("cycle", "cycle m")),
    ]
    area = {"type": "area", "fill": ink("soft"), "opacity": 0.15, "aria": False}
    noise = [{"mark": area, "encoding": {"x": x, "y": {**y, "field": "noise_low"}, "y2": {"field": "noise_points"}}}]
    rule = {"type": "rule", "strokeWidth": 1.6, "stroke": ink("accent"), "aria": False}
    ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    whiskers = [{"transform": [{"filter": "isValid(datum.low)"}], "mark": rule, "encoding": ends}]
    floors = [c for c in found.comparisons if found.noise and not math.isnan(found.noise.spread(c.cycle))]
    dot = {"type": "point", "filled": True, "strokeWidth": 1.6, "opacity": 1}
    return {
        "data": {"name": "difference"},
        "layer": [
            *(noise if floors else ()),
            {
                "mark": {"type": "rule", "stroke": ink("soft"), "strokeDash": [3, 3], "aria": False},
                "encoding": {"y": {"datum": 0}},
            },
            *(whiskers if any(not math.isnan(c.low) for c in found.comparisons) else ()),
            {"mark": {**dot, "fill": ink("paper"), "size": 55, "aria": False}, "encoding": {"x": x, "y": y}},
            {
                "mark": {**dot, "fill": ink("accent"), "stroke": ink("accent")},
                "params": [NEAREST],
                "encoding": {"x": x, "y": y, "fillOpacity": filled, "size": sized(55, 130), "tooltip": told(seen)},
            },
        ],
    }
