"""A report as text: for the terminal, Markdown, LaTeX, and every number of it as CSV or JSON."""

import csv
import io
import json
import textwrap
from collections.abc import Callable, Sequence

from scyc.report.analysis import analysed
from scyc.report.document import Section, sections, summary
from scyc.report.numbers import numbers
from scyc.report.rows import Results
from scyc.report.sparkline import chart
from scyc.report.table import WIDTH, aligned, booktabs, escaped, folded, literal, piped


def text(results: Results) -> str:
    found = analysed(results)
    lines = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in summary(found)]
    return "\n\n".join(filter(None, ["\n".join(lines), chart(results), *map(plain_section, sections(found))]))


LEGEND = "{}: the highest mean of a line; {}: below it by no more than the line's noise floor"


def plain_section(section: Section) -> str:
    tables = [aligned(grid, left=section.words) for grid in folded(section.grid, section.keys)]
    notes = [textwrap.fill(note, WIDTH, subsequent_indent="  ") for note in section.notes]
    return "\n\n".join(filter(None, [section.title, *tables, "\n".join(notes)]))


def markdown(results: Results) -> str:
    found = analysed(results)
    parts = ["\n".join(f"- {literal(line)}" for line in summary(found))]
    for section in sections(found):
        table = piped(section.grid, section.words, section.marks)
        parts += [f"**{literal(section.title)}**", table, *map(literal, section.notes)]
        parts += [LEGEND.format("bold", "italic")] if section.marks else []
    return "\n\n".join(parts)


def latex(results: Results) -> str:
    r"""Sentences and floats for a document with \usepackage{booktabs}."""
    found = analysed(results)
    head = ["% needs \\usepackage{booktabs}", *(f"{escaped(line)}.\n" for line in summary(found))]
    return "\n".join(head + [table_float(section) for section in sections(found)])


def table_float(section: Section) -> str:
    legend = [LEGEND.format("bold", "underlined")] if section.marks else []
    caption = "; ".join([section.title, *section.notes, *legend])
    inner = [
        r"\centering",
        r"\small",
        rf"\caption{{{escaped(caption)}.}}",
        booktabs(section.grid, section.words, section.marks),
    ]
    return "\n".join([r"\begin{table}", *inner, r"\end{table}"])


def csv_text(results: Results) -> str:
    """The groups one below the other; the first column says which."""
    rows = [{"kind": kind, **row} for kind, found in numbers(analysed(results)).items() for row in found]
    out = io.StringIO()
    names = dict.fromkeys(["kind", *(name for row in rows for name in row)])
    writer = csv.DictWriter(out, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def json_text(results: Results) -> str:
    found = analysed(results)
    document = {
        "experiment": results.name,
        "doc": results.doc,
        "published": results.published,
        "summary": summary(found),
        "runs": results.runs,
        "finished": results.finished,
        "steps": results.steps,
        "retrain_steps": results.retrained,
        "scale": results.config.get("scale", 1.0),
        "seeds": list(results.seeds),
        **numbers(found),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


FORMATS: dict[str, Callable[[Results], str]] = {
    "table": text,
    "md": markdown,
    "latex": latex,
    "csv": csv_text,
    "json": json_text,
}


def joined(names: Sequence[str], texts: Sequence[str], format: str) -> str:
    """Several reports as one: one below the other, a JSON list, or one CSV whose first column says whose a line is."""
    if len(texts) == 1:
        return texts[0]
    if format == "json":
        return "[\n" + ",\n".join(texts) + "\n]"
    if format != "csv":
        return "\n\n\n".join(texts)
    tables = [list(csv.DictReader(io.StringIO(text))) for text in texts]
    rows = [{"experiment": name, **row} for name, table in zip(names, tables, strict=True) for row in table]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")
