"""Iterative pruning of PyTorch networks, and the learning rate that goes with it."""

import importlib
from typing import Any

MODULES = ("export", "lr", "mask", "prune", "shrink")
NAMES = {
    "Cycle": "scyc.iteratively",
    "Experiment": "scyc.experiment",
    "Method": "scyc.method",
    "Record": "scyc.pruner",
    "Run": "scyc.run",
    "Store": "scyc.store.runs",
    "load": "scyc.experiment",
    "collect": "scyc.report.rows",
    "prune_iteratively": "scyc.iteratively",
}
__all__ = ["Cycle", "Experiment", "Method", "Record", "Run", "Store"]
__all__ += ["collect", "export", "load", "lr", "mask", "prune", "prune_iteratively", "shrink"]


def __getattr__(name: str) -> Any:
    """Names are imported when first used, so that `scyc --help` does not wait for torch."""
    if name in MODULES:
        return importlib.import_module(f"scyc.{name}")
    if name in NAMES:
        return getattr(importlib.import_module(NAMES[name]), name)
    raise AttributeError(f"module 'scyc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
