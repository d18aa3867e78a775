"""An experiment's distributions as text: what they say of the claims, then the tables that rests on."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scyc.distribution import MOMENTS, RELATIVE_ERROR
from scyc.report.distribution import QUANTITIES, Distributions, Record, changes, tails
from scyc.report.document import Section
from scyc.report.formats import plain_section, table_float
from scyc.report.narrowing import LITTLE, VARIANCE, Finding, findings
from scyc.report.narrowing_numbers import csv_text, json_text
from scyc.report.rows import mean, std
from scyc.report.table import literal, percent, piped, probability

PLACES = {"peak": "at the peak of the learning rate", "end": "at the end"}
Seeds = Mapping[int, Record]
RULE = (
    "Ratios are to cycle 0 of the same seed. Claims 1 and 3 are reproduced where all cycles lie below cycle 0 with "
    "Holm p < 0.05, of which the largest is shown; claim 1 begins with the second pruning, and claim 2 speaks of the "
    f"first: reproduced where all widths stay within ±{LITTLE:.0%} (two one-sided tests; least and greatest ratio). "
    "rho: rank correlation of the ratio with m, -1 where each pruning narrows further"
)
NOTE = (
    "Mean over seeds; ratio to cycle 0: geometric mean ± standard deviation; p: t-test of its logarithm, Holm over the "
    f"cycles; tails: share beyond cycle 0's 3 % and 97 % quantiles; quantiles are within {RELATIVE_ERROR:.1%}"
)


@dataclass(frozen=True)
class Block:
    """Columns of a table that belong together."""

    heads: tuple[str, ...]
    cells: Callable[[int, Seeds], list[str]]


def sections(found: Distributions) -> list[Section]:
    made = [conclusions(findings(found))]
    for label in found.rows:
        for moment in MOMENTS:
            if found.at(label, moment):
                made += [gradients(found, label, moment), hidden(found, label, moment)]
    return made


def conclusions(found: list[Finding]) -> Section:
    grid = [["claim", "what", "schedule", "moment", "verdict", "first and last ratio", "Holm p", "rho", "n"]]
    notes = [f"{one.schedule}, {one.moment}: {one.verdict.words}" for one in found if not one.verdict.cells]
    grid += [conclusion(one) for one in found]
    return Section("Claims about distributions", grid, 1, (1, 2, 3, 4), (RULE, *dict.fromkeys(notes)))


def conclusion(one: Finding) -> list[str]:
    verdict, cells = one.verdict, one.verdict.cells
    names = {cell.what for cell in cells}
    head = [str(verdict.claim), names.pop() if len(names) == 1 else verdict.statement, one.schedule, one.moment]
    if not cells:
        return [*head, verdict.verdict, "-", "-", "-", "-"]
    ratios = [math.exp(cell.difference) for cell in cells]
    ends = (ratios[0], ratios[-1]) if len({cell.cycle for cell in cells}) > 1 else (min(ratios), max(ratios))
    ps = [cell.holm for cell in cells if not math.isnan(cell.holm)]
    rho = "-" if math.isnan(one.trend.rho) else f"{one.trend.rho:+.2f}"
    numbers = [" to ".join(f"{ratio:.3f}" for ratio in ends), probability(max(ps, default=math.nan)), rho]
    return [*head, verdict.verdict, *numbers, str(min(cell.n for cell in cells))]


def gradients(found: Distributions, label: str, moment: str) -> Section:
    blocks = [
        changing(found, label, moment, "gradients std", "std"),
        changing(found, label, moment, "gradients 90 %", "90 % of |g|"),
        sharing("tails %", lambda row: tails(row, "gradients")),
    ]
    whose = "weights that remain" if found.settings.weights == "surviving" else "all weights"
    many = found.settings.batches
    each = "one gradient of the whole training split" if many == "all" else f"{many} batches, each by itself"
    title = f"{label}: gradients {PLACES[moment]} of every cycle"
    return Section(title, grid(found.at(label, moment), blocks), 2, (), (f"Of {whose}; {each}", NOTE))


def hidden(found: Distributions, label: str, moment: str) -> Section:
    blocks = [
        changing(found, label, moment, "hidden std", "std"),
        changing(found, label, moment, "hidden 90 %", "90 %"),
        sharing("tails %", lambda row: tails(row, "hidden")),
        sharing("zero %", lambda row: float(row["hidden"]["zero"])),
        changing(found, label, moment, VARIANCE, "variance before"),
    ]
    title = f"{label}: hidden representations and pre-activations {PLACES[moment]} of every cycle"
    return Section(title, grid(found.at(label, moment), blocks), 2, (), (NOTE,))


def changing(found: Distributions, label: str, moment: str, quantity: str, head: str) -> Block:
    """A quantity, its ratio to cycle 0, and the p of that."""
    every = {one.cycle: one for one in changes(found, label, moment, quantity)}

    def cells(cycle: int, seeds: Seeds) -> list[str]:
        here = f"{mean([QUANTITIES[quantity](row) for row in seeds.values()]):.3g}"
        if cycle not in every:
            return [here, "1", "-"]
        change = every[cycle]
        around = "" if math.isnan(change.spread) else f"±{change.spread:.3f}"
        return [here, f"{change.ratio:.3f}{around}", probability(change.holm)]

    return Block((head, "ratio", "Holm p"), cells)


def sharing(head: str, share: Callable[[Record], float]) -> Block:
    """A share of the values, in percent."""

    def cells(cycle: int, seeds: Seeds) -> list[str]:
        shares = [share(row) for row in seeds.values()]
        return [percent(mean(shares), 2) + (f"±{percent(std(shares), 2)}" if len(shares) > 1 else "")]

    return Block((head,), cells)


def grid(cycles: Mapping[int, Seeds], blocks: list[Block]) -> list[list[str]]:
    lines = [["m", "density %", *(head for block in blocks for head in block.heads), "n"]]
    for cycle, seeds in cycles.items():
        density = percent(mean([row["density"] for row in seeds.values()]), 2)
        words = [word for block in blocks for word in block.cells(cycle, seeds)]
        lines.append([str(cycle), density, *words, str(len(seeds))])
    return lines


def headline(found: Distributions) -> str:
    seeds = {seed for by_seed in found.rows.values() for seed in by_seed}
    lost = sum(map(found.lost, found.rows))
    return f"{found.name}: distributions, n = {len(seeds)} seeds" + (f", {lost} runs diverged" if lost else "")


def text(found: Distributions) -> str:
    return "\n\n".join([headline(found), *map(plain_section, sections(found))])


def markdown(found: Distributions) -> str:
    parts = [headline(found)]
    for section in sections(found):
        parts += [f"**{literal(section.title)}**", piped(section.grid, section.words), *map(literal, section.notes)]
    return "\n\n".join(parts)


def latex(found: Distributions) -> str:
    return "\n".join(["% needs \\usepackage{booktabs}", *map(table_float, sections(found))])


FORMATS: dict[str, Callable[[Distributions], str]] = {
    "table": text,
    "md": markdown,
    "latex": latex,
    "csv": csv_text,
    "json": json_text,
}
