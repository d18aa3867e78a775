"""How a schedule is told from the others: a colour for every kind of colour vision, a dash, a shape."""

from collections.abc import Sequence
from typing import Any

ACCENT = {"light": "#c2410c", "dark": "#fb8b4b"}  # the schedule under test, and what belongs to it
# the hues of Okabe and Ito (2008) without the accent's, darkened or lightened to 3:1 against the page
CALM = {
    "light": ("#0072b2", "#00805d", "#a8518a", "#a87400", "#2b89bd", "#5b5b5b", "#7a6a00"),
    "dark": ("#4aa8e0", "#2cbf96", "#dd93bd", "#e6a21a", "#8accf0", "#b8b8b8", "#d8cb4a"),
}
DASHES = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 2], [10, 3, 2, 3, 2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def colours(labels: Sequence[str], accent: str | None, theme: str) -> list[str]:
    """One per schedule, in their order; the accent for one of them."""
    others = [label for label in labels if label != accent]
    calm = {label: CALM[theme][k % len(CALM[theme])] for k, label in enumerate(others)}
    return [ACCENT[theme] if label == accent else calm[label] for label in labels]


def dashes(labels: Sequence[str], accent: str | None) -> list[list[int]]:
    """The schedule under test is drawn through, and the others each in a way of their own while there are such ways."""
    others = [label for label in labels if label != accent]
    rest = DASHES[1:] if accent in labels else DASHES
    by_label = {label: rest[k % len(rest)] for k, label in enumerate(others)}
    return [DASHES[0] if label == accent else by_label[label] for label in labels]


def shapes(labels: Sequence[str], accent: str | None) -> list[str]:
    others = [label for label in labels if label != accent]
    rest = SHAPES[1:] if accent in labels else SHAPES
    by_label = {label: rest[k % len(rest)] for k, label in enumerate(others)}
    return [SHAPES[0] if label == accent else by_label[label] for label in labels]


def styles(labels: Sequence[str], accent: str | None) -> dict[str, Any]:
    """What the page's script needs of them."""
    drawn = zip(dashes(labels, accent), shapes(labels, accent), strict=True)
    light, dark = (colours(labels, accent, theme) for theme in ("light", "dark"))
    return {
        label: {"light": a, "dark": b, "dash": dash, "shape": shape}
        for label, a, b, (dash, shape) in zip(labels, light, dark, drawn, strict=True)
    }
