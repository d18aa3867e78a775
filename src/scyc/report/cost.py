"""What an experiment cost, and where it was made, as the events of its runs say."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scyc.report.budget import Budget
from scyc.report.rows import Results, steps_until
from scyc.store.runs import Store

Event = Mapping[str, Any]
BEGIN, END = ("started", "resumed"), ("finished", "interrupted")


@dataclass(frozen=True)
class Cost:
    """Of all runs together."""

    budget: Budget
    untimed: int  # stretches of training that ended without a word: how long they took is not known

    @property
    def words(self) -> str:
        lost = f", without {self.untimed} stretches of a run that ended without a word" if self.untimed else ""
        return self.budget.words + lost


def cost(store: Store, results: Results, ids: Sequence[str]) -> Cost:
    """A run that several schedules share is paid for once."""
    known = [stretches(store.events(id)) for id in ids]
    trained = [len(store.records(id)) for id in ids]
    total = sum(steps_until(results.config, cycles) for cycles in trained)
    spent = Budget(sum(trained), results.steps, sum(s for s, _ in known), total)
    return Cost(spent, sum(untimed for _, untimed in known))


def stretches(events: Iterable[Event]) -> tuple[float, int]:
    """A run's share of the seconds of its stacks, and how many stretches have no end."""
    seconds, untimed, begin = 0.0, 0, None
    for event in events:
        if event["kind"] in BEGIN:
            untimed += begin is not None
            begin = event
        elif event["kind"] in END and begin is not None:
            seconds += (clock(event) - clock(begin)).total_seconds() / max(1, int(begin.get("runs", 1)))
            begin = None
    return seconds, untimed + (begin is not None)


def clock(event: Event) -> datetime:
    return datetime.fromisoformat(event["time"])


def environments(store: Store, ids: Iterable[str]) -> list[tuple[str, int]]:
    """Every environment and code that trained something, with the number of runs it did."""
    found: Counter[str] = Counter()
    for id in ids:
        begun = [event for event in store.events(id) if event["kind"] in BEGIN]
        found.update({*map(environment, begun)})
    return found.most_common()


def environment(event: Event) -> str:
    made = [f"{name} {value}" for name, value in event.get("environment", {}).items()]
    code = [f"scyc {event['code']}"] if "code" in event else []
    return ", ".join([*code, *made, *([f"engine {event['engine']}"] if "engine" in event else [])])
