"""What lies in a store: the words behind `scyc ls`, `scyc show` and `scyc diff`."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from scyc.report.rows import cycles_of
from scyc.store.runs import Store

Grid = list[list[str]]


def experiments(store: Store) -> Grid:
    """Every experiment: its runs, and how many are recorded to the end."""
    grid = [["experiment", "schedules", "runs", "finished", "diverged"]]
    present = set(store.ids())
    for name in store.experiments():
        schedules = dict(store.manifest(name)["schedules"])
        states = [state(store.config(id), store.last(id)) for ids in schedules.values() for id in ids if id in present]
        counts = [len(states), states.count("finished") + states.count("diverged"), states.count("diverged")]
        grid.append([name, str(len(schedules)), *map(str, counts)])
    return grid


def state(config: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """How far a run is recorded, by its last record."""
    if "diverged" in last:
        return "diverged"
    done, cycles = last.get("cycle", -1) + 1, cycles_of(config)
    return "finished" if done == cycles else f"{done}/{cycles}"


def runs(store: Store, name: str | None = None) -> Grid:
    """Every run, of one experiment or of the store."""
    grid = [["run", "model", "peak", "shape", "seed", "state", "density %", "test %"]]
    ids = store.ids()
    if name is not None:
        present = set(ids)
        ids = [id for _, group in store.manifest(name)["schedules"] for id in group if id in present]
    for id in dict.fromkeys(ids):
        config, last = store.config(id), store.last(id)
        reached = f"{100 * last['test_accuracy']:.1f}" if "test_accuracy" in last else "-"
        density = f"{100 * last['density']:.2f}" if last else "-"
        names = [config[part]["name"] for part in ("model", "peak", "shape")]
        grid.append([id, *names, str(config["seed"]), state(config, last), density, reached])
    return grid


def show(store: Store, id: str) -> str:
    """One run: configuration, one line per cycle, and what happened to it."""
    cycles = [["m", "density %", "peak", "step", "validation %", "test %", "last test %"]]
    for r in store.records(id):
        peak = f"{r['peak']:.6g}" if "peak" in r else "-"  # a search that found none, or looked at no test set
        step = f"diverged at {r['diverged']}" if "diverged" in r else str(r.get("step", "-"))
        names = ("validation_accuracy", "test_accuracy", "last_test_accuracy")
        numbers = [f"{100 * r[name]:.2f}" if name in r else "-" for name in names]
        cycles.append([str(r["cycle"]), f"{100 * r['density']:.2f}", peak, step, *numbers])
    from scyc.report.table import aligned

    events = [f"{e['time']}  {e['kind']}  {facts(e)}".rstrip() for e in store.events(id)]
    config = store.config(id)
    head = f"run {id}  ({state(config, store.last(id))})"
    text = json.dumps(config, indent=2, ensure_ascii=False)
    return "\n\n".join([head, text, aligned(cycles), "\n".join(events)])


def facts(event: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in event.items() if k not in ("time", "kind", "run"))


def diff(store: Store, one: str, other: str) -> Grid:
    """Where two runs' configurations and last records differ."""
    grid = [["what", one, other]]
    pairs = [flat(store.config(one)), flat(store.config(other))]
    for source in (pairs, [flat(results(store, one)), flat(results(store, other))]):
        left, right = source
        for key in sorted({*left, *right}):
            if left.get(key) != right.get(key):
                grid.append([key, str(left.get(key, "-")), str(right.get(key, "-"))])
    return grid


def results(store: Store, id: str) -> dict[str, Any]:
    records = store.records(id)
    last = records[-1] if records else {}
    return {name: last[name] for name in ("cycle", "density", "test_accuracy", "diverged") if name in last}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys, as --set takes them."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def only_in(store: Store, names: Collection[str]) -> set[str]:
    """The runs of these experiments that no other experiment holds."""
    held = {name: {id for _, ids in store.manifest(name)["schedules"] for id in ids} for name in store.experiments()}
    inside = {id for name, ids in held.items() if name in names for id in ids}
    outside = {id for name, ids in held.items() if name not in names for id in ids}
    return (inside - outside) & set(store.ids())
