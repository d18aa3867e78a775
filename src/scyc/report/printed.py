"""The paper's table of an experiment: its cells, and the same as results, so that claims can be asked of it too."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scyc.paper import published
from scyc.report.rows import Results, Row

SEEDS = 5  # of every printed table


@dataclass(frozen=True)
class Printed:
    """Test accuracies as shares, by schedule and cycle."""

    density: Mapping[int, float]  # by cycle, as printed
    mean: Mapping[str, Mapping[int, float]]
    std: Mapping[str, Mapping[int, float]]


def printed(results: Results) -> Printed | None:
    """The table that stands beside the results, its schedules under our labels; None where there is none."""
    table = published().get(results.published, {}).get("accuracy")
    if table is None:
        return None
    cycles = table["cycle"]
    columns = {label: table[label.replace("-", "_")] for label in results.rows if label.replace("-", "_") in table}
    return Printed(
        by_cycle(cycles, table["density"]),
        {label: by_cycle(cycles, column["mean"]) for label, column in columns.items()},
        {label: by_cycle(cycles, column["std"]) for label, column in columns.items()},
    )


def by_cycle(cycles: list[int], percents: list[float]) -> dict[int, float]:
    return {cycle: percent / 100 for cycle, percent in zip(cycles, percents, strict=True)}


def named_cycles(results: Results) -> tuple[int, ...]:
    """The cycles a table has a line for: the printed ones that we have too, or all where nothing is printed."""
    paper = printed(results)
    return tuple(cycle for cycle in range(results.cycles) if paper is None or cycle in paper.density)


def as_results(paper: Printed, results: Results) -> Results:
    """The printed means as results of a single seed: signs can be read from them, and nothing can be tested."""
    rows = {label: [row(paper, results, label, cycle) for cycle in means] for label, means in paper.mean.items()}
    configs = {label: config for label, config in results.configs.items() if label in rows}
    return replace(results, rows=rows, configs=configs, seeds=(0,))


def row(paper: Printed, results: Results, label: str, cycle: int) -> Row:
    mean, density = {0: paper.mean[label][cycle]}, paper.density[cycle]
    return Row(label, cycle, density, density, peak(results.configs[label]), mean, mean, ())


def peak(config: Mapping[str, Any]) -> float:
    """Of the dense network."""
    return float(config["peak"].get("lr", config["peak"].get("eps", 0.0)))
