"""What all figures look like: on the page in the light and in the dark, and in a column of a paper."""

from typing import Any

from scyc.report.page import palette
from scyc.report.page.figure import Look

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INKS = {
    "light": {
        "ink": "#1b1d1f",
        "soft": "#595f66",
        "rule": "#e3e5e8",
        "paper": "#ffffff",
        "accent": palette.ACCENT["light"],
    },
    "dark": {
        "ink": "#e8eaed",
        "soft": "#a3abb3",
        "rule": "#33383e",
        "paper": "#15181b",
        "accent": palette.ACCENT["dark"],
    },
}


def config(look: Look, theme: str) -> dict[str, Any]:
    """A Vega-Lite configuration of the page."""
    ink = INKS[theme]
    words = {"labelColor": ink["soft"], "titleColor": ink["soft"], "labelFont": SANS, "titleFont": SANS}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"gridColor": ink["rule"], "domainColor": ink["soft"], "tickColor": ink["soft"]}
    return {
        "background": "transparent",
        "font": SANS,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {**words, **sizes, **lines, "titlePadding": 8, "tickSize": 4},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6, "tickCount": 5},
        "legend": {"disable": True, **words, **sizes},
        "text": {"font": SANS, "fill": ink["ink"], "fontSize": 12},
        "range": {"category": palette.colours(look.labels, look.accent, theme)},
    }


COLUMN = 240  # points: 84 mm, the column of most journals
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def printed(look: Look) -> dict[str, Any]:
    """The same on paper: white, black words of 7 points at half size, and a legend."""
    made = config(look, "light")
    words = {"labelFont": FONT, "titleFont": FONT, "labelFontSize": 14, "titleFontSize": 15}
    words |= {"labelColor": "#222222", "titleColor": "#222222"}
    rows = {"direction": "horizontal", "columns": 3, "columnPadding": 16, "rowPadding": 2}
    made |= {"background": "white", "font": FONT, "padding": 5}
    made["axis"] |= {**words, "titlePadding": 6}
    made["legend"] = {
        **words,
        **rows,
        "titleFontWeight": "normal",
        "orient": "bottom",
        "title": None,
        "symbolSize": 70,
        "symbolOpacity": 1,
        "offset": 8,
    }
    made["text"] |= {"font": FONT, "fontSize": 14}
    return made


def inks(theme: str) -> list[dict[str, Any]]:
    """The colours that a specification names, as its parameters."""
    return [{"name": name, "value": value} for name, value in INKS[theme].items()]
