"""What a search cost: trainings, steps and seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scyc.report.rows import cycles_of, steps_of
from scyc.store.runs import Store


@dataclass(frozen=True)
class Budget:
    trainings: int  # of one cycle each
    steps: int  # of one training, of the dense network where pruned ones are trained for fewer
    seconds: float
    total: int  # steps of all trainings together

    @property
    def words(self) -> str:
        most = "" if self.total == self.trainings * self.steps else "at most "
        return (
            f"{self.trainings:,} trainings of {most}{self.steps:,} steps, {self.total:,} steps in all, "
            f"{self.seconds:,.0f} seconds"
        )


def budget(store: Store, ids: Sequence[str]) -> Budget:
    """Of some studies together."""
    steps = steps_of(store.config(ids[0]), 0)
    each = [(steps_of(store.config(id), cycle), count) for id in ids for cycle, count in trainings(store, id)]
    total = sum(steps * count for steps, count in each)
    return Budget(sum(count for _, count in each), steps, sum(seconds(store, id) for id in ids), total)


def trainings(store: Store, id: str) -> list[tuple[int, int]]:
    """How many there were of every cycle."""
    config: Mapping[str, Any] = store.config(id)
    seeds = len(config["seed"])
    if config["peak"]["name"] == "refine":
        return [(cycle, int(config["peak"]["trials"]) * seeds) for cycle in range(cycles_of(config))]
    return [(record["cycle"], seeds * len(record["peaks"])) for record in store.records(id)]


def seconds(store: Store, id: str) -> float:
    """What a study has taken so far, over all processes, as its events say."""
    return max((float(event["seconds"]) for event in store.events(id) if "seconds" in event), default=0.0)
