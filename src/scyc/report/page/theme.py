"""What all figures look like: on the page in the light and in the dark, and in a column of a paper."""

from typing import Any

from scyc.report.page import palette
from scyc.report.page.figure import Look

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
INKS = {
    "light": {"ink": "#1b1d1f", "soft": "#595f66", "rule": "#e3e5e8", "paper": "#ffffff"},
    "dark": {"ink": "#e8eaed", "soft": "#a3abb3", "rule": "#33383e", "paper": "#15181b"},
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
        "axis": {**words, **sizes, **lines, "titlePadding": 8, "tickSize": 4, "labelOverlap": True},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6, "tickCount": 5},
        "legend": {"disable": True, **words, **sizes},
        "text": {"font": SANS, "fill": ink["ink"], "fontSize": 12},
        "style": {
            "reference": {"stroke": ink["soft"], "strokeDash": [3, 3], "strokeWidth": 1},
            "noise": {"fill": ink["soft"], "opacity": 0.14},
            "region": {"fill": ink["soft"], "opacity": 0.22},
            "mark": {"stroke": ink["ink"], "fill": ink["ink"]},
            "hole": {"fill": ink["paper"], "stroke": ink["paper"]},
            "challenger": {"fill": palette.ACCENT[theme], "stroke": palette.ACCENT[theme]},
        },
        "range": {"category": palette.colours(look.labels, look.accent, theme)},
    }


COLUMN = 240  # points: 84 mm, the column of most journals
FONT = "Helvetica, Arial, Liberation Sans, sans-serif"


def printed(look: Look) -> dict[str, Any]:
    """The same in print: smaller, thinner, white, with a legend."""
    made = config(look, "light")
    words = {"labelFont": FONT, "titleFont": FONT, "labelFontSize": 7, "titleFontSize": 7.5}
    dark = {"labelColor": "#222", "titleColor": "#222"}
    made |= {"background": "white", "font": FONT, "padding": 2}
    made["axis"] |= {**words, **dark, "titlePadding": 3, "tickSize": 3, "labelPadding": 2, "domainWidth": 0.5, "gridWidth": 0.4}
    made["axisY"] = {"domain": False, "ticks": False, "labelPadding": 3, "tickCount": 5}
    legend = {"orient": "bottom", "direction": "horizontal", "title": None, "columns": 3, "symbolSize": 28, "symbolStrokeWidth": 1.1}
    made["legend"] = {**words, **dark, **legend, "columnPadding": 8, "rowPadding": 1, "offset": 6, "labelLimit": 70}
    made["text"] |= {"font": FONT, "fontSize": 7}
    return made
