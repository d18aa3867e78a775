"""Inside the networks: density per layer and cycle, early stops, and the curves of training and validation."""

from collections.abc import Iterator
from typing import Any

from scyc.report.inside import SHARE, curve, early_stop, layers
from scyc.report.page.figure import HIDDEN, Data, Figure, Look, Spec, axis, density_axis, lines, short
from scyc.report.page.peaks import CYCLE
from scyc.report.rows import Results, Row
from scyc.report.table import percent

CURVES = {
    "validation_accuracy": ("Validation accuracy", "validation accuracy (%)", 100),
    "validation_loss": ("Validation loss", "validation loss (nats)", 1),
    "train_loss": ("Training loss", "training loss (nats)", 1),
}


def figures(results: Results, look: Look) -> list[Figure]:
    labels = sorted((label for label in results.rows if results.rows[label]), key=lambda label: label != look.accent)
    maps = [heat(results, label) for label in labels]
    return [*maps, stops(results, look), *(course(results, look, name) for name in CURVES)]


def alive(results: Results) -> list[Row]:
    return [row for rows in results.rows.values() for row in rows if row.n]


def heat(results: Results, label: str) -> Figure:
    """One cell per layer and cycle."""
    rows = list(cells(results, label))
    names = list(dict.fromkeys(row["layer"] for row in rows))
    low = min((row["density_percent"] for row in rows if row["density_percent"] > 0), default=1.0)
    name = f"layers-{label}"
    return Figure(
        name,
        f"Density of every layer, {label}",
        heat_spec(name, names, min(low, 50.0)),
        {name: Data.of(rows)},
        f"Mean over seeds. Crossed: near collapse, with less than {SHARE:.0%} of the network's density. Circled: the "
        "guard that keeps a layer's last weight acted in some seed.",
        height=22 * len(names) + 120,
        options={"schedule": label},
    )


def heat_spec(name: str, names: list[str], low: float) -> Spec:
    x = axis("cycle", "cycle m (completed prunings)", kind="ordinal", axis={"labelAngle": 0, "grid": False})
    y = axis("layer", "layer", kind="nominal", sort=names, axis={"grid": False, "labelLimit": 130, "domain": False})
    scale = {"type": "log", "domain": [low, 100], "range": ["#0b3c5d", "#2a789c", "#7fb7cf", "#e4eff4"]}
    legend = {
        "title": "weights left (%)",
        "orient": "top",
        "gradientLength": 160,
        "gradientThickness": 8,
        "format": "~g",
    }
    colour = axis("density_percent", "weights left (%)", scale=scale, legend=legend)
    seen = [("layer", "layer"), ("left", "weights left"), ("of network", "of the whole network"), ("n", "n")]
    tooltip = [{"field": field, "title": title} for field, title in [*seen, ("cycle", "cycle m")]]
    near = {
        "type": "point",
        "shape": "cross",
        "angle": 45,
        "filled": True,
        "size": 46,
        "color": "#ffb000",
        "aria": False,
    }
    guarded = {"type": "point", "shape": "circle", "filled": False, "size": 110, "color": "#ffb000", "aria": False}
    return {
        "data": {"name": name},
        "layer": [
            {"mark": {"type": "rect"}, "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip}},
            {"transform": [{"filter": "datum.near_collapse"}], "mark": near, "encoding": {"x": x, "y": y}},
            {"transform": [{"filter": "datum.guarded"}], "mark": guarded, "encoding": {"x": x, "y": y}},
        ],
    }


def cells(results: Results, label: str) -> Iterator[dict[str, Any]]:
    for row in results.rows[label]:
        for layer in layers(row):
            share = layer.density
            around = f" ± {percent(share.std, 2)}" if share.n > 1 else ""
            yield {
                "layer": layer.name,
                "cycle": row.cycle,
                "density_percent": short(100 * share.mean),
                "std_points": short(100 * share.std),
                "n": share.n,
                "near_collapse": layer.near_collapse,
                "guarded": layer.guarded,
                "left": f"{percent(share.mean, 2)}{around} %",
                "of network": f"{percent(row.density, 2)} %",
            }


def stops(results: Results, look: Look) -> Figure:
    rows = alive(results)
    x = density_axis("density_percent", [row.density for row in rows])
    later = f", after m = 0 of {results.retrained:,}" if results.retrained < results.steps else ""
    y = axis("early_stop_step", f"early stop (step of {results.steps:,}{later})", scale={"domainMin": 0})
    seen = (
        ("schedule", "schedule"),
        ("stop", "early stop"),
        ("n", "n"),
        ("left", "weights left"),
        ("cycle", "cycle m"),
    )
    return Figure(
        "stops",
        "When validation loss was lowest",
        {"params": [HIDDEN], "data": {"name": "stops"}, **lines(look, x, y, seen, band=False)},
        {"stops": Data.of(map(stop, rows))},
        "The step of the early stop: mean over seeds; the spread is in the words of every point.",
        height=240,
    )


def stop(row: Row) -> dict[str, Any]:
    found = early_stop(row)
    around = found.std if found.n > 1 else 0.0
    return {
        "schedule": row.schedule,
        "cycle": row.cycle,
        "density_percent": 100 * row.density,
        "early_stop_step": found.mean,
        "std_steps": found.std,
        "low": found.mean - around,
        "high": found.mean + around,
        "n": found.n,
        "stop": f"step {found.mean:,.0f}{f' ± {found.std:,.0f}' if found.n > 1 else ''}",
        "left": f"{percent(row.density, 2)} %",
    }


def course(results: Results, look: Look, name: str) -> Figure:
    """One of the recorded curves, in the chosen cycle."""
    title, words, factor = CURVES[name]
    x = axis(
        "step",
        "step of the cycle",
        axis={"grid": False, "format": "~s"},
        scale={"nice": False, "domain": [0, results.steps]},
    )
    y = axis("value", words, scale={"zero": False})
    seen = (("schedule", "schedule"), ("value", words), ("step", "step"), ("n", "n"))
    spec = lines(look, x, y, seen)
    band = [{"calculate": f"datum.value {sign} datum.std", "as": end} for sign, end in (("-", "low"), ("+", "high"))]
    spec["transform"] = [*spec["transform"], {"filter": "datum.cycle === cycle"}, *band]
    return Figure(
        f"curve-{name.replace('_', '-')}",
        title,
        {"params": [HIDDEN, CYCLE], "data": {"name": name}, **spec},
        {name: Data.of(points(results, name, factor))},
        "Mean over seeds, band ± one standard deviation.",
        height=220,
    )


def points(results: Results, name: str, factor: float) -> Iterator[dict[str, Any]]:
    for row in alive(results):
        for step, found in curve(row, name):
            around = factor * found.std if found.n > 1 else 0.0
            numbers = {"value": short(factor * found.mean, 5), "std": short(around, 4)}
            yield {"schedule": row.schedule, "cycle": row.cycle, "step": step, **numbers, "n": found.n}
