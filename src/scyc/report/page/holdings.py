"""What a store holds of one experiment: its results, the oracle of its name, and its distributions."""

from collections.abc import Iterator
from dataclasses import dataclass

from scyc.distribution import Settings
from scyc.distribution.measuring import JOURNAL
from scyc.report import oracle as oracles
from scyc.report.analysis import Analysis, analysed
from scyc.report.distribution import Distributions
from scyc.report.distribution import collect as collected
from scyc.report.oracle import Oracle
from scyc.report.rows import collect
from scyc.store.runs import Store


@dataclass(frozen=True)
class Holdings:
    """All that goes into the page of one experiment."""

    name: str
    doc: str
    analysis: Analysis | None  # None of an oracle alone
    oracle: Oracle | None
    distributions: tuple[Distributions, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Its schedules, or those an oracle was to be compared with."""
        if self.analysis:
            return tuple(self.analysis.results.rows)
        return tuple(self.oracle.compare) if self.oracle else ()

    @property
    def challenger(self) -> str | None:
        if self.analysis:
            return self.analysis.results.challenger
        compared = self.oracle.compare if self.oracle else {}
        return next((label for label, peak in compared.items() if peak.name == "scyc"), None)


def holdings(store: Store, name: str) -> Holdings:
    manifest = store.manifest(name)
    if "tune" in manifest:
        raise ValueError(f"experiment {name!r} is a tuning; `scyc tune` prints it again without training")
    if oracles.is_oracle(store, name):
        return Holdings(name, manifest["doc"], None, oracles.collect(store, name), ())
    beside = f"{name}-oracle"
    oracle = oracles.collect(store, beside) if oracles.is_oracle(store, beside) else None
    return Holdings(
        name, manifest["doc"], analysed(collect(store, name, whole=True)), oracle, tuple(measured(store, name))
    )


def measured(store: Store, name: str) -> Iterator[Distributions]:
    """Of the experiment's own runs; where those were never measured, of earlier experiments of its name."""
    earlier = [other for other in store.experiments() if other.startswith(f"{name}@")]
    for one in (name, *earlier):
        ways = ways_of(store, one)
        for settings in ways:
            yield collected(store, one, settings)
        if ways:
            return


def ways_of(store: Store, name: str) -> list[Settings]:
    """How the runs of an experiment were measured."""
    known = set(store.ids())
    ids = [id for _, group in store.manifest(name)["schedules"] for id in group if id in known]
    found = {(row["batches"], row["weights"]) for id in ids for row in store.beside(id, JOURNAL)}
    return [Settings(batches, weights) for batches, weights in sorted(found, key=str)]
