"""What q and beta to try next: an optuna study whose suggestions depend on nothing but the tunings before them."""

import logging
import math
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from scyc.draw import key

TOGETHER = 4
Q, BETA, STEP = (0.0, 3.0), (3.0, 6.0), 0.25  # the suggested ranges


@dataclass(frozen=True)
class Tuning:
    """One tried pair, and what it reached: mean validation accuracy over seeds and pruned cycles."""

    number: int
    q: float
    beta: float
    accuracy: float  # NaN before it is told


def library() -> ModuleType:
    try:
        import optuna
    except ImportError:
        raise ValueError(
            "q and beta are tuned with optuna, which is not installed; add it with the extra scyc[tune]"
        ) from None
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna  # type: ignore[no-any-return]


@contextmanager
def opened(path: Path, name: str) -> Iterator[Any]:
    """The optuna study of this name in a sqlite file."""
    optuna = library()
    create = {"creator": lambda: sqlite3.connect(path, check_same_thread=False)}  # any path, however it is spelled
    storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=create)
    try:
        yield optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    finally:
        storage.remove_session()
        storage.engine.dispose()


def asked_(found: Any, trials: int) -> None:
    """Ask the next four at once, where all before them are told; after a kill, the rest of them."""
    space = {"q": spaced(*Q), "beta": spaced(*BETA)}
    while (asked := len(tried(found))) < trials and (asked % TOGETHER or not running(found)):
        found.sampler = sampler(asked)
        found.ask(space)


def dropped_(found: Any) -> None:
    """Forget what was asked by half when the process died."""
    for trial in tried(found):
        if len(trial.params) < 2:
            found.tell(trial.number, state=library().trial.TrialState.FAIL)


def tried(found: Any) -> list[Any]:
    """The optuna trials that were asked whole."""
    return [trial for trial in found.trials if trial.state.name != "FAIL"]


def running(found: Any) -> list[int]:
    return [trial.number for trial in tried(found) if trial.state.name == "RUNNING"]


def tunings(found: Any) -> list[Tuning]:
    return [
        Tuning(t.number, t.params["q"], t.params["beta"], math.nan if t.value is None else t.value)
        for t in tried(found)
    ]


def best_of(found: Sequence[Tuning]) -> Tuning:
    """The first of the best."""
    return max(found, key=lambda tuning: tuning.accuracy)


def spaced(low: float, high: float) -> Any:
    return library().distributions.FloatDistribution(low, high, step=STEP)


def sampler(number: int) -> Any:
    """Its draws are keyed by the tuning, not a stream that a kill would break."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions call an argument experimental
        return library().samplers.TPESampler(
            seed=key("refine", number) % 2**32, n_startup_trials=TOGETHER, constant_liar=True
        )
