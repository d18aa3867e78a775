"""The page's chapters, in the order of a reader's questions."""

from scyc.report import narrowing_text
from scyc.report import oracle as oracles
from scyc.report.claims import VERDICTS
from scyc.report.document import accuracies, comparisons
from scyc.report.document import cells as cells_of
from scyc.report.narrowing import findings
from scyc.report.page import accuracy, distributions, made, networks, peaks, verdict
from scyc.report.page.block import Chapter, Choice, Cycles, Folded
from scyc.report.page.figure import Look
from scyc.report.page.holdings import Holdings
from scyc.report.rows import Results
from scyc.report.table import percent
from scyc.store.runs import Store


def chapters(store: Store, held: Holdings, look: Look) -> list[Chapter]:
    made_of = [verdicts(held), *tables(held, look), peak_chapter(held, look), *measured(held, look)]
    if held.analysis:
        made_of += [inside(held.analysis.results, look), made.chapter(store, held.analysis.results)]
    return [chapter for chapter in made_of if chapter.blocks]


def verdicts(held: Holdings) -> Chapter:
    found = verdict.claims(held.analysis, held.oracle, held.distributions)
    return Chapter("verdict", "The verdict", [found] if found else [])


def tables(held: Holdings, look: Look) -> list[Chapter]:
    found = held.analysis
    if not found:
        return []
    if not any(row.n for rows in found.results.rows.values() for row in rows):
        return [
            Chapter("accuracy", "Accuracy against density", ['<p class="lead">No run has finished a cycle yet.</p>'])
        ]
    tested = [one for one in found.verdicts if one.verdict != VERDICTS[-1]]
    sections: list[object] = [accuracies(found), *([comparisons(found)] if found.comparisons else [])]
    sections += [Folded(cells_of(tested))] if tested else []
    beside = "The table, beside the paper's" if found.paper else "The table"
    return [
        Chapter("accuracy", "Accuracy against density", accuracy.figures(found, look)),
        Chapter("table", beside, sections),
    ]


def peak_chapter(held: Holdings, look: Look) -> Chapter:
    found, oracle = held.analysis, held.oracle
    known = oracle or (found and any(found.results.rows.values()))
    blocks: list[object] = [peaks.course(found, oracle, look)] if known else []
    lead = "" if oracle else "No oracle lies beside it: `scyc oracle` finds the best peak and its feasible region."
    if found and any(found.results.rows.values()):
        blocks += [slider(found.results), peaks.inside(found.results, look)]
    return Chapter("peaks", "Peaks", [*blocks, *([oracles.section(oracle)] if oracle else [])], lead)


def slider(results: Results) -> Cycles:
    rows = next(rows for rows in results.rows.values() if rows)
    return Cycles(results.cycles, {row.cycle: f"{percent(row.density, 2)} % of the weights left" for row in rows})


def measured(held: Holdings, look: Look) -> list[Chapter]:
    """One chapter for every way in which distributions were measured."""
    made = []
    for k, found in enumerate(held.distributions):
        n = max(len(seeds) for seeds in found.rows.values())
        cycles = max(row["cycle"] for by_seed in found.rows.values() for rows in by_seed.values() for row in rows) + 1
        whose = "" if found.name == held.name else f" of the earlier experiment {found.name}"
        lead = (
            f"Measured{whose} in {cycles} cycles with {n} seed{'s' if n > 1 else ''}: gradients of "
            f"{found.settings.batches} batches, of the {found.settings.weights} weights."
        )
        every = distributions.figures(found, look)
        mass, ridges = ([f for f in every if ("schedule" in f.options) is whole] for whole in (False, True))
        blocks = [Choice(mass), Choice(ridges), Folded(narrowing_text.conclusions(findings(found)))]
        made.append(Chapter(f"distributions{k or ''}", "Distributions", blocks, lead))
    return made


def inside(results: Results, look: Look) -> Chapter:
    figures = networks.figures(results, look)
    maps, rest = ([f for f in figures if f.name.startswith("layers-") is is_map] for is_map in (True, False))
    stops, curves = rest[0], rest[1:]
    if not maps or not any(row.n for rows in results.rows.values() for row in rows):
        return Chapter("networks", "Networks", [])
    return Chapter("networks", "Networks", [Choice(maps), stops, slider(results), Choice(curves)])
