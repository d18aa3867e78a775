"""Histograms of gradients and hidden representations, cycle below cycle, and the mass in their tails."""

from collections.abc import Iterator
from typing import Any

from scyc.distribution import MOMENTS
from scyc.report import ridges
from scyc.report.distribution import Distributions, tails
from scyc.report.inside import spread
from scyc.report.narrowing_text import PLACES
from scyc.report.page.figure import HIDDEN, PLAIN, Data, Figure, Look, Spec, axis, density_axis, ink, lines, short
from scyc.report.table import percent

KINDS = {"gradients": "gradients", "hidden": "hidden representations"}
TITLES = {"gradients": "gradient (loss per unit of weight)", "hidden": "activation (output of a hidden unit)"}


def figures(found: Distributions, look: Look) -> list[Figure]:
    shares = [mass(found, look, kind, moment) for moment in MOMENTS[::-1] for kind in KINDS]
    return [*shares, *histograms(found, look)]


def mass(found: Distributions, look: Look, kind: str, moment: str) -> Figure:
    """How much lies beyond cycle 0's quantiles, against density."""
    rows = list(shares(found, kind, moment))
    x = density_axis("density_percent", [row["density_percent"] / 100 for row in rows])
    y = axis("tails_percent", "share in the tails (%)")
    seen = (
        ("schedule", "schedule"),
        ("tails", "in the tails"),
        ("n", "n"),
        ("left", "weights left"),
        ("cycle", "cycle m"),
    )
    name = f"tails-{kind}-{moment}"
    return Figure(
        name,
        f"Tails: {KINDS[kind]}",
        {"params": [HIDDEN], "data": {"name": name}, **lines(look, x, y, seen)},
        {name: Data.of(rows)},
        f"{PLACES[moment].capitalize()} of every cycle: share beyond cycle 0's 3 % and 97 % quantiles, mean over "
        "seeds, band ± one standard deviation.",
        height=240,
        options={"moment": PLACES[moment]},
    )


def shares(found: Distributions, kind: str, moment: str) -> Iterator[dict[str, Any]]:
    for label in found.rows:
        for cycle, seeds in found.at(label, moment).items():
            share, density = spread(tails(row, kind) for row in seeds.values()), ridges.density(seeds)
            around = 0.0 if share.n < 2 else share.std
            yield {
                "schedule": label,
                "cycle": cycle,
                "density_percent": 100 * density,
                "tails_percent": 100 * share.mean,
                "std_points": 100 * share.std,
                "low": 100 * (share.mean - around),
                "high": 100 * (share.mean + around),
                "n": share.n,
                "tails": f"{percent(share.mean, 2)}{f' ± {percent(share.std, 2)}' if share.n > 1 else ''} %",
                "left": f"{percent(density, 2)} %",
            }


def histograms(found: Distributions, look: Look) -> list[Figure]:
    """The schedule under test first: that one is shown."""
    labels = sorted(found.rows, key=lambda label: label != look.accent)
    return [
        histogram(found, label, moment, kind)
        for label in labels
        for moment in MOMENTS[::-1]
        if found.at(label, moment)
        for kind in KINDS
    ]


def histogram(found: Distributions, label: str, moment: str, kind: str) -> Figure:
    cycles = found.at(label, moment)
    spec = ridges.panel(cycles, kind)
    boxes, ends, words = spec["layer"]
    name = f"histogram-{label}-{moment}-{kind}"
    stored = Data.of(
        {k: short(v, 5) if isinstance(v, float) else v for k, v in box.items()} for box in boxes["data"]["values"]
    )
    boxes["encoding"]["x"] |= {"title": TITLES[kind], "axis": {"tickCount": 4, **PLAIN}}
    boxes["encoding"]["y"]["axis"] |= {"labelOverlap": False, "tickCount": len(cycles), "labelFontSize": 11}
    right: Spec = {"mark": {**words["mark"], "dx": 6, "color": ink("soft")}}
    right |= {"encoding": {**words["encoding"], "x": {"value": "width"}}}
    n = max(len(seeds) for seeds in cycles.values())
    return Figure(
        name,
        f"{KINDS[kind].capitalize()}, {label}",
        {"layer": [{**boxes, "data": {"name": name}}, ends, {**words, **right}]},
        {name: stored},
        f"{PLACES[moment].capitalize()} of every cycle, mean over {n} seed{'s' if n > 1 else ''}. Height: share of the "
        f"values in a bin, logarithmic from {ridges.LOWEST:.3%} to 100 %. Orange: beyond cycle 0's 3 % and 97 % "
        "quantiles (dashed), with their share.",
        height=28 * (max(cycles) + 1) + 60,
        options={"schedule": label, "moment": PLACES[moment]},
    )
