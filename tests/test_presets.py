"""The bundled experiments against section 5 of the specification, typed by hand."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from scyc import describe
from scyc.config import ConfigError, plain
from scyc.experiment import Experiment, load, presets
from scyc.plan import planned
from scyc.run import Run, effective, run_from

SGD = {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-4}
CIFAR = {"name": "cifar10", "augment": True}  # split `paper`: 60/20/20 of everything
IMAGENET = {"name": "imagenet200", "augment": True}
FASHION = {"name": "fashion-mnist", "split": "official"}
GLOBAL_GRADIENT = ("gradient", "global", "weight", "none")
LAYER_GRADIENT = ("gradient", "layer", "weight", "none")
GLOBAL_MAGNITUDE = ("magnitude", "global", "weight", "none")
LAYER_MAGNITUDE = ("magnitude", "layer", "weight", "none")
IMP = ("magnitude", "global", "weight", "init")
L1_FILTERS = ("magnitude", "layer", "filter", "none")


def setting(model: Any, data: Any, method: tuple[str, ...], steps: int, batch: int = 128, **changes: Any) -> Any:
    fields = {"model": model, "data": data, "method": method, "steps": steps, "batch": batch}
    return {**fields, "cycles": 25, "optimizer": SGD, **changes}


TABLE_A = setting({"name": "resnet20"}, CIFAR, GLOBAL_GRADIENT, 63_000)
TABLE_B = setting({"name": "vgg19"}, CIFAR, LAYER_GRADIENT, 63_000)
TABLE_C = setting({"name": "resnet50"}, IMAGENET, IMP, 70_000)
ADAM = {"name": "adam", "weight_decay": 1e-4}
RMSPROP = {"name": "rmsprop", "weight_decay": 1e-4}
HIDDEN = [256, 256, 256]
PLAIN = {"cycles": 10, "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 0.0}}  # figure-mlp: no decay
SETTINGS = {
    "table-a": TABLE_A,
    "table-b": TABLE_B,
    "table-c": TABLE_C,
    "adam": setting({"name": "resnet20"}, CIFAR, GLOBAL_MAGNITUDE, 63_000, optimizer=ADAM),
    "rmsprop": setting({"name": "resnet20"}, CIFAR, GLOBAL_MAGNITUDE, 63_000, optimizer=RMSPROP),
    "figure-mlp": setting({"name": "mlp", "widths": HIDDEN}, FASHION, GLOBAL_MAGNITUDE, 375_000, 64, **PLAIN),
    "figure-mlp-bn": setting(
        {"name": "mlp", "widths": HIDDEN, "bn": True}, FASHION, GLOBAL_MAGNITUDE, 375_000, 64, **PLAIN
    ),
    "figure-alexnet": setting({"name": "alexnet"}, CIFAR, LAYER_MAGNITUDE, 781_000, 64, cycles=10),
    "figure-resnet": setting({"name": "resnet20"}, CIFAR, GLOBAL_GRADIENT, 63_000, cycles=10),
    "figure-vgg": setting({"name": "vgg16", "bn": True}, CIFAR, L1_FILTERS, 63_000, cycles=10),
    "oracle-a": TABLE_A,
    "oracle-b": TABLE_B,
    "oracle-c": TABLE_C,
}

CONSTANT: Any = {"name": "constant"}
SCYC = {
    "a": {"name": "scyc", "eps": 3e-2, "delta": 4e-2, "q": 1.0, "beta": 5.0},
    "b": {"name": "scyc", "eps": 4e-2, "delta": 6e-2, "q": 1.0, "beta": 4.0},
    "c": {"name": "scyc", "eps": 5e-2, "delta": 5e-2, "q": 2.0, "beta": 5.0},
    "adam": {"name": "scyc", "eps": 3e-3, "delta": 4e-3, "q": 1.0, "beta": 4.0},
    "rmsprop": {"name": "scyc", "eps": 1e-3, "delta": 2e-3, "q": 2.0, "beta": 5.0},
}


def fixed(lr: float) -> Any:
    return {"name": "fixed", "lr": lr}


def decay(steps: int) -> Any:
    return {"name": "decay", "steps": steps}


def cyclical(half: int) -> Any:
    return {"name": "cyclical", "half": half}


def warmup(ramp: int, *drops: int) -> Any:
    return {"name": "warmup", "ramp": ramp, "drops": list(drops)}


WARM_A, WARM_B = warmup(20_000, 20_000, 25_000), warmup(10_000, 32_000, 48_000)
WARM_C = warmup(4_000, 23_000, 46_000, 62_000)
SCHEDULES: dict[str, list[tuple[str, Any, Any]]] = {
    "table-a": [
        ("constant", fixed(1e-2), CONSTANT),
        ("decay", fixed(2e-2), decay(63_000)),
        ("cyclical", fixed(2.5e-2), cyclical(8_000)),
        ("warmup-1", fixed(3e-2), WARM_A),
        ("warmup-2", fixed(7e-2), WARM_A),
        ("scyc", SCYC["a"], WARM_A),
    ],
    "table-b": [
        ("constant", fixed(8e-3), CONSTANT),
        ("decay", fixed(1e-2), decay(63_000)),
        ("cyclical", fixed(3e-2), cyclical(15_000)),
        ("warmup-1", fixed(1e-1), WARM_B),
        ("warmup-2", fixed(4e-2), WARM_B),
        ("scyc", SCYC["b"], WARM_B),
    ],
    "table-c": [
        ("constant", fixed(1e-2), CONSTANT),
        ("decay", fixed(3e-2), decay(70_000)),
        ("cyclical", fixed(5e-2), cyclical(20_000)),
        ("warmup-1", fixed(1e-1), WARM_C),
        ("warmup-2", fixed(5e-2), WARM_C),
        ("scyc", SCYC["c"], WARM_C),
    ],
    "adam": [
        ("constant", fixed(8e-4), CONSTANT),
        ("decay", fixed(3e-3), decay(63_000)),
        ("cyclical", fixed(3e-2), cyclical(8_000)),
        ("warmup-1", fixed(3e-3), WARM_A),
        ("warmup-2", fixed(7e-3), WARM_A),
        ("scyc", SCYC["adam"], WARM_A),
        ("cyclical-3e-3", fixed(3e-3), cyclical(8_000)),
    ],
    "rmsprop": [
        ("constant", fixed(6e-4), CONSTANT),
        ("decay", fixed(2e-3), decay(63_000)),
        ("cyclical", fixed(3e-3), cyclical(10_000)),
        ("warmup-1", fixed(1e-3), WARM_A),
        ("warmup-2", fixed(3e-3), WARM_A),
        ("scyc", SCYC["rmsprop"], WARM_A),
    ],
    "figure-mlp": [("constant", fixed(1e-3), CONSTANT)],
    "figure-mlp-bn": [("constant", fixed(1e-3), CONSTANT)],
    "figure-alexnet": [("warmup", fixed(1e-2), warmup(150_000, 300_000, 400_000))],
    "figure-resnet": [("warmup", fixed(3e-2), WARM_A)],
    "figure-vgg": [("warmup", fixed(1e-1), WARM_B)],
    "oracle-a": [("scyc", SCYC["a"], WARM_A)],
    "oracle-b": [("scyc", SCYC["b"], WARM_B)],
    "oracle-c": [("scyc", SCYC["c"], WARM_C)],
}
PUBLISHED = {
    "table-a": "resnet20-cifar10-global-gradient",
    "table-b": "vgg19-cifar10-layer-gradient",
    "table-c": "resnet50-imagenet200-imp",
    "adam": "resnet20-cifar10-global-magnitude-adam",
    "rmsprop": "resnet20-cifar10-global-magnitude-rmsprop",
    "oracle-a": "resnet20-cifar10-global-gradient",
    "oracle-b": "vgg19-cifar10-layer-gradient",
    "oracle-c": "resnet50-imagenet200-imp",
}
PEAKS = {  # m = 0..9
    "table-a": "0.03 0.03 0.030039 0.0321325 0.047611 0.0644614 0.0689294 0.0697749 0.0699474 0.0699867",
    "table-b": "0.04 0.04 0.0402335 0.0454601 0.0671283 0.0887147 0.0967952 0.0990591 0.0997039 0.0999011",
    "table-c": "0.05 0.05 0.05 0.0500488 0.0526656 0.0720137 0.0930767 0.0986617 0.0997186 0.0999343",
    "adam": "0.003 0.003 0.00301556 0.00336401 0.00480855 0.00624764 0.00678634 0.00693727 0.00698026 0.0069934",
    "rmsprop": "0.001 0.001 0.001 0.00100195 0.00110662 0.00188055 0.00272307 0.00294647 0.00298874 0.00299737",
}


def test_the_specification_names_every_preset_but_the_demo() -> None:
    assert set(presets()) == {*SETTINGS, "digits"}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_run_is_as_written(name: str) -> None:
    wanted, experiment = SETTINGS[name], load(name)
    given = {key: wanted[key] for key in ("model", "data", "steps", "batch", "cycles", "optimizer")}
    score, scope, unit, rewind = wanted["method"]
    given["pruning"] = {"score": score, "scope": scope, "unit": unit, "rewind": rewind, "amount": 0.2}
    for label, peak, shape in SCHEDULES[name]:
        expected = [run_from({**given, "peak": peak, "shape": shape, "seed": seed}) for seed in range(5)]
        assert list(experiment.runs[label]) == expected


@pytest.mark.parametrize("name", SETTINGS)
def test_the_schedules_stand_in_the_papers_order(name: str) -> None:
    assert list(load(name).runs) == [label for label, _, _ in SCHEDULES[name]]


@pytest.mark.parametrize("name", SETTINGS)
def test_float32_five_seeds_and_evaluation_every_fiftieth_of_the_steps(name: str) -> None:
    experiment = load(name)
    assert experiment.seeds == [0, 1, 2, 3, 4]
    assert {(run.precision, run.scale, run.data.limit) for run in experiment.all} == {("float32", 1.0, 0)}
    assert {run.evaluations_of(0) for run in experiment.all} == {SETTINGS[name]["steps"] // 50}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_printed_table_is_named_where_there_is_one(name: str) -> None:
    assert load(name).published == PUBLISHED.get(name, "")


@pytest.mark.parametrize("name", SETTINGS)
def test_the_first_line_fits_a_terminal(name: str) -> None:
    assert 0 < len(presets()[name]) <= 84  # beside the longest name in 100 columns


@pytest.mark.parametrize("name", PEAKS)
def test_scyc_lr_shows_the_peaks_of_the_specification(name: str) -> None:
    grid = describe.peaks(load(name))
    column = grid[0].index("scyc")
    assert [row[column] for row in grid[1:11]] == PEAKS[name].split()


def test_a_warmup_that_ends_where_it_drops_is_said() -> None:
    said = describe.remarks(load("table-a", seeds="1"))
    assert said == [
        f"{label}: its warm-up ends where a drop begins, so the peak is reached at step 19,999 alone"
        for label in ("warmup-1", "warmup-2", "scyc")
    ]
    assert describe.remarks(load("table-b", seeds="1")) == []


@pytest.mark.parametrize("letter", "abc")
def test_an_oracle_is_its_tables_run_and_a_grid(letter: str) -> None:
    oracle, table = load(f"oracle-{letter}"), load(f"table-{letter}")
    assert oracle.runs["scyc"] == table.runs["scyc"]
    assert oracle.oracle == {"peaks": {"first": 0.002, "last": 0.12, "step": 0.002}}
    assert table.oracle == {}


def test_figure_mlp_is_500_epochs_of_the_48000_training_images() -> None:
    assert 500 * (48_000 // 64) == 375_000 == load("figure-mlp").all[0].steps


# Scale

COUNTS = {"steps", "ramp", "drops", "half", "eval_every", "k"}  # the names of step counts


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{place}")
    else:
        yield path, value


def expected_leaves(run: Run, factor: float) -> dict[str, Any]:
    found = dict(leaves(plain(run)))
    return {
        path: round(value * factor) if COUNTS & set(path.split(".")) else value
        for path, value in found.items()
        if path != ".scale"
    }


@pytest.mark.parametrize("name", presets())
def test_a_tenth_multiplies_every_step_count_and_nothing_else(name: str) -> None:
    for whole, tenth in zip(load(name).all, load(name, overrides=["scale=0.1"]).all, strict=True):
        assert dict(leaves(plain(effective(tenth)))) == expected_leaves(whole, 0.1)


def test_a_tenth_of_table_a_by_hand() -> None:
    runs = {label: effective(group[0]) for label, group in load("table-a", overrides=["scale=0.1"]).runs.items()}
    assert {run.steps for run in runs.values()} == {6_300}
    assert runs["decay"].shape.fields == {"steps": 6_300}
    assert runs["cyclical"].shape.fields == {"half": 800}
    assert runs["scyc"].shape.fields == {"ramp": 2_000, "drops": (2_000, 2_500)}
    assert runs["scyc"].peak.fields == {"eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0}


# Plans

NARROW = {"alexnet": ["model.width=0.05", "model.resize=63"], "mlp": []}


def narrow(name: str) -> Experiment:
    model = load(name, seeds="1").all[0].model.name
    return load(name, seeds="1", overrides=["batch=4", *NARROW.get(model, ["model.width=0.05"])])


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_planned_without_its_data(name: str) -> None:
    experiment = narrow(name)
    run = experiment.all[0]
    plans = planned(experiment, {}, device=torch.device("cpu"))
    assert all(p.steps == run.cycles * run.steps and p.seconds > 0 and p.memory > 0 for p in plans)
    if not experiment.oracle:
        assert sum(p.runs for p in plans) == len(experiment.all)


# What a file may not say


def test_a_published_table_that_is_none_is_named() -> None:
    message = "unknown table 'resnet20'; did you mean"
    with pytest.raises(ConfigError, match=message):
        load("digits", overrides=["published=resnet20"])


def test_an_oracle_that_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"digits: needs a table \[oracle\]"):
        load("digits", overrides=["oracle=3"])
