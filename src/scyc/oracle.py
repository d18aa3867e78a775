"""The greedy oracle of an experiment: which peaks, with which shape, and where its results lie (section 7)."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from scyc import peaks as grids
from scyc.config import ConfigError, Part, plain
from scyc.experiment import Experiment
from scyc.lr import Unmeasured
from scyc.question import Question
from scyc.registry import nearest
from scyc.run import Run, identified
from scyc.store.runs import Store
from scyc.study import write_manifest


def question(runs: Sequence[Run], peaks: Sequence[float], data_digest: str) -> Question:
    """The same peaks in every cycle; the best by validation accuracy, test accuracy beside it."""
    grid, seeds = tuple(peaks), [run.seed for run in runs]
    config = identified(runs[0], data_digest) | {"peak": {"name": "oracle", "peaks": list(grid)}, "seed": seeds}
    return Question(tuple(runs), lambda cycle, picks: grid, config)


def searched(experiment: Experiment, label: str | None = None) -> str:
    """The schedule whose shape is searched with: the one named, else the first with an S-Cyc peak, else the first."""
    if label is None:
        return next(iter([*challengers(experiment), *experiment.runs]))
    if label not in experiment.runs:
        raise nearest("schedule", label, experiment.runs)
    return label


def challengers(experiment: Experiment) -> list[str]:
    return [label for label, runs in experiment.runs.items() if runs[0].peak.name == "scyc"]


def grid(experiment: Experiment, label: str, given: str | None = None) -> tuple[float, ...]:
    """The peaks given, else the experiment's own, else 15 around the schedule's peak in the dense network."""
    if given is not None:
        return grids.listed(given)
    if experiment.oracle:
        return declared(experiment.oracle, experiment.name)
    return grids.spread(dense_peak(experiment.runs[label][0]))


def dense_peak(run: Run) -> float:
    return float(run.peak.make()(0, run.pruning.amount))


def declared(table: Mapping[str, Any], where: str) -> tuple[float, ...]:
    """`peaks = { first = 0.002, last = 0.12, step = 0.002 }`, a list, or a text as for --peaks."""
    for key in table:
        if key != "peaks":
            raise ConfigError(f"{where}: oracle: {nearest('key', key, ['peaks'])}")
    peaks = table.get("peaks")
    try:
        if isinstance(peaks, Mapping):
            return grids.stepped(*(Decimal(str(peaks[key])) for key in ("first", "last", "step")))
        return grids.listed(peaks if isinstance(peaks, str) else ",".join(map(str, peaks or ())))
    except (ValueError, ArithmeticError, KeyError, TypeError) as error:
        why = str(error) if type(error) is ValueError else "write { first = 0.002, last = 0.12, step = 0.002 }"
        raise ConfigError(f"{where}: oracle.peaks = {peaks!r}: {why}") from None


def compared(experiment: Experiment, labels: Sequence[str]) -> dict[str, Part]:
    """The peaks to place relative to the feasible region: every S-Cyc one, and those of the schedules named."""
    wanted = dict.fromkeys([*challengers(experiment), *(searched(experiment, label) for label in labels)])
    return {label: foreseen(label, experiment.runs[label][0]) for label in wanted}


def foreseen(label: str, run: Run) -> Part:
    """A run's peak, which must be known without training it."""
    try:
        run.peak.make()(1, run.pruning.amount)
    except Unmeasured:
        why = "waits for what its own run measures, and an oracle has none; compare another schedule"
        raise ConfigError(f"schedule {label!r}: its peak {run.peak.name!r} {why}") from None
    return run.peak


def named(experiment: Experiment) -> str:
    """The manifest's name: an experiment trained and an oracle searched lie in one store."""
    return experiment.name if experiment.name.startswith("oracle") else f"{experiment.name}-oracle"


def register(store: Store, experiment: Experiment, question: Question, compare: Mapping[str, Part]) -> None:
    """Make the study, and the manifest that finds it."""
    store.create(question.id, question.config)
    manifest = {
        "doc": experiment.doc,
        "published": experiment.published,
        "settings": question.id,
        "schedules": [["oracle", [question.id]]],
        "oracle": {"compare": [[label, plain(peak)] for label, peak in compare.items()]},  # a list keeps its order
    }
    write_manifest(store, named(experiment), manifest)
