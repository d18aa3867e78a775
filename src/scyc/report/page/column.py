"""The figures of a page for a paper: SVG, PDF and PNG at the width of a column, and the tables as LaTeX."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scyc.report import formats, ridges
from scyc.report import oracle as oracles
from scyc.report.page import accuracy, distributions, networks, peaks, theme
from scyc.report.page.figure import Figure, Look, Spec
from scyc.report.page.holdings import Holdings, holdings
from scyc.store import files
from scyc.store.runs import Store

TWICE = 2 * theme.COLUMN  # drawn at twice the size, where marks have the weight they have on the page
DOTS = 600  # per inch of the printed size
SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)" height="([\d.]+)"')
HEIGHT = 0.62  # over width


def draw(store: Store, name: str, folder: Path) -> list[Path]:
    """Every figure of an experiment in three formats, and its tables; the paths written."""
    held = holdings(store, name)
    look = Look(held.labels, held.challenger)
    files.folder_(folder)
    written = [path for figure in figures(held, look) for path in drawn(held.name, figure, look, folder)]
    for found in held.distributions:
        written += ridges.draw(found, folder)
    path = folder / f"{held.name}.tex"
    tables = formats.latex(held.analysis.results) if held.analysis else ""
    files.write(path, "\n".join(filter(None, [tables, oracles.latex(held.oracle) if held.oracle else ""])).encode())
    return [*written, path]


def figures(held: Holdings, look: Look) -> Iterator[Figure]:
    """Those of the page, but for the histograms, which have a form of their own on paper."""
    found = held.analysis
    if found and any(row.n for rows in found.results.rows.values() for row in rows):
        yield from accuracy.figures(found, look)
        yield from networks.figures(found.results, look)
    yield from peaks.figures(found, held.oracle, look)
    for measured in held.distributions:
        yield from (f for f in distributions.figures(measured, look) if not f.name.startswith("histogram-"))


def drawn(name: str, figure: Figure, look: Look, folder: Path) -> Iterator[Path]:
    import vl_convert

    spec = json.dumps(still(figure, look), allow_nan=False)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{figure.name}")
    svg = vl_convert.vegalite_to_svg(spec)
    made = {
        "svg": halved(svg, "pt").encode(),
        "pdf": vl_convert.svg_to_pdf(halved(svg, "px")),
        "png": vl_convert.vegalite_to_png(spec, scale=0.5, ppi=DOTS),
    }
    for ending, data in made.items():
        files.write(folder / f"{stem}.{ending}", data)
        yield folder / f"{stem}.{ending}"


def halved(svg: str, unit: str) -> str:
    """What was drawn at twice the size takes half the room."""
    return SIZE.sub(lambda m: f'{m[1]} width="{float(m[2]) / 2:g}{unit}" height="{float(m[3]) / 2:g}{unit}"', svg, 1)


def still(figure: Figure, look: Look) -> Spec:
    """A figure's specification with its data, without what only a pointer can use."""
    last = max((row.get("cycle", 0) for data in figure.data.values() for row in data.records()), default=0)
    kept = [{**p, "value": last} if p["name"] == "cycle" else p for p in figure.spec.get("params", ())]
    height = 1.3 * figure.height if figure.name.startswith("layers-") else TWICE * HEIGHT  # as many lines as layers
    return {
        **unmoved({key: value for key, value in figure.spec.items() if key != "params"}),
        "params": [*kept, *theme.inks("light")],
        "datasets": {name: data.records() for name, data in figure.data.items()},
        "width": TWICE,
        "height": round(height),
        "autosize": {"type": "fit", "contains": "padding"},
        "config": theme.printed(figure.own or look),
    }


def unmoved(value: Any) -> Any:
    """Without selections, and without what depends on one."""
    if isinstance(value, Mapping):
        inner = {key: unmoved(item) for key, item in value.items() if key not in ("tooltip", "params")}
        condition = inner.get("condition")
        return {"value": inner["value"]} if isinstance(condition, Mapping) and "param" in condition else inner
    return [unmoved(item) for item in value] if isinstance(value, list) else value
