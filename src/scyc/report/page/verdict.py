"""The first chapter: what is claimed, and what this store says of it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from scyc.report import oracle as oracles
from scyc.report.analysis import Analysis
from scyc.report.claims import STATEMENTS, VERDICTS, in_print
from scyc.report.distribution import Distributions
from scyc.report.document import Section
from scyc.report.narrowing import findings
from scyc.report.oracle import Oracle

SIGNS = dict(zip(VERDICTS, ("●", "◐", "○", "–"), strict=True))
Line = tuple[int, str, str, str]  # claim, verdict, cells, words


def claims(found: Analysis | None, oracle: Oracle | None, distributions: Sequence[Distributions]) -> Section | None:
    """Every claim once, tested by whatever in the store tests it; None where nothing does."""
    lines: dict[int, list[Line]] = {}
    for one in [*tables(found), *searched(oracle), *measured(distributions)]:
        if one[1] != VERDICTS[-1] or one[0] not in lines:
            lines[one[0]] = [line for line in lines.get(one[0], []) if line[1] != VERDICTS[-1]] + [one]
    if not lines:
        return None
    grid = [["claim", "says", "verdict", "cells with its sign", "how it was tested"]]
    for claim, every in sorted(lines.items()):
        grid += [
            [str(claim), STATEMENTS[claim], f"{SIGNS.get(v, '◆')} {v}", cells, words] for _, v, cells, words in every
        ]
    if all(row[3] == "-" for row in grid[1:]):  # only the tables count cells
        grid = [[*row[:3], row[4]] for row in grid]
    rule = "Reproduced: the claimed sign with Holm p < 0.05 in every named cell. Direction only: the sign in every one."
    return Section("The paper's claims", grid, 1, (1, 2, len(grid[0]) - 1), (rule,))


def tables(found: Analysis | None) -> Iterator[Line]:
    for v in found.verdicts if found else ():
        theirs = in_print(found.results, v.claim) if found and v.cells else None
        printed = "; as printed {} of {}".format(*theirs) if theirs else ""
        yield v.claim, v.verdict, f"{v.held} of {len(v.cells)}{printed}" if v.cells else "-", v.words


def searched(oracle: Oracle | None) -> Iterator[Line]:
    for v in oracles.verdicts(oracle) if oracle else ():
        yield v.claim, v.verdict, "-", v.words


def measured(distributions: Sequence[Distributions]) -> Iterator[Line]:
    """One line per claim: how many of its quantities, schedules and moments came out how."""
    for found in distributions:
        every = findings(found)
        for claim in sorted({one.verdict.claim for one in every}):
            counts = Counter(one.verdict.verdict for one in every if one.verdict.claim == claim)
            said = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
            alone = next(iter(counts)) if len(counts) == 1 else said
            many = f"{counts.total()} tests: quantities, schedules and moments, each under Distributions"
            yield claim, alone, "-", many
