"""Stores with experiments typed by hand: every accuracy that a report has to show."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scyc.store.runs import Store

SCYC = {"name": "scyc", "eps": 0.1, "delta": 0.02, "q": 1, "beta": 5}
FIXED = {"name": "fixed", "lr": 0.1}
Accuracies = Mapping[str, Mapping[int, Sequence[float | None]]]  # by schedule and seed; None: diverged there


def record(cycle: int, accuracy: float | None, **more: Any) -> dict[str, Any]:
    """A cycle of a run with two layers; validation is test plus one point, the early stop is step 50 + cycle."""
    head = {"cycle": cycle, "peak": 0.1, "highest_lr": 0.1, "density": 0.5**cycle, "density_all": 0.5**cycle}
    head |= {"layers": {"first": 0.5**cycle, "last": 0.6**cycle}, "guarded": False, "state": "0" * 64}
    if accuracy is None:
        return {**head, "diverged": 7}
    curve = {"curve_step": [50, 100], "curve_train_loss": [1.0, 0.5], "curve_validation_loss": [1.2, 0.8]}
    return {
        **head,
        "step": 50 + cycle,
        "validation_loss": 0.8,
        "validation_accuracy": accuracy + 0.01,
        "test_loss": 0.9,
        "test_accuracy": accuracy,
        "last_test_accuracy": accuracy,
        **curve,
        "curve_validation_accuracy": [accuracy - 0.1, accuracy],
        **more,
    }


def config(seed: int, peak: Mapping[str, Any] = FIXED, cycles: int = 3) -> dict[str, Any]:
    return {
        "data": {"name": "digits"},
        "model": {"name": "mlp", "widths": [8]},
        "peak": dict(peak),
        "shape": {"name": "warmup", "ramp": 4, "drops": [60]},
        "steps": 100,
        "cycles": cycles,
        "precision": "float32",
        "seed": seed,
        "data_digest": "d" * 64,
    }


def stored(folder: Path, accuracies: Accuracies, name: str = "e", doc: str = "", cycles: int = 3, **more: Any) -> Store:
    """An experiment; the schedule `scyc` has an S-Cyc peak, all others a fixed one. `more` goes into every record."""
    store, schedules = Store(folder), []
    for label, by_seed in accuracies.items():
        ids = []
        for seed, values in by_seed.items():
            ids.append(f"{abs(hash((name, label, seed))) % 16**12:012x}")
            store.create(ids[-1], config(seed, SCYC if label == "scyc" else FIXED, cycles))
            for cycle, value in enumerate(values):
                store.append(ids[-1], record(cycle, value, **more))
        schedules.append([label, ids])
    manifest = {"doc": doc, "published": "", "settings": "0" * 12, "schedules": schedules}
    store.write_manifest(name, manifest)
    return store


TWO = {  # S-Cyc's means 85, 85, 75 %; low's 80, 75, 77 %
    "low": {0: (0.80, 0.70, 0.75), 1: (0.80, 0.80, 0.79)},
    "scyc": {0: (0.90, 0.80, 0.70), 1: (0.80, 0.90, 0.80)},
}
