"""The peak of every schedule in every cycle over what an oracle found, and the learning rate inside a cycle."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scyc.config import Part, part, scaled
from scyc.report.analysis import Analysis
from scyc.report.inside import thinned
from scyc.report.oracle import Oracle, region, spread
from scyc.report.page.figure import (
    HIDDEN,
    NEAREST,
    PLAIN,
    VISIBLE,
    Data,
    Figure,
    Look,
    Spec,
    axis,
    ink,
    lines,
    short,
    sized,
    told,
)
from scyc.report.rows import Results, steps_of
from scyc.report.table import percent
from scyc.run import SHAPE

CYCLE: Spec = {"name": "cycle", "value": 0}
RATE = "learning rate"


def figures(found: Analysis | None, oracle: Oracle | None, look: Look) -> list[Figure]:
    made = [course(found, oracle, look)]
    return [*made, *([inside(found.results, look)] if found else [])]


def course(found: Analysis | None, oracle: Oracle | None, look: Look) -> Figure:
    """Peaks over the cycles."""
    drawn = {"peaks": Data.of(peaks(found, oracle))}
    if oracle and oracle.found:
        drawn["oracle"] = Data.of(best(oracle))
    x, y = axes([row for data in drawn.values() for row in data.records()])
    seen = (("schedule", "schedule"), ("rate", "peak"), ("left", "weights left"), ("cycle", "cycle m"))
    own = lines(look, x, y, seen, band=False)
    searched = "oracle" in drawn
    words = "Grey bars: the feasible region, all peaks within 0.5 points of the best. Black: the best peak. "
    return Figure(
        "peaks",
        "The peak of every cycle",
        {"params": [HIDDEN], "layer": [*(under(x, y) if searched else ()), {"data": {"name": "peaks"}, **own}]},
        drawn,
        f"{words if searched else ''}Lines: the peaks that the schedules use.",
        height=340,
    )


def axes(rows: Sequence[Mapping[str, Any]]) -> tuple[Spec, Spec]:
    """Learning rates over more than a factor of ten are seen on a logarithmic scale."""
    last = max((row["cycle"] for row in rows), default=0)
    rates = [row[name] for row in rows for name in ("peak", "low", "high") if name in row] or [1.0]
    wide = max(rates) > 10 * min(rates) > 0
    ticks = {"format": "d", "values": list(range(0, last + 1, 1 + last // 20)), "grid": False}
    x = axis("cycle", "cycle m (completed prunings)", axis=ticks, scale={"domain": [-0.5, last + 0.5], "nice": False})
    scale = {"type": "log"} if wide else {"zero": False}
    words = f"{RATE}, peak of the cycle{' (log scale)' if wide else ''}"
    return x, axis("peak", words, scale=scale, axis={**PLAIN})


def under(x: Spec, y: Spec) -> list[Spec]:
    """The oracle's regions, and on them its best."""
    seen = [("best", "best peak"), ("feasible", "feasible"), ("accuracy", "validation accuracy"), ("cycle", "cycle m")]
    tooltip = [{"field": name, "title": title} for name, title in seen]
    bar = {
        "type": "rule",
        "strokeWidth": {"expr": "min(13, width / 34)"},
        "strokeCap": "round",
        "stroke": ink("soft"),
        "opacity": 0.28,
    }
    tick = {
        "type": "tick",
        "orient": "horizontal",
        "size": {"expr": "min(19, width / 24)"},
        "thickness": 3,
        "color": ink("ink"),
    }
    return [
        {
            "data": {"name": "oracle"},
            "mark": bar,
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "tooltip": tooltip},
        },
        {"data": {"name": "oracle"}, "mark": tick, "encoding": {"x": x, "y": y, "tooltip": tooltip}},
    ]


def peaks(found: Analysis | None, oracle: Oracle | None) -> Iterator[dict[str, Any]]:
    """As recorded where it trained; else those that the oracle was to be compared with."""
    if found:
        for rows in found.results.rows.values():
            for row in rows:
                words = {"rate": f"{row.peak:.4g}", "left": f"{percent(row.density, 2)} %"}
                yield {"schedule": row.schedule, "cycle": row.cycle, "peak": row.peak, **words}
    elif oracle:
        for label in oracle.compare:
            for record in oracle.records:
                peak = oracle.peak(label, record["cycle"])
                words = {"rate": f"{peak:.4g}", "left": f"{percent(record['density'], 2)} %"}
                yield {"schedule": label, "cycle": record["cycle"], "peak": peak, **words}


def best(oracle: Oracle) -> Iterator[dict[str, Any]]:
    for record in oracle.found:
        low, high = record["region"]
        words = {"best": f"{record['peak']:g}{', at the edge of the grid' if record['edge'] else ''}"}
        words |= {"feasible": region(record), "accuracy": f"{spread(record, 'validation_accuracy')} %"}
        yield {"cycle": record["cycle"], "peak": record["peak"], "low": low, "high": high, **words}


def inside(results: Results, look: Look) -> Figure:
    """Peak x shape, drawn exactly: only the steps where the line turns are stored."""
    x = axis(
        "step",
        "step of the cycle",
        axis={"grid": False, "format": "~s"},
        scale={"nice": False, "domain": [0, results.steps]},
    )
    y = axis("rate", RATE)
    tooltip = told([("schedule", "schedule"), ("rate", RATE), ("step", "step"), ("cycle", "cycle m")])
    encoding = {"x": x, "y": y, "color": look.colour}
    line = {"strokeDash": look.dash, "strokeWidth": look.weight}
    return Figure(
        "rate",
        "The learning rate inside a cycle",
        {
            "params": [HIDDEN, CYCLE],
            "data": {"name": "rate"},
            "transform": [VISIBLE, {"filter": "datum.cycle === cycle"}],
            "layer": [
                {"mark": {"type": "line", "aria": False}, "encoding": {**encoding, **line}},
                {
                    "mark": {"type": "point", "filled": True},
                    "params": [NEAREST],
                    "encoding": {**encoding, "shape": look.shape, "size": sized(14, 90), "tooltip": tooltip},
                },
            ],
        },
        {"rate": Data.of(rates(results))},
        "Peak of the chosen cycle times the schedule's shape. Points: where the line turns.",
        height=240,
    )


def rates(results: Results) -> Iterator[dict[str, Any]]:
    for label, rows in results.rows.items():
        if label in results.configs:
            config = results.configs[label]
            corners = [corners_of(config, cycle) for cycle in (0, 1)]  # all later cycles are alike
            for row in rows:
                for step, factor in corners[min(row.cycle, 1)]:
                    yield {"schedule": label, "cycle": row.cycle, "step": step, "rate": short(row.peak * factor)}


def corners_of(config: Mapping[str, Any], cycle: int) -> list[tuple[int, float]]:
    """Where the line of one cycle turns: `Run.shape_of`, of a configuration as it is stored."""
    own, steps = config.get("retrain_shape") if cycle else None, steps_of(config, cycle)
    shape = scaled(part(SHAPE, own or config["shape"]), config.get("scale", 1.0))
    return turns(shape, steps, 0 if own else steps_of(config, 0) - steps)


def turns(shape: Part, steps: int, first: int = 0) -> list[tuple[int, float]]:
    """The first step, the last, and every one where the slope changes; thinned where that is nearly everywhere."""
    factor = shape.make()
    values = [float(factor(first + step)) for step in range(steps)]
    bent = [
        k
        for k in range(1, steps - 1)
        if not math.isclose(values[k + 1] - values[k], values[k] - values[k - 1], abs_tol=1e-9)
    ]
    return [(k, values[k]) for k in thinned(sorted({0, *bent, steps - 1}))]
