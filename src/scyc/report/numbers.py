"""Every number of a report as plain rows, by what they are: the long form behind CSV and JSON."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from scyc.report.analysis import Analysis
from scyc.report.claims import in_print
from scyc.report.table import known

PlainRow = dict[str, Any]


def numbers(found: Analysis) -> dict[str, list[PlainRow]]:
    groups: dict[str, Iterable[PlainRow]] = {
        "rows": rows(found),
        "seeds": seeds(found),
        "paper": paper(found),
        "comparisons": [dataclasses.asdict(comparison) for comparison in found.comparisons],
        "noise": noise(found),
        "claims": claims(found),
        "cells": [{"claim": v.claim, **dataclasses.asdict(cell)} for v in found.verdicts for cell in v.cells],
    }
    return {name: [plain(row) for row in group] for name, group in groups.items()}


def plain(row: Mapping[str, Any]) -> PlainRow:
    return {name: known(value) if isinstance(value, float) else value for name, value in row.items()}


def rows(found: Analysis) -> list[PlainRow]:
    """Ours, by schedule and cycle: all cycles, whatever the paper prints."""
    return [
        {
            "schedule": row.schedule,
            "cycle": row.cycle,
            "density": row.density,
            "density_all": row.density_all,
            "peak": row.peak,
            "test_accuracy": row.mean,
            "test_accuracy_std": row.std,
            "n": row.n,
            "diverged": len(row.diverged),
        }
        for column in found.results.rows.values()
        for row in column
    ]


def seeds(found: Analysis) -> list[PlainRow]:
    """Ours, by schedule, cycle and seed."""
    return [
        {
            "schedule": row.schedule,
            "cycle": row.cycle,
            "seed": seed,
            "test_accuracy": accuracy,
            "validation_accuracy": row.validation[seed],
        }
        for column in found.results.rows.values()
        for row in column
        for seed, accuracy in row.test.items()
    ]


def paper(found: Analysis) -> Iterable[PlainRow]:
    """As printed."""
    if found.paper:
        for schedule, means in found.paper.mean.items():
            for cycle, mean in means.items():
                accuracy = {"test_accuracy": mean, "test_accuracy_std": found.paper.std[schedule][cycle]}
                yield {"schedule": schedule, "cycle": cycle, "density_all": found.paper.density[cycle], **accuracy}


def noise(found: Analysis) -> Iterable[PlainRow]:
    """One half of the seeds minus the other."""
    if found.noise:
        first, second = (" ".join(map(str, half)) for half in found.noise.halves)
        for schedule, column in found.noise.differences.items():
            for cycle, difference in column.items():
                halves = {"first_half": first, "second_half": second}
                yield {"schedule": schedule, "cycle": cycle, "difference": difference, **halves}


def claims(found: Analysis) -> Iterable[PlainRow]:
    for v in found.verdicts:
        theirs = in_print(found.results, v.claim) if v.cells else None
        row = {"claim": v.claim, "statement": v.statement, "verdict": v.verdict, "words": v.words}
        counts = {"cells_as_claimed": v.held, "cells_proven": v.proven, "cells": len(v.cells)}
        yield {**row, **counts, "in_print": "{} of {}".format(*theirs) if theirs else None}
