"""What a report says, in order: the verdict in sentences, then the tables it rests on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scyc.report.analysis import Analysis
from scyc.report.claims import VERDICTS, Verdict, in_print
from scyc.report.compare import LEVEL, Comparison
from scyc.report.leaders import leaders
from scyc.report.outcome import outcome
from scyc.report.printed import SEEDS
from scyc.report.rows import Row, cycles_of
from scyc.report.table import Grid, percent, points, probability


@dataclass(frozen=True)
class Section:
    """One table with what has to be said of it."""

    title: str
    grid: Grid
    keys: int = 1  # first columns, repeated where the table is folded
    words: tuple[int, ...] = ()  # columns that stand left
    notes: tuple[str, ...] = ()
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)  # (line, column): "best" or "tie"


def summary(found: Analysis) -> list[str]:
    """What the tables say, the verdict first."""
    verdict = f"{found.results.name}: {outcome(found)}"
    return [line for line in (verdict, claimed(found), conditions(found), beside(found)) if line]


def claimed(found: Analysis) -> str:
    numbers = {verdict: found.verdict_numbers(verdict) for verdict in VERDICTS}
    parts = [f"{verdict} {', '.join(map(str, claims))}" for verdict, claims in numbers.items() if claims]
    return f"claims of the paper: {'; '.join(parts)}" if parts else ""


def conditions(found: Analysis) -> str:
    """Under what this was measured."""
    results, config = found.results, found.results.config
    scale = config.get("scale", 1.0)
    scaled = f" ({config['steps']:,} at scale {scale:g})" if scale != 1 else " (scale 1)"
    later = f", {results.retrained:,} after the first" if results.retrained < results.steps else ""
    diverged = {(row.schedule, seed) for rows in results.rows.values() for row in rows for seed in row.diverged}
    limit = config["data"].get("limit", 0)
    return (
        f"{results.finished} of {results.runs} runs finished{f', {len(diverged)} diverged' if diverged else ''}; "
        f"{results.steps:,} steps a cycle{scaled}{later}, {results.cycles} of {cycles_of(config)} cycles, "
        f"n = {len(results.seeds)} (seeds {found.seeds}){f', a subset of {limit:,} images' if limit else ''}"
    )


def beside(found: Analysis) -> str:
    if not found.paper:
        return ""
    return (
        f"the paper's table {found.results.published} has n = {SEEDS} and stands beside ours by cycle, "
        "never by nearest density; absolute levels are no target, differences under equal conditions are"
    )


def sections(found: Analysis) -> list[Section]:
    made = [accuracies(found)]
    if found.comparisons:
        made.append(comparisons(found))
    tested = [verdict for verdict in found.verdicts if verdict.verdict != VERDICTS[-1]]
    if tested:
        made += [claims(found, tested), cells(tested)]
    return made


def accuracies(found: Analysis) -> Section:
    """One line per cycle, and below it the paper's where it prints that cycle."""
    labels, paper = list(found.results.rows), found.paper
    grid = [["m", "density %", "all %", *(["of"] if paper else []), *labels, "n"]]
    first = grid[0].index(labels[0])
    marked: dict[tuple[int, int], str] = {}
    for cycle in found.cycles:
        led = led_by(found, cycle)
        marked |= {(len(grid), first + labels.index(label)): mark for label, mark in led.items()}
        grid.append(ours(found, cycle, labels))
        if paper:
            grid.append(["", "", percent(paper.density[cycle], 2), "paper", *theirs(found, cycle, labels), str(SEEDS)])
    between = "; cycles the paper does not print are in the formats csv and json" if paper else ""
    note = f"density of the prunable weights, and of all convolution and linear weights{between}"
    title = "Test accuracy at the early stop, percent: mean ± std over n seeds"
    return Section(title, grid, 4 if paper else 3, (3,) if paper else (), (note, worth(found)), marked)


def worth(found: Analysis) -> str:
    """What the zeros save where the network is used."""
    unit = found.results.config.get("pruning", {}).get("unit", {}).get("name", "weight")
    if unit == "filter":
        return "a pruned filter saves time and room once `scyc shrink` has taken it out, which measures both"
    return "scattered zeros make nothing faster on ordinary hardware; `scyc export` measures a run of these"


def led_by(found: Analysis, cycle: int) -> dict[str, str]:
    """Our best schedule of a cycle, and those within the noise floor of it."""
    return leaders(found.results.at(cycle), found.noise.spread(cycle) if found.noise else math.nan)


def ours(found: Analysis, cycle: int, labels: Sequence[str]) -> list[str]:
    rows = [found.results.row(label, cycle) for label in labels]
    n = max((row.n for row in rows if row), default=0)
    row = next(row for row in rows if row and not math.isnan(row.density))
    densities = [percent(row.density, 2), percent(row.density_all, 2)]
    return [str(cycle), *densities, *(["ours"] if found.paper else []), *(cell(row, n) for row in rows), str(n)]


def theirs(found: Analysis, cycle: int, labels: Sequence[str]) -> list[str]:
    assert found.paper
    mean, std = found.paper.mean, found.paper.std
    return [f"{percent(mean[x][cycle])}±{percent(std[x][cycle])}" if x in mean else "-" for x in labels]


def cell(row: Row | None, n: int) -> str:
    """mean±std in percent; its own n where that is another, and diverged seeds are said."""
    if row is None:
        return "-"
    lost = f"{len(row.diverged)} div" if row.diverged else ""
    if not row.n:
        return lost or "-"
    spread = "" if math.isnan(row.std) else f"±{percent(row.std)}"
    return " ".join(filter(None, [f"{percent(row.mean)}{spread}", f"({row.n})" if row.n != n else "", lost]))


def comparisons(found: Analysis) -> Section:
    head = ["m", "density %", "best benchmark", "difference", "95 % interval", "n", "p", "Holm p", "noise"]
    grid = [head]
    for c in found.comparisons:
        spread = found.noise.spread(c.cycle) if found.noise else math.nan
        numbers = [points(c.difference), interval(c), pairs(c.n, c.missing), probability(c.p), probability(c.holm)]
        grid.append([str(c.cycle), percent(c.density, 2), c.benchmark, *numbers, percent(spread, 2)])
    title = f"{found.comparisons[0].challenger} minus the benchmark that is best on validation, points, paired by seed"
    return Section(title, grid, words=(2,), notes=(noise_words(found),))


def interval(c: Comparison) -> str:
    return "-" if math.isnan(c.low) else f"{points(c.low)} to {points(c.high)}"


def pairs(n: int, missing: int) -> str:
    return f"{n} ({missing} lost)" if missing else str(n)


def noise_words(found: Analysis) -> str:
    if not found.noise:
        return "noise floor: none, it needs two seeds"
    first, second = (", ".join(map(str, half)) for half in found.noise.halves)
    largest, label, cycle = found.noise.largest
    return (
        f"noise floor: the same schedule, mean of seeds {first} minus mean of seeds {second}; root mean square over "
        f"schedules, in all cycles {percent(found.noise.spread(), 2)} points, at most {percent(largest, 2)} ({label}, "
        f"m = {cycle})"
    )


def claims(found: Analysis, tested: Sequence[Verdict]) -> Section:
    grid = [["claim", "says", "verdict", "sign", f"p < {LEVEL}", "in print"]]
    for v in tested:
        theirs = in_print(found.results, v.claim)
        proven = "-" if v.claim == 7 else f"{v.proven} of {len(v.cells)}"
        printed = "{} of {}".format(*theirs) if theirs else "-"
        grid.append([str(v.claim), v.statement, v.verdict, f"{v.held} of {len(v.cells)}", proven, printed])
    notes = [f"{v.claim}: {v.words}" for v in tested]
    notes += [f"{v.claim}: not tested, {v.words}" for v in found.verdicts if v not in tested]
    rule = "reproduced: the claimed sign with Holm p < 0.05 in every cell; direction only: the sign in every cell"
    return Section("Claims of the paper: cells with the claimed sign", grid, 1, (1, 2), (rule, *notes))


def cells(tested: Sequence[Verdict]) -> Section:
    grid = [["claim", "m", "density %", "what", "difference", "std", "n", "p", "Holm p", "as claimed"]]
    for verdict in tested:
        for c in verdict.cells:
            numbers = [points(c.difference), percent(c.spread, 2), pairs(c.n, c.missing)]
            said = [probability(c.p), probability(c.holm), "yes" if c.holds else "no"]
            grid.append([str(verdict.claim), str(c.cycle), percent(c.density, 2), c.what, *numbers, *said])
    return Section("Their cells, points, paired by seed", grid, words=(3,))
