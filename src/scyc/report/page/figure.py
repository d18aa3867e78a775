"""A figure: its data as rows, its Vega-Lite specification without them, and its words."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scyc.report.page import palette

Spec = dict[str, Any]
HIDDEN: Spec = {"name": "hidden", "value": []}  # schedules that the legend has switched off
VISIBLE: Spec = {"filter": "indexof(hidden, datum.schedule) < 0"}
NEAREST: Spec = {
    "name": "nearest",
    "select": {"type": "point", "on": "pointerover", "clear": "pointerout", "nearest": True},
}


def ink(name: str) -> Spec:
    """A colour of the theme."""
    return {"expr": name}


@dataclass(frozen=True)
class Data:
    """Rows under named columns; what stands behind a figure, and in its download."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Data":
        """A number that is not known is empty."""
        found = [{name: plain(value) for name, value in row.items()} for row in rows]
        fields = tuple(found[0]) if found else ()
        return cls(fields, tuple(tuple(row[name] for name in fields) for row in found))

    def columns(self) -> dict[str, Any]:
        """By name; one value alone where all are equal, and words as places in a list of them."""
        return {name: packed([row[k] for row in self.rows]) for k, name in enumerate(self.fields)}

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.fields, row, strict=True)) for row in self.rows]


def plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def packed(column: list[Any]) -> Any:
    if len(column) > 1 and all(value == column[0] and type(value) is type(column[0]) for value in column):
        return {"all": column[0], "count": len(column)}
    words = list(dict.fromkeys(value for value in column if isinstance(value, str)))
    if len(words) * 3 < len(column) and all(isinstance(value, str) for value in column):
        places = {word: k for k, word in enumerate(words)}
        return {"words": words, "at": [places[value] for value in column]}
    return column


def short(value: float, digits: int = 6) -> float:
    """Of long curves, so many digits are stored on the page."""
    return float(f"{value:.{digits}g}")


@dataclass(frozen=True)
class Figure:
    """One picture; `data` are the names its specification uses, and its first one is the download."""

    name: str  # of its files
    title: str
    spec: Spec
    data: Mapping[str, Data]
    words: str = ""  # below it
    height: int = 300
    options: Mapping[str, str] = field(default_factory=dict)  # where it is one of several to choose from
    own: "Look | None" = None  # its colours, where they stand for something else than the page's schedules


@dataclass(frozen=True)
class Look:
    """The schedules of a page, and which of them is under test."""

    labels: tuple[str, ...]
    accent: str | None

    @property
    def colour(self) -> Spec:
        return {"field": "schedule", "type": "nominal", "scale": {"domain": [*self.labels], "range": "category"}}

    @property
    def dash(self) -> Spec:
        scale = {"domain": [*self.labels], "range": palette.dashes(self.labels, self.accent)}
        return {"field": "schedule", "type": "nominal", "scale": scale}

    @property
    def shape(self) -> Spec:
        scale = {"domain": [*self.labels], "range": palette.shapes(self.labels, self.accent)}
        return {"field": "schedule", "type": "nominal", "scale": scale}

    @property
    def veil(self) -> Spec:
        """Bands are faint, and that of the schedule under test less so."""
        return {"condition": {"test": f"datum.schedule === {quoted(self.accent or '')}", "value": 0.2}, "value": 0.09}

    @property
    def weight(self) -> Spec:
        """The line under test is the thicker one."""
        return {"condition": {"test": f"datum.schedule === {quoted(self.accent or '')}", "value": 2.6}, "value": 1.6}


def quoted(text: str) -> str:
    """As a string in a Vega expression."""
    return json.dumps(text)


def axis(field: str, title: str, *, kind: str = "quantitative", **more: Any) -> Spec:
    """A position with its words and unit."""
    return {"field": field, "type": kind, "title": title, **more}


TICKS = (100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


PLAIN: Spec = {"labelExpr": "format(datum.value, '.4~g')"}  # as many digits as it needs, whatever the other ticks


def density_axis(field: str, densities: Sequence[float]) -> Spec:
    """Logarithmic, dense on the left: every pruning is a step of the same width."""
    known = [value for value in densities if math.isfinite(value)] or [1.0]
    low, high = 100 * min(known), 100 * max(known)
    if low == high:
        low, high = low / 1.25, high * 1.25
    scale = {"type": "log", "reverse": True, "domain": [low / 1.04, high * 1.04], "nice": False}
    shown = [tick for tick in TICKS if low / 1.04 <= tick <= high * 1.04]
    ticks = {"values": shown, "grid": False, **PLAIN}
    return axis(field, "weights left (% of the prunable ones, log scale)", scale=scale, axis=ticks)


def sized(small: int, large: int) -> Spec:
    """The point that the pointer is nearest to is larger."""
    return {"condition": {"param": "nearest", "empty": False, "value": large}, "value": small}


def told(seen: Sequence[tuple[str, str]]) -> Spec:
    """The words of the point that the pointer is nearest to: (column, title) pairs.

    An expression, because the cell around a point has it as its datum's datum, which Vega-Lite 6.4 forgets.
    """
    words = ", ".join(f"{quoted(title)}: (datum.datum || datum)[{quoted(name)}]" for name, title in seen)
    return {"value": {"expr": f"{{{words}}}"}}


def lines(look: Look, x: Spec, y: Spec, tooltip: Sequence[tuple[str, str]], *, band: bool = True) -> Spec:
    """A line per schedule with its band and points; hovering says what the nearest point is."""
    bare = {**y, "title": y["title"]}
    colour = look.colour
    area = {
        "mark": {"type": "area", "aria": False},
        "encoding": {
            "x": x,
            "y": {**bare, "field": "low"},
            "y2": {"field": "high"},
            "color": colour,
            "opacity": look.veil,
        },
    }
    line = {
        "mark": {"type": "line", "aria": False},
        "encoding": {"x": x, "y": bare, "color": colour, "strokeDash": look.dash, "strokeWidth": look.weight},
    }
    point = {
        "mark": {"type": "point", "filled": True, "opacity": 1},
        "params": [NEAREST],
        "encoding": {
            "x": x,
            "y": bare,
            "color": colour,
            "shape": look.shape,
            "size": sized(34, 110),
            "tooltip": told(tooltip),
        },
    }
    return {"transform": [VISIBLE], "layer": [*([area] if band else []), line, point]}
