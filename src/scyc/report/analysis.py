"""Everything a report says of an experiment, computed once."""

from dataclasses import dataclass

from scyc.report import claims
from scyc.report.claims import Verdict
from scyc.report.compare import Comparison, compare
from scyc.report.noise import Noise, noise
from scyc.report.printed import Printed, named_cycles, printed
from scyc.report.rows import Results


@dataclass(frozen=True)
class Analysis:
    results: Results
    cycles: tuple[int, ...]  # that the tables have a line for
    comparisons: list[Comparison]
    noise: Noise | None  # None of a single seed
    paper: Printed | None  # the table it stands beside
    verdicts: list[Verdict]  # where there is such a table

    @property
    def seeds(self) -> str:
        return ", ".join(map(str, self.results.seeds))

    def verdict_numbers(self, verdict: str) -> list[int]:
        return [found.claim for found in self.verdicts if found.verdict == verdict]


def analysed(results: Results) -> Analysis:
    cycles, paper = named_cycles(results), printed(results)
    return Analysis(
        results,
        cycles,
        compare(results, cycles=cycles),
        noise(results, cycles),
        paper,
        claims.verdicts(results) if paper and cycles else [],
    )
