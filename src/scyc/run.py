"""A run: one seed of one configuration, as a frozen value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from scyc.config import (
    ConfigError,
    Part,
    StepCount,
    chosen,
    digest,
    nested,
    part,
    plain,
    scaled,
    schema,
    shown,
    validated,
)
from scyc.data import READERS
from scyc.lr import PEAKS, SHAPES, Schedule
from scyc.model import MODELS
from scyc.prune import REWIND, SCOPE, SCORE, UNIT
from scyc.registry import Kind, clipped, nearest
from scyc.train import OPTIMIZER

MODEL = Kind("model", MODELS, arguments=2, imports=True)
PEAK = Kind("peak", PEAKS)
SHAPE = Kind("shape", SHAPES)
KINDS = {kind.name: kind for kind in (PEAK, SHAPE, SCORE, SCOPE, UNIT, REWIND, MODEL, READERS, OPTIMIZER)}

SCHEDULE = ("peak", "shape", "retrain_shape")  # what one schedule of an experiment may have of its own

Share = Annotated[float, Field(gt=0, lt=1)]
Counted = Annotated[int, StepCount(), Field(ge=1, le=10**9)]


@dataclass(frozen=True)
class Data:
    """A data set and how a run uses it."""

    source: Annotated[Part, chosen(READERS)]
    split: Literal["paper", "official"] = "paper"
    limit: Annotated[int, Field(ge=0, le=10**9)] = 0  # a seeded subset of so many images; 0: all
    augment: bool = False


def data(value: Any, info: Any) -> Data:
    """`{name = "npz", path = "x.npz", split = "paper"}`: the set's own fields stand beside how it is used."""
    if isinstance(value, Data):
        return value
    if not isinstance(value, str | Mapping):
        raise ConfigError(
            f"{shown(value)} is no data set; write a name, or a table with name = one of {READERS.names()}"
        )
    given = {"name": value} if isinstance(value, str) else dict(value)
    own = {key: given.pop(key) for key in ("split", "limit", "augment") if key in given}
    trust = bool(info.context and info.context.get("trust"))
    fields = schema(READERS.find(str(given.get("name")), trust=trust), READERS.arguments).model_fields
    for key in given:
        if key not in ("name", *fields):
            raise ConfigError(str(nearest("key", str(key), ("split", "limit", "augment", *fields))), clipped(str(key)))
    return validated(Data, {**own, "source": part(READERS, given, trust=trust)})


def number_or_all(value: Any) -> Any:
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**9):
        return value
    raise ConfigError(f"write a number of batches, at least 1, or 'all', got {shown(value)}")


@dataclass(frozen=True)
class Pruning:
    """A method: score x scope x unit x rewind, and the share of the remaining weights that one pruning removes."""

    amount: Share = 0.2
    score: Annotated[Part, chosen(SCORE)] = part(SCORE, "magnitude")
    scope: Annotated[Part, chosen(SCOPE)] = part(SCOPE, "global")
    unit: Annotated[Part, chosen(UNIT)] = part(UNIT, "weight")
    rewind: Annotated[Part, chosen(REWIND)] = part(REWIND, "none")
    score_batches: Annotated[int | str, PlainValidator(number_or_all)] = 10


SGD = part(OPTIMIZER, {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-4})


@dataclass(frozen=True)
class Run:
    """The whole configuration of one run; `scale` multiplies every step count and nothing else."""

    data: Annotated[Data, PlainValidator(data)]
    model: Annotated[Part, chosen(MODEL)]
    peak: Annotated[Part, chosen(PEAK)]
    shape: Annotated[Part, chosen(SHAPE)]
    steps: Counted
    batch: Annotated[int, Field(ge=1, le=10**7)] = 128
    cycles: Annotated[int, Field(ge=1, le=10**4)] = 25
    pruning: Annotated[Pruning, nested(Pruning)] = Pruning()
    optimizer: Annotated[Part, chosen(OPTIMIZER)] = SGD
    eval_every: Annotated[int, StepCount(), Field(ge=0, le=10**9)] = 0  # 0: a fiftieth of the steps
    precision: Literal["float32", "tf32", "bf16", "float64"] = "float32"
    retrain_steps: Annotated[int, StepCount(), Field(ge=0, le=10**9)] = 0  # of each later cycle; 0: those of the first
    retrain_shape: Annotated[Part | None, chosen(SHAPE)] = None  # of each later cycle; None: the last steps of `shape`
    scale: Annotated[float, Field(gt=0, le=1000)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    def __post_init__(self) -> None:
        snapshot = self.pruning.rewind.make().snapshot or 0
        if snapshot > self.steps:
            raise ValueError(f"pruning.rewind.k = {snapshot} is past the {self.steps} steps of a cycle")
        if self.retrain_steps > self.steps:
            where = f"retrain_steps = {self.retrain_steps} is more than the {self.steps} steps of the first cycle"
            raise ValueError(f"{where}; use as many or fewer, or 0 for as many")

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.peak.make(), self.shape.make())

    def steps_of(self, cycle: int) -> int:
        """The first cycle trains the dense network, and may be longer than the others."""
        return self.retrain_steps or self.steps if cycle else self.steps

    def steps_before(self, cycle: int) -> int:
        """Of all earlier cycles; before the one after the last: of the whole run."""
        return self.steps + (cycle - 1) * self.steps_of(1) if cycle else 0

    def shape_of(self, cycle: int) -> tuple[Part, int]:
        """A cycle's shape, and at which of its steps the cycle begins: a shorter one replays the end of the first."""
        if cycle and self.retrain_shape:
            return self.retrain_shape, 0
        return self.shape, self.steps - self.steps_of(cycle)

    def evaluations_of(self, cycle: int) -> int:
        """Steps between evaluations; at most fifty a cycle where nothing else is said."""
        return self.eval_every or math.ceil(self.steps_of(cycle) / 50)


def effective(run: Run) -> Run:
    """The run with its scale applied."""
    return replace(scaled(run, run.scale), scale=1.0) if run.scale != 1.0 else run


def identified(run: Run, data_digest: str) -> dict[str, Any]:
    """What a run's id is made of: what differs from the defaults, and always seed, precision and the data's content."""
    config = plain(run)
    config["data"].pop("path", None)  # content counts, not where it lies
    return {**config, "seed": run.seed, "precision": run.precision, "data_digest": data_digest}


def identity(run: Run, data_digest: str) -> str:
    return digest(identified(run, data_digest))


def stack_key(run: Run) -> str:
    """Runs with equal keys can train as one stack: they differ in seed and schedule alone."""
    return digest({name: value for name, value in plain(run).items() if name not in ("seed", *SCHEDULE)})


def run_from(config: Mapping[str, Any], *, trust: bool = False) -> Run:
    try:
        return validated(Run, config, trust=trust)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except RecursionError:
        raise ConfigError("nested too deep; no key needs more than four parts") from None
