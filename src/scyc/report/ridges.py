"""Figures of distributions on paper: a histogram per cycle, one below the other, with its tails."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from scyc.distribution import MOMENTS
from scyc.report.distribution import Distributions, Record, tails
from scyc.report.narrowing_text import PLACES
from scyc.report.rows import mean, std
from scyc.store import files
from scyc.store.names import named

KINDS = {
    "gradients": "gradient of a weight (loss per unit of weight)",
    "hidden": "hidden representation (output of an activation)",
}
LOWEST = 1e-5  # the share of values in a bin from which on it has a height
REACH = 0.95  # of a row: the height of a bin with all values
ROW, WIDE = 44, 340  # pixels
BODY, TAIL = "#56B4E9", "#D55E00"  # of Okabe and Ito (2008): apart for every kind of colour vision
AXIS = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#d9d9d9"}
TITLE = {"fontSize": 14, "fontWeight": "normal", "subtitleFontSize": 12, "subtitlePadding": 6}

Spec = dict[str, Any]
Cycles = Mapping[int, Mapping[int, Record]]  # by cycle and seed
Bins = tuple[list[float], list[float], float, float]  # edges, shares between them, lower and upper threshold


def draw(found: Distributions, folder: Path) -> list[Path]:
    """A figure for every schedule and moment, each as SVG, PNG and PDF; the paths written."""
    import vl_convert

    written = []
    for label in found.rows:
        for moment in MOMENTS:
            if found.at(label, moment):
                text = json.dumps(spec(found, label, moment), allow_nan=False)
                name = named("figure", f"{found.name}-{label}-{moment}")
                made = {
                    "svg": vl_convert.vegalite_to_svg(text).encode(),
                    "png": vl_convert.vegalite_to_png(text, scale=2.0),
                    "pdf": vl_convert.vegalite_to_pdf(text),
                }
                files.folder_(folder)
                for ending, data in made.items():
                    files.write(folder / f"{name}.{ending}", data)
                    written.append(folder / f"{name}.{ending}")
    return written


def spec(found: Distributions, label: str, moment: str) -> Spec:
    """Gradients beside hidden representations."""
    cycles = found.at(label, moment)
    n = max(len(seeds) for seeds in cycles.values())
    subtitle = [
        f"{label}, {PLACES[moment]} of every cycle; mean over {n} seeds, whose bins are those of their cycle 0.",
        f"Height: share of the values in a bin, logarithmic from {LOWEST:.3%} to 100 %.",
        "Orange: the tails beyond cycle 0's 3 % and 97 % quantiles (dashed), and their share ± standard deviation.",
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": found.doc or found.name, "subtitle": subtitle, "anchor": "start", "offset": 14},
        "hconcat": [panel(cycles, kind) for kind in KINDS],
        "spacing": 30,
        "config": {"background": "white", "padding": 12, "axis": AXIS, "title": TITLE, "view": {"stroke": None}},
    }


def panel(cycles: Cycles, kind: str) -> Spec:
    """One line per cycle, downwards; its name on the left, the share of its tails on the right."""
    bins = [row for cycle in cycles for row in outline(cycle, averaged(cycles[cycle], kind))]
    names = {cycle: f"{cycle}  ({100 * density(seeds):.3g} %)" for cycle, seeds in cycles.items()}
    chosen = " ".join(f"datum.value == {cycle} ? '{name}' :" for cycle, name in names.items())
    axis = {"values": list(cycles), "labelExpr": f"{chosen} ''", "domain": False, "ticks": False, "grid": True}
    scale = {"domain": [max(cycles) + 0.1, min(cycles) - 1], "nice": False, "zero": False}
    title = "cycle m (weights left)"
    y = {"field": "cycle", "type": "quantitative", "scale": scale, "axis": axis, "title": title}
    x = {"field": "start", "type": "quantitative", "title": KINDS[kind], "scale": {"nice": False, "zero": False}}
    box = {"x": x, "x2": {"field": "end"}, "y": {**y, "field": "top"}, "y2": {"field": "cycle"}}
    fill = {"field": "tail", "scale": {"domain": [False, True], "range": [BODY, TAIL]}, "legend": None}
    dashed = {"type": "rule", "strokeDash": [4, 3], "color": TAIL, "strokeWidth": 1}
    ends = [{"start": mean([row[kind]["thresholds"][k] for row in cycles[0].values()])} for k in (0, 1)]
    return {
        "width": WIDE,
        "height": ROW * (max(cycles) + 1),
        "layer": [
            {"data": {"values": bins}, "mark": {"type": "rect"}, "encoding": {**box, "color": fill}},
            {"data": {"values": ends}, "mark": dashed, "encoding": {"x": x}},
            said(cycles, kind, y),
        ],
    }


def density(seeds: Mapping[int, Record]) -> float:
    return mean([row["density"] for row in seeds.values()])


def averaged(seeds: Mapping[int, Record], kind: str) -> Bins:
    """Start, end and share of every bin: the mean over the seeds with as many bins as the first."""
    rows = [row[kind] for row in seeds.values()]
    same = [row for row in rows if len(row["edges"]) == len(rows[0]["edges"])]
    edges = [mean(column) for column in zip(*(row["edges"] for row in same), strict=True)]
    shares = [
        mean(c) / mean([row["count"] for row in same]) for c in zip(*(row["counts"] for row in same), strict=True)
    ]
    low, high = (mean([row["thresholds"][k] for row in same]) for k in (0, 1))
    return edges, shares[1:-1], low, high


def outline(cycle: int, bins: Bins) -> Iterator[dict[str, Any]]:
    """A box per bin, upwards on an axis that points down; the bin that holds a threshold is cut there."""
    edges, shares, low, high = bins
    for start, end, share in zip(edges, edges[1:], shares, strict=False):
        top = cycle - REACH * (1 - math.log10(max(share, LOWEST)) / math.log10(LOWEST))
        cuts = [start, *(cut for cut in (low, high) if start < cut < end), end]
        for left, right in pairwise(cuts):
            tail = right <= low or left >= high
            yield {"cycle": cycle, "start": left, "end": right, "top": top, "tail": tail}


def said(cycles: Cycles, kind: str, y: Spec) -> Spec:
    """The tails' share, right of every line."""
    words = []
    for cycle, seeds in cycles.items():
        shares = [tails(row, kind) for row in seeds.values()]
        around = f" ± {100 * std(shares):.2f}" if len(shares) > 1 else ""
        words.append({"cycle": cycle - 0.1, "text": f"{100 * mean(shares):.2f}{around} %"})
    encoding = {"x": {"value": WIDE + 6}, "y": y, "text": {"field": "text"}}
    mark = {"type": "text", "align": "left", "baseline": "bottom", "fontSize": 11, "color": TAIL}
    return {"data": {"values": words}, "mark": mark, "encoding": encoding}
