"""The smallest valid configuration of every registered name, and runs and stacks small enough for a test."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scyc import sweep
from scyc.cycle import Pulse, cycles
from scyc.data import Dataset, Images
from scyc.data.digits import digits
from scyc.experiment import experiment
from scyc.run import Run, run_from
from scyc.stack import Record, Stack, start
from scyc.store.runs import Store
from scyc.training import Control, Options, Training

EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {  # kind -> name -> the fields it needs
    "peak": {
        "fixed": {"lr": 0.1},
        "scyc": {"eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0},
        "reversed": {"eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0},
        "density": {"eps": 0.03, "alpha": 0.5, "cap": 0.2},
        "step": {"eps": 0.03, "delta": 0.04, "q": 4.0},
        "linear": {"eps": 0.03, "delta": 0.04, "cycles": 10},
        "table": {"peaks": [0.03, 0.05, 0.04]},
        "allr": {"lr": 0.1},
    },
    "shape": {
        "constant": {},
        "decay": {"steps": 8},
        "cyclical": {"half": 4},
        "warmup": {"ramp": 4},
        "ft": {"share": 0.01},
        "slr": {"steps": 6},
        "llr": {"steps": 6},
        "cosine": {"steps": 6},
        "one-cycle": {"steps": 6},
    },
    "score": {"magnitude": {}, "gradient": {}, "random": {}},
    "scope": {"global": {}, "layer": {}},
    "unit": {"weight": {}, "filter": {}},
    "rewind": {"none": {}, "init": {}, "step": {"k": 2}, "reinit": {}},
    "model": {
        "mlp": {},
        "alexnet": {},
        "resnet20": {},
        "resnet50": {},
        "vgg16": {},
        "vgg19": {},
        "vgg19_light": {},
        "vit": {},
    },
    "data": {
        "digits": {},
        "fashion-mnist": {},
        "mnist": {},
        "cifar10": {},
        "imagenet200": {},
        "folder": {"path": "pictures"},
        "npz": {"path": "own.npz"},
        "safetensors": {"path": "own.safetensors"},
    },
    "optimizer": {"sgd": {}, "adam": {}, "rmsprop": {}},
}
IN_PRUNING = ("score", "scope", "unit", "rewind")

SMALL: dict[str, Any] = {
    "data": {"name": "digits", "limit": 200},
    "model": {"name": "mlp", "widths": [8]},
    "peak": {"name": "fixed", "lr": 0.1},
    "shape": "constant",
    "steps": 6,
    "batch": 16,
    "cycles": 3,
    "eval_every": 2,
    "precision": "float64",
}
TINY_RESNET = {"name": "resnet20", "width": 0.125}


def configured(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """A small run's configuration that names this entry."""
    given = {"name": name, **EXAMPLES[kind][name], **fields}
    return {**SMALL, "pruning": {kind: given}} if kind in IN_PRUNING else {**SMALL, kind: given}


def small(**changes: Any) -> Run:
    """The small run, with some of its keys replaced."""
    return run_from({**SMALL, **changes})


@cache
def digit_images() -> Dataset:
    return digits(Path())


@cache
def colour(count: int = 60, side: int = 8, classes: int = 3) -> Dataset:
    """Random colour images, each with some brightness that tells its class."""
    draw = torch.Generator().manual_seed(7)
    labels = torch.arange(count) % classes
    noise = torch.randint(0, 128, (count, 3, side, side), generator=draw)
    images = (noise + 60 * labels[:, None, None, None]).to(torch.uint8)
    return Dataset(Images(images, labels), None, classes, mean=None, std=None)


def stack_of(runs: Sequence[Run], dataset: Dataset | None = None, engine: str = "stacked") -> Stack:
    ids = [f"run-{k}" for k in range(len(runs))]
    return start(ids, runs, dataset or digit_images(), engine=engine, device=torch.device("cpu"))


def nothing(stack: Stack) -> None:
    """The pulse that does nothing."""


def finished(stack: Stack, pulse: Pulse = nothing) -> list[list[Record]]:
    """Train to the end; the records of every run."""
    for _ in cycles(stack, pulse):
        pass
    return stack.history


def kept(root: Path, keep: str = "last", engine: str = "auto", **changes: Any) -> tuple[Store, str]:
    """The small run, with some of its keys replaced, trained to its end in a store."""
    config = {**SMALL, **changes}
    schedule = {name: config.pop(name) for name in ("peak", "shape")}
    one = experiment({"run": config, "schedules": {"one": schedule}}, "small", seeds="1", trust=True)
    found, store = sweep.datasets(one, (), trust=True), Store(root)
    ids = sweep.identities(one, found)
    sweep.register(store, one, ids, found)
    options = Options(torch.device("cpu"), engine, keep=keep)
    Training(store, found, options, Control()).train(sweep.by_id(one, ids))
    return store, ids["one"][0]


def colour_file(folder: Path, side: int = 8) -> str:
    """The colour images as a file of the user's own; its path."""
    images = colour(side=side).train
    np.savez(folder / "own.npz", images=images.images.numpy(), labels=images.labels.numpy())
    return str(folder / "own.npz")


def each(records: Sequence[Sequence[Mapping[str, Any]]], pick: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    """Something of every record."""
    return [pick(record) for rows in records for record in rows]
