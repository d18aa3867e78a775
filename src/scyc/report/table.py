"""Tables: for the terminal, Markdown, CSV and JSON; one row per density, one column per schedule."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from scyc.report.compare import Comparison, compare
from scyc.report.rows import Results, Row

Grid = list[list[str]]


def percent(value: float, digits: int = 1) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f}"


def cell(row: Row | None) -> str:
    """mean±std (n), in percent; diverged seeds are said."""
    if row is None:
        return "-"
    lost = f" {len(row.diverged)} div" if row.diverged else ""
    if not row.n:
        return lost.strip() or "-"
    spread = "" if math.isnan(row.std) else f"±{percent(row.std)}"
    return f"{percent(row.mean)}{spread} ({row.n}){lost}"


def accuracy_grid(experiment: Results) -> Grid:
    """Test accuracy at the early stop, in percent."""
    labels = list(experiment.rows)
    grid = [["m", "density", *labels]]
    for cycle in range(experiment.cycles):
        here = [rows[cycle] if len(rows) > cycle else None for rows in experiment.rows.values()]
        density = next(row.density for row in here if row)
        grid.append([str(cycle), percent(density, 2), *(cell(row) for row in here)])
    return grid


def comparison_grid(cells: Sequence[Comparison]) -> Grid:
    grid = [["m", "density", "best benchmark", "difference", "95 % interval", "n", "p", "Holm p"]]
    for c in cells:
        lost = f" ({c.missing} lost)" if c.missing else ""
        interval = "-" if math.isnan(c.low) else f"{100 * c.low:+.2f} to {100 * c.high:+.2f}"
        numbers = [f"{100 * c.difference:+.2f}", interval, f"{c.n}{lost}", probability(c.p), probability(c.holm)]
        grid.append([str(c.cycle), percent(c.density, 2), c.benchmark, *numbers])
    return grid


def probability(p: float) -> str:
    return "-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def aligned(grid: Grid, *, left: bool = False) -> str:
    """Plain text, the first row as head; numbers stand right, words left."""
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    place = str.ljust if left else str.rjust
    lines = ["  ".join(place(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in grid]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def piped(grid: Grid) -> str:
    lines = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in grid]
    return "\n".join([lines[0], "|" + " ---: |" * len(grid[0]), *lines[1:]])


def sentences(experiment: Results, cells: Sequence[Comparison]) -> str:
    """What the tables say, in words."""
    head = f"{experiment.name}: {experiment.finished} of {experiment.runs} runs finished"
    if not cells:
        return head + "; no schedule to test against the others"
    better = [c for c in cells if c.holm < 0.05 and c.difference > 0]
    worse = [c for c in cells if c.holm < 0.05 and c.difference < 0]
    return (
        f"{head}; {cells[0].challenger} against the best benchmark of each density: "
        f"better in {len(better)}, worse in {len(worse)}, open in {len(cells) - len(better) - len(worse)} "
        f"of {len(cells)} (paired t-test, Holm p < 0.05)"
    )


def text(experiment: Results, layout: Callable[[Grid], str] = aligned) -> str:
    cells = compare(experiment)
    parts = ["Test accuracy at the early stop, percent: mean ± std (n)", "", layout(accuracy_grid(experiment))]
    if cells:
        parts += ["", f"{cells[0].challenger} minus the benchmark that is best on validation, points", ""]
        parts += [layout(comparison_grid(cells))]
    return "\n".join([*parts, "", sentences(experiment, cells)])


def markdown(experiment: Results) -> str:
    return text(experiment, piped)


def long_form(experiment: Results) -> list[dict[str, Any]]:
    """One plain dictionary per schedule and cycle."""
    return [
        {
            "experiment": experiment.name,
            "schedule": row.schedule,
            "cycle": row.cycle,
            "density": row.density,
            "density_all": row.density_all,
            "peak": row.peak,
            "test_accuracy": known(row.mean),
            "test_accuracy_std": known(row.std),
            "n": row.n,
            "diverged": len(row.diverged),
        }
        for rows in experiment.rows.values()
        for row in rows
    ]


def known(value: float) -> float | None:
    return None if math.isnan(value) else value


def csv_text(experiment: Results) -> str:
    rows = long_form(experiment)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["experiment"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def json_text(experiment: Results) -> str:
    cells = [
        {name: known(v) if isinstance(v, float) else v for name, v in vars(c).items()} for c in compare(experiment)
    ]
    document = {
        "experiment": experiment.name,
        "runs": experiment.runs,
        "finished": experiment.finished,
        "rows": long_form(experiment),
        "comparisons": cells,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


FORMATS: dict[str, Callable[[Results], str]] = {
    "table": text,
    "md": markdown,
    "csv": csv_text,
    "json": json_text,
}
