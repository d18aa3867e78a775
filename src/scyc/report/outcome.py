"""The verdict in one sentence: which schedule wins where, by how much, with n and p."""

import math
from collections.abc import Sequence

from scyc.report.analysis import Analysis
from scyc.report.compare import LEVEL, Comparison
from scyc.report.leaders import leaders
from scyc.report.rows import Results, Row
from scyc.report.table import percent, points, probability


def outcome(found: Analysis) -> str:
    cells = found.comparisons
    if not cells:
        return unopposed(found.results)
    label, every = cells[0].challenger, f"{len(cells)} pruned densities" if len(cells) > 1 else "1 pruned density"
    if all(math.isnan(c.holm) for c in cells):
        ahead = sum(c.difference > 0 for c in cells)
        most = max(cells, key=lambda c: -1.0 if math.isnan(c.difference) else abs(c.difference))
        return f"{label} is ahead of the best benchmark at {ahead} of {every}, untested: at most {said(most)}"
    won, lost = ([c for c in cells if c.holm < LEVEL and c.difference * sign > 0] for sign in (1, -1))
    parts = [
        f"{verb} the best benchmark at {clause(side, every)}"
        for verb, side in (("beats", won), ("loses to", lost))
        if side
    ]
    if parts:
        return f"{label} {', and '.join(parts)}"
    least = min((c for c in cells if not math.isnan(c.holm)), key=lambda c: c.p)
    return (
        f"{label} and the best benchmark cannot be told apart at any of {every}: "
        f"the clearest difference is {said(least)}"
    )


def clause(side: Sequence[Comparison], every: str) -> str:
    most = max(side, key=lambda c: abs(c.difference))
    return f"{len(side)} of {every}, by {'up to ' if len(side) > 1 else ''}{said(most, signed=False)}"


def said(c: Comparison, *, signed: bool = True) -> str:
    """A comparison in words; beside a verb that has the sign it needs none."""
    tested = (
        "" if math.isnan(c.holm) else f", paired t-test, Holm p {'' if c.holm < 0.001 else '= '}{probability(c.holm)}"
    )
    gap = points(c.difference) if signed else percent(abs(c.difference), 2)
    return f"{gap} points against {c.benchmark} at {percent(c.density, 2)} % of the weights (n = {c.n}{tested})"


def unopposed(results: Results) -> str:
    """Where there is no S-Cyc schedule, or nothing beside it."""
    lines = [[row for row in results.at(cycle) if row.n] for cycle in range(results.cycles)]
    lines = [line for line in lines if line]
    if not lines:
        return "nothing is recorded to its end yet"
    if len(results.rows) > 1:
        firsts = [label for line in lines for label, mark in leaders(line, math.nan).items() if mark == "best"]
        top = max(results.rows, key=firsts.count)
        why = (
            "no pruned network to compare yet" if results.challenger else "no S-Cyc schedule to test against the others"
        )
        where = f"{firsts.count(top)} of {len(lines)} densities" if len(lines) > 1 else "the only density"
        return f"{top} has the highest mean test accuracy at {where}, untested: there is {why}"
    ends = [lines[0][0], *(lines[-1][:1] if len(lines) > 1 else [])]
    return f"{ends[0].schedule}: test accuracy {' and '.join(map(accuracy, ends))}"


def accuracy(row: Row) -> str:
    spread = "" if math.isnan(row.std) else f"±{percent(row.std)}"
    return f"{percent(row.mean)}{spread} % at {percent(row.density, 2)} % of the weights (n = {row.n})"
