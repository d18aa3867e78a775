"""The paper's claims (section 8 of the specification), each asked of an experiment's results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from scyc.report.compare import LEVEL, Comparison, corrected, pairs
from scyc.report.printed import as_results, named_cycles, printed
from scyc.report.rows import Results

VERDICTS = ("reproduced", "direction only", "not reproduced", "not tested")
MARGIN = 0.01  # accuracy: two schedules this close count as equal (one point)
FEW_WEIGHTS = 0.25  # of the density: from here on a network counts as pruned where a trend is claimed

STATEMENTS = {
    1: "Gradients narrow with pruning",
    2: "The first pruning changes little",
    3: "Pre-activation variance falls",
    4: "Warm-up beats constant, decay, cyclical",
    5: "Larger peak: better pruned, worse dense",
    6: "S-Cyc beats the best when pruned",
    7: "S-Cyc equals the best at 100 %",
    8: "The best peak rises with pruning",
    9: "S-Cyc's peak is feasible in every cycle",
    10: "The same with Adam and RMSProp",
}


@dataclass(frozen=True)
class Cell:
    """One place a claim names, and what was measured there."""

    cycle: int
    density: float
    what: str
    difference: float
    spread: float  # standard deviation over pairs
    n: int
    missing: int  # pairs lost to divergence
    p: float
    holds: bool  # the sign is the claimed one
    holm: float = math.nan


@dataclass(frozen=True)
class Verdict:
    claim: int
    verdict: str
    cells: tuple[Cell, ...] = ()
    words: str = ""  # how it was decided, or what is missing

    @property
    def statement(self) -> str:
        return STATEMENTS[self.claim]

    @property
    def held(self) -> int:
        return sum(cell.holds for cell in self.cells)

    @property
    def proven(self) -> int:
        """Cells with the claimed sign and a corrected p below the level."""
        return sum(cell.holds and cell.holm < LEVEL for cell in self.cells)


Claim = Callable[[Results], Verdict]


def decided(claim: int, cells: Sequence[Cell], words: str = "") -> Verdict:
    """Reproduced: the claimed sign and Holm p < 0.05 in every named cell; direction only: the sign in every one."""
    if not cells:
        return untested(claim, "no cycle here has both sides")
    tested = tuple(replace(cell, holm=p) for cell, p in zip(cells, corrected([c.p for c in cells]), strict=True))
    found = Verdict(claim, "", tested, words)
    reached = 0 if found.proven == len(cells) else 1 if found.held == len(cells) else 2
    return replace(found, verdict=VERDICTS[reached])


def untested(claim: int, why: str) -> Verdict:
    return Verdict(claim, "not tested", words=why)


def elsewhere(claim: int, command: str) -> Claim:
    """A claim that another command's measurements are needed for."""
    return lambda results: untested(claim, f"`scyc {command}` tests it")


def cell(found: Comparison, sign: int = 1) -> Cell:
    """A comparison as a cell; `sign` is the claimed one of its difference."""
    what = f"{found.challenger} - {found.benchmark}"
    numbers = (found.difference, found.spread, found.n, found.missing, found.p)
    return Cell(found.cycle, found.density, what, *numbers, holds=found.difference * sign > 0)


def fixed(results: Results, *, warm: bool) -> list[str]:
    """Schedules of one peak and one shape for all cycles: the warm-ups, or the others."""
    return [
        label
        for label, config in results.configs.items()
        if config["peak"]["name"] == "fixed"
        and "retrain_shape" not in config
        and (config["shape"]["name"] == "warmup") is warm
    ]


def warmup_first(results: Results) -> Verdict:
    """The best warm-up against the best of the others, in every cycle."""
    warm, others = fixed(results, warm=True), fixed(results, warm=False)
    if not (warm and others):
        return untested(4, "needs a warm-up and another schedule, of one peak each")
    cells = [cell(found) for found in pairs(results, warm, others, named_cycles(results))]
    return decided(4, cells, "best warm-up minus best of the others, both by validation, in every cycle")


def larger_peak(results: Results) -> Verdict:
    """The warm-up with the larger peak minus that with the smaller: below zero dense, above where few weights are."""
    peaks = {label: results.rows[label][0].peak for label in fixed(results, warm=True) if results.rows[label]}
    small, large = (choose(peaks, key=lambda label: peaks[label], default="") for choose in (min, max))
    if not large or peaks[small] == peaks[large]:
        return untested(5, "needs two warm-ups of different peaks")
    found = pairs(results, [large], [small], named_cycles(results))
    cells = [cell(c, -1 if c.cycle == 0 else 1) for c in found if c.cycle == 0 or c.density <= FEW_WEIGHTS]
    if {c.cycle == 0 for c in cells} != {True, False}:
        return untested(5, "needs the dense network and one with at most a quarter of its weights")
    return decided(5, cells, f"{large} minus {small}: below zero at m = 0, above with at most 25 % of the weights")


def beats(claim: int, optimizers: tuple[str, ...]) -> Claim:
    """S-Cyc minus the best benchmark, in every pruned cycle, under these optimizers."""

    def ask(results: Results) -> Verdict:
        label, optimizer = results.challenger, results.config.get("optimizer", {}).get("name", "sgd")
        if optimizer not in optimizers:
            return untested(claim, f"is about {' and '.join(optimizers)}, this is {optimizer}")
        if label is None:
            return untested(claim, "needs an S-Cyc schedule")
        others = [name for name in results.rows if name != label]
        cells = [cell(found) for found in pairs(results, [label], others, named_cycles(results)) if found.cycle > 0]
        return decided(claim, cells, gains(results, cells))

    return ask


def gains(results: Results, cells: Sequence[Cell]) -> str:
    """The relative gain in the last cell, ours and as printed."""
    if not cells:
        return ""
    last, words = cells[-1], "S-Cyc minus the best benchmark by validation, in every pruned cycle"
    paper = printed(results)
    theirs = relative(as_results(paper, results), last.cycle) if paper else math.nan
    said = "" if math.isnan(theirs) else f" (paper: {theirs:+.1%})"
    ours = relative(results, last.cycle)
    return words if math.isnan(ours) else f"{words}; relative gain at m = {last.cycle}: {ours:+.1%}{said}"


def relative(results: Results, cycle: int) -> float:
    label = results.challenger
    others = [name for name in results.rows if name != label]
    found = pairs(results, [label] if label else [], others, [cycle])
    base = next((row.mean for row in results.at(cycle, [c.benchmark for c in found])), math.nan)
    return found[0].difference / base if found else math.nan


def equal_when_dense(results: Results) -> Verdict:
    """Equivalence at m = 0: a p-value cannot prove it, an interval within the margin can."""
    label = results.challenger
    others = [name for name in results.rows if name != label]
    found = pairs(results, [label] if label else [], others, [0])
    if not found:
        return untested(7, "needs an S-Cyc schedule and another")
    c = found[0]
    close = abs(c.difference) <= MARGIN
    inside = -MARGIN <= c.low <= 0 <= c.high <= MARGIN
    reached = VERDICTS[0 if inside else 1 if close else 2]
    interval = "none" if math.isnan(c.low) else f"{100 * c.low:+.2f} to {100 * c.high:+.2f}"
    rule = f"reproduced: the 95 % interval of the paired difference (here {interval}) holds 0 and lies within ±1 point"
    return Verdict(
        7, reached, (replace(cell(c), holds=close),), f"{rule}; direction only: the mean lies within ±1 point"
    )


CLAIMS: Mapping[int, Claim] = {
    **{claim: elsewhere(claim, "distribution") for claim in (1, 2, 3)},
    4: warmup_first,
    5: larger_peak,
    6: beats(6, ("sgd",)),
    7: equal_when_dense,
    **{claim: elsewhere(claim, "oracle") for claim in (8, 9)},
    10: beats(10, ("adam", "rmsprop")),
}


def verdicts(results: Results) -> list[Verdict]:
    return [ask(results) for ask in CLAIMS.values()]


def in_print(results: Results, claim: int) -> tuple[int, int] | None:
    """In how many of a claim's cells the printed means have the claimed sign, and of how many."""
    paper = printed(results)
    if paper is None:
        return None
    found = CLAIMS[claim](as_results(paper, results))
    return (found.held, len(found.cells)) if found.cells else None
