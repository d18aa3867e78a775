"""The page as a whole: chapters in a frame, with the data, the style and the scripts inside."""

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from scyc.config import digest
from scyc.report import oracle as oracles
from scyc.report.document import summary
from scyc.report.outcome import outcome
from scyc.report.page import comparing, palette, theme
from scyc.report.page.block import Writer
from scyc.report.page.chapters import chapters
from scyc.report.page.figure import Figure, Look
from scyc.report.page.holdings import Holdings, holdings
from scyc.store import files
from scyc.store.runs import Store

FOLDER = ".reports"
PLACE = re.compile(r"<!--(\w+)-->")


def path_of(store: Store, names: Sequence[str]) -> Path:
    """Where the page of these experiments lies."""
    together = "+".join(names)
    short = together if len(together) <= 100 else f"{names[0][:80]}+{digest(list(names))}"
    return store.root / FOLDER / f"{short}.html"


def write(store: Store, names: Sequence[str], path: Path | None = None) -> Path:
    """Whole or not at all."""
    path, text = path or path_of(store, names), html(store, names)
    files.folder_(path.parent)
    files.write(path, text.encode())
    return path


def html(store: Store, names: Sequence[str], *, live: Mapping[str, Any] | None = None) -> str:
    """The whole file; a live one asks the machine it comes from, and nobody else, how far the experiment is."""
    found = [holdings(store, name) for name in dict.fromkeys(names)]
    look = look_of(found)
    parts: list[str] = []
    figures: dict[str, Figure] = {}
    for k, held in enumerate(found):
        writer = Writer(f"e{k}-" if len(found) > 1 else "")
        parts.append(article(store, held, look, writer))
        figures |= writer.figures
    if len(found) > 1:
        writer = Writer("")
        analyses = [held.analysis for held in found if held.analysis]
        if len(analyses) > 1:
            parts.insert(0, f'<article class="compared">{writer.chapter(comparing.chapter(analyses))}</article>')
        figures |= writer.figures
    return filled(
        read("template.html"),
        {
            "title": escape(", ".join(held.name for held in found)),
            "style": read("page.css"),
            "head": head(found),
            "legend": legend(look),
            "body": "\n".join(parts),
            "data": script_safe(json.dumps(data(figures, look), separators=(",", ":"), allow_nan=False)),
            "vega": vega(),
            "script": read("page.js"),
            "policy": "connect-src 'self'; " if live else "",
            "live": live_bar(live) if live else "",
            "follow": f"<script>\n{read('live.js')}</script>" if live else "",
        },
    )


def live_bar(state: Mapping[str, Any]) -> str:
    """What it knew when it was made; the rest comes while one looks."""
    return (
        f'<div id="live" data-records="{state["records"]}" data-done="{str(state["done"]).lower()}" role="status">'
        '<progress max="1" value="0" aria-label="share done"></progress><span class="said"></span></div>'
    )


def look_of(found: Sequence[Holdings]) -> Look:
    labels = tuple(dict.fromkeys(label for held in found for label in held.labels))
    return Look(labels, next((held.challenger for held in found if held.challenger), None))


def filled(template: str, parts: Mapping[str, str]) -> str:
    """In one pass: what a part holds is never taken for a place."""
    return PLACE.sub(lambda place: parts[place[1]], template)


def read(name: str) -> str:
    return (resources.files("scyc.report.page") / name).read_text("utf-8")


def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the package that brings them along."""
    import vl_convert

    return str(vl_convert.javascript_bundle()).replace("</script", r"<\/script")


def script_safe(text: str) -> str:
    """JSON that no HTML parser takes for markup."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def head(found: Sequence[Holdings]) -> str:
    if len(found) > 1:
        rows = "".join(
            f'<li><a href="#e{k}">{escape(held.name)}</a>: {escape(sentence(held))}</li>'
            for k, held in enumerate(found)
        )
        return f'<h1>{len(found)} experiments compared</h1><ul class="verdicts">{rows}</ul>'
    return heading(found[0], "h1")


def heading(held: Holdings, level: str) -> str:
    """The verdict first, then under what it was measured."""
    kicker = f'<p class="kicker"><strong>{escape(held.name)}</strong>{f" · {escape(held.doc)}" if held.doc else ""}</p>'
    facts = "".join(
        f'<p class="facts">{escape(line)}</p>' for line in (summary(held.analysis)[1:] if held.analysis else ())
    )
    return f"{kicker}<{level}>{escape(unbroken(sentence(held)))}</{level}>{facts}"


def sentence(held: Holdings) -> str:
    said = outcome(held.analysis) if held.analysis else oracles.sentence(held.oracle) if held.oracle else ""
    return f"{said}."


def unbroken(text: str) -> str:
    """No line ends inside `n = 5` or `5 %`."""
    return text.replace(" = ", "\u00a0=\u00a0").replace(" %", "\u00a0%")


def article(store: Store, held: Holdings, look: Look, writer: Writer) -> str:
    made = chapters(store, held, look)
    inner = "\n".join(map(writer.chapter, made))
    links = "".join(f'<a href="#{writer.prefix}{chapter.name}">{escape(chapter.title)}</a>' for chapter in made)
    top = f"<header>{heading(held, 'h1')}</header>" if writer.prefix else ""
    id = writer.prefix.rstrip("-") or "report"
    return f'<article id="{id}">{top}<nav aria-label="Chapters of {escape(held.name)}">{links}</nav>{inner}</article>'


def legend(look: Look) -> str:
    """A button per schedule."""
    return "".join(
        f'<button type="button" class="key" aria-pressed="true" data-schedule="{escape(label)}">'
        f'<svg width="34" height="12" aria-hidden="true"></svg><span>{escape(label)}</span></button>'
        for label in look.labels
    )


def data(figures: Mapping[str, Figure], look: Look) -> dict[str, Any]:
    """What the script draws from."""
    return {
        "schedules": palette.styles(look.labels, look.accent),
        "themes": {name: theme.config(look, name) for name in theme.INKS},
        "inks": theme.INKS,
        "figures": {id: drawn(figure) for id, figure in figures.items()},
    }


def drawn(figure: Figure) -> dict[str, Any]:
    made = {
        "file": figure.name,
        "spec": {
            "width": "container",
            "height": "container",
            "autosize": {"type": "fit", "contains": "padding"},
            **figure.spec,
        },
        "data": {name: data.columns() for name, data in figure.data.items()},
        "words": f"{figure.title}. {figure.words}",
    }
    if figure.own:
        own = figure.own
        made["range"] = {name: palette.colours(own.labels, own.accent, name) for name in theme.INKS}
    return made
