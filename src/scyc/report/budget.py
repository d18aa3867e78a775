"""What a search cost: trainings, steps and seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scyc.report.rows import cycles_of
from scyc.store.runs import Store


@dataclass(frozen=True)
class Budget:
    trainings: int  # of one cycle each
    steps: int  # of one training
    seconds: float

    @property
    def words(self) -> str:
        every = self.trainings * self.steps
        return (
            f"{self.trainings:,} trainings of {self.steps:,} steps, {every:,} steps in all, {self.seconds:,.0f} seconds"
        )


def budget(store: Store, ids: Sequence[str]) -> Budget:
    """Of some studies together."""
    config = store.config(ids[0])
    steps = max(1, round(config["steps"] * config.get("scale", 1.0)))
    return Budget(sum(trainings(store, id) for id in ids), steps, sum(seconds(store, id) for id in ids))


def trainings(store: Store, id: str) -> int:
    config: Mapping[str, Any] = store.config(id)
    if config["peak"]["name"] == "refine":
        return int(config["peak"]["trials"]) * len(config["seed"]) * cycles_of(config)
    return len(config["seed"]) * sum(len(record["peaks"]) for record in store.records(id))


def seconds(store: Store, id: str) -> float:
    """What a study has taken so far, over all processes, as its events say."""
    return max((float(event["seconds"]) for event in store.events(id) if "seconds" in event), default=0.0)
