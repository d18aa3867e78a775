"""A table of words as text: aligned for the terminal, Markdown, or LaTeX with booktabs. The first row is the head."""

import math
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

Grid = list[list[str]]
Marks = Mapping[tuple[int, int], str]  # (line, column): "best" or "tie"
WIDTH = 100  # columns of a terminal


def percent(value: float, digits: int = 1) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f}"


def points(value: float) -> str:
    """A difference of accuracies, with its sign."""
    return "-" if math.isnan(value) else f"{100 * value:+.2f}"


def probability(p: float) -> str:
    return "-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def known(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def aligned(grid: Grid, *, left: bool | Collection[int] = False) -> str:
    """Plain text; numbers stand right, words left: all columns or those given."""
    widths = widths_of(grid)
    columns = range(len(widths)) if left is True else left or ()
    place = [str.ljust if k in columns else str.rjust for k in range(len(widths))]
    lines = ["  ".join(f(*cell) for f, cell in zip(place, zip(row, widths, strict=True), strict=True)) for row in grid]
    return "\n".join([lines[0].rstrip(), "  ".join("-" * width for width in widths), *map(str.rstrip, lines[1:])])


def widths_of(grid: Grid) -> list[int]:
    return [max(len(row[k]) for row in grid) for k in range(len(grid[0]))]


def folded(grid: Grid, keys: int, width: int = WIDTH) -> list[Grid]:
    """A grid that is too wide as several, each beginning with the same first `keys` columns."""
    widths = [size + 2 for size in widths_of(grid)]
    parts: list[list[int]] = [[]]
    for k in range(keys, len(widths)):
        if parts[-1] and sum(widths[:keys]) + sum(widths[i] for i in parts[-1]) + widths[k] - 2 > width:
            parts.append([])
        parts[-1].append(k)
    return [[row[:keys] + [row[k] for k in part] for row in grid] for part in parts]


def piped(grid: Grid, left: Collection[int] = (), marks: Marks = MappingProxyType({})) -> str:
    """Markdown: the best bold, ties in italics."""
    grid = marked(
        [[literal(text).replace("|", "\\|") for text in row] for row in grid], marks, best="**{}**", tie="*{}*"
    )
    lines = ["| " + " | ".join(row) + " |" for row in grid]
    rule = "|".join(" :--- " if k in left else " ---: " for k in range(len(grid[0])))
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def literal(text: str) -> str:
    """Text as Markdown prints it: a name may hold a tag, a picture or a link, and none of them is one here."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(")


def marked(grid: Grid, marks: Marks, **forms: str) -> Grid:
    """Marked cells in the form of their mark."""
    return [
        [forms[marks[i, k]].format(text) if (i, k) in marks else text for k, text in enumerate(row)]
        for i, row in enumerate(grid)
    ]


SPECIAL = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: f"${char}$" for char in "<>|"},
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "λ": r"$\lambda$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "β": r"$\beta$",
    "`": r"\textasciigrave{}",
    '"': "''",
}


def escaped(text: str) -> str:
    """Text as LaTeX prints it; a sign before a number is one of mathematics, not a hyphen."""
    marked = re.sub(r"(?<![\w.-])([+-])(?=\d)", "\0\\1", text)
    return re.sub("\0(.)", r"$\1$", "".join(SPECIAL.get(char, char) for char in marked))


def booktabs(grid: Grid, left: Collection[int] = (), marks: Marks = MappingProxyType({})) -> str:
    r"""A tabular for \usepackage{booktabs}: the best bold, ties underlined."""
    grid = marked([list(map(escaped, row)) for row in grid], marks, best=r"\textbf{{{}}}", tie=r"\underline{{{}}}")
    lines = [" & ".join(row) + r" \\" for row in grid]
    columns = "".join("l" if k in left else "r" for k in range(len(grid[0])))
    inner = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*inner, r"\bottomrule", r"\end{tabular}"])
