"""What a chapter is made of, as HTML: words, tables, figures, and figures to choose from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from scyc.report.document import Section
from scyc.report.page.figure import Figure

MANY = 40  # lines of a table, which then has a height of its own


@dataclass(frozen=True)
class Choice:
    """Figures of which those with the chosen options are shown."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Folded:
    """A table that is opened by who wants to read it."""

    section: Section


@dataclass(frozen=True)
class Cycles:
    """A slider that says which cycle some figures show."""

    count: int
    densities: Mapping[int, str]  # in words


@dataclass(frozen=True)
class Chapter:
    """A heading, a sentence, and what stands below it."""

    name: str
    title: str
    blocks: Sequence[object]
    lead: str = ""


@dataclass
class Writer:
    """Turns blocks into HTML and keeps the figures that the page's script will draw, each under an id of its own."""

    prefix: str
    figures: dict[str, Figure] = field(default_factory=dict)
    marks: int = 0

    def chapter(self, chapter: Chapter) -> str:
        lead = f'<p class="lead">{escape(chapter.lead)}</p>' if chapter.lead else ""
        inner = "\n".join(self.block(block) for block in chapter.blocks)
        id = f"{self.prefix}{chapter.name}"
        title = f'<h2 id="{id}-title">{escape(chapter.title)}</h2>'
        return f'<section id="{id}" aria-labelledby="{id}-title">{title}{lead}\n{inner}</section>'

    def block(self, block: object) -> str:
        if isinstance(block, Section):
            return table(block)
        if isinstance(block, Folded):
            return f"<details><summary>{escape(block.section.title)}</summary>{table(block.section)}</details>"
        if isinstance(block, Figure):
            return self.figure(block)
        if isinstance(block, Choice):
            return self.choice(block)
        if isinstance(block, Cycles):
            return self.cycles(block)
        return str(block)

    def figure(self, figure: Figure, *, hidden: bool = False) -> str:
        id = f"{self.prefix}figure-{figure.name}"
        if not id.replace("-", "").isalnum() or not id.isascii() or id in self.figures:  # labels may be any words
            id = f"{self.prefix}figure-{hashlib.sha256(id.encode()).hexdigest()[:12]}"
        self.figures[id] = figure
        options = "".join(f' data-option-{key}="{escape(value)}"' for key, value in figure.options.items())
        of = f'<span class="unseen"> of {escape(figure.title)}</span>'
        kinds = ("csv", "svg", "png")
        buttons = "".join(f'<button type="button" class="get" data-get="{k}">{k.upper()}{of}</button>' for k in kinds)
        return (
            f'<figure class="chart" id="{id}" data-figure="{id}"{options}{" hidden" if hidden else ""}>'
            f'<div class="head"><h3>{escape(figure.title)}</h3><span class="gets">{buttons}</span></div>'
            f'<div class="plot" style="height:{figure.height}px"></div>'
            f"<figcaption>{escape(figure.words)}</figcaption></figure>"
        )

    def choice(self, choice: Choice) -> str:
        first = choice.figures[0].options
        values: dict[str, list[str]] = {}
        for figure in choice.figures:
            for key, value in figure.options.items():
                values.setdefault(key, [])
                values[key] += [value] if value not in values[key] else []
        selects = "".join(self.select(key, found) for key, found in values.items() if len(found) > 1)
        drawn = "\n".join(self.figure(figure, hidden=figure.options != first) for figure in choice.figures)
        controls = f'<div class="controls">{selects}</div>' if selects else ""
        return f'<div class="choice">{controls}<div class="pair">{drawn}</div></div>'

    def select(self, key: str, values: Sequence[str]) -> str:
        self.marks += 1
        id = f"{self.prefix}choose-{self.marks}"
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        return (
            f'<label for="{id}">{escape(key)} <select id="{id}" data-choose="{escape(key)}">{options}</select></label>'
        )

    def cycles(self, slider: Cycles) -> str:
        self.marks += 1
        id, last = f"{self.prefix}cycle-{self.marks}", slider.count - 1
        words = escape("|".join(slider.densities.get(cycle, "") for cycle in range(slider.count)))
        return (
            f'<div class="controls cycle"><label for="{id}">cycle m <input id="{id}" type="range" data-cycle min="0" '
            f'max="{last}" value="{last}" step="1" data-words="{words}"></label> <output for="{id}"></output></div>'
        )


def table(section: Section) -> str:
    """In a box of its own that scrolls."""
    head, *lines = section.grid
    cells = "".join(f'<th scope="col"{place(section, k)}>{escape(text)}</th>' for k, text in enumerate(head))
    body = "\n".join(line(section, i, texts) for i, texts in enumerate(lines, 1))
    legend = (
        '<p class="note"><strong>Bold</strong>: the highest mean of a line. <span class="tie">Underlined</span>: below '
        "it by no more than the line’s noise floor.</p>"
        if section.marks
        else ""
    )
    notes = legend + "".join(f'<p class="note">{escape(note)}</p>' for note in section.notes)
    title, long = escape(section.title), " long" if len(lines) > MANY else ""
    return (
        f'<div class="table"><h3>{title}</h3><div class="scroll{long}" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>{notes}</div>"
    )


def line(section: Section, i: int, texts: Sequence[str]) -> str:
    kind = ' class="paper"' if "paper" in texts[: section.keys] else ""
    return f"<tr{kind}>{''.join(cell(section, i, k, text) for k, text in enumerate(texts))}</tr>"


def cell(section: Section, i: int, k: int, text: str) -> str:
    mark, inner = section.marks.get((i, k)), escape(text)
    inner = f"<strong>{inner}</strong>" if mark == "best" else f'<span class="tie">{inner}</span>' if mark else inner
    return f"<td{place(section, k)}>{inner}</td>"


def place(section: Section, k: int) -> str:
    return ' class="words"' if k in section.words else ""
