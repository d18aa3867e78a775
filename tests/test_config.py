"""Configurations: what is taken, what is refused and how, the names of values, and scaling."""

import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from examples import EXAMPLES, IN_PRUNING, SMALL, small
from scyc import config
from scyc.config import ConfigError, Part, Steps, digest, nested, override, part, plain, scaled, validated
from scyc.registry import Kind
from scyc.run import KINDS, Run, effective, identity, run_from, stack_key

Size = Callable[[int, int], int]
Figure = Callable[[str], None]
WHOLE = {"peak": {"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1, "beta": 5}}


def refused(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        small(**changes)
    assert "\n" not in str(error.value)
    return str(error.value)


# TOML and overrides


def test_reads_toml(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('steps = 10\n[model]\nname = "mlp"\nwidths = [3, 4]\n')
    assert config.read(path) == {"steps": 10, "model": {"name": "mlp", "widths": [3, 4]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"steps = = 3", "Invalid value"),
        (b"a = 1\n\n[model\n", "line 3"),
        (b"\xff\xfe", "can't decode"),
        (b"a = " + b"[" * 5000, "nested too deep"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_path(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        config.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="directory"):
        config.read(tmp_path)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("steps=100", {"steps": 100, "model": "mlp"}),
        ("peak.lr = 1e-2", {"steps": 10, "model": "mlp", "peak": {"lr": 0.01}}),
        ("model.bn=true", {"steps": 10, "model": {"name": "mlp", "bn": True}}),
        ("model=resnet20", {"steps": 10, "model": "resnet20"}),
        ('model="resnet20"', {"steps": 10, "model": "resnet20"}),
        ("data.path=a=b.npz", {"steps": 10, "model": "mlp", "data": {"path": "a=b.npz"}}),
        ("shape.drops=[1, 2]", {"steps": 10, "model": "mlp", "shape": {"drops": [1, 2]}}),
        ("a.b.c=1", {"steps": 10, "model": "mlp", "a": {"b": {"c": 1}}}),
        ("model.name=x", {"steps": 10, "model": {"name": "x"}}),
        ("model=", {"steps": 10, "model": ""}),
    ],
)
def test_override(assignment: str, expected: dict[str, Any]) -> None:
    before = {"steps": 10, "model": "mlp"}
    assert override(before, assignment) == expected
    assert before == {"steps": 10, "model": "mlp"}


@pytest.mark.parametrize("assignment", ["steps", "", "=3", ".=3", "a..b=3", "a.=3"])
def test_an_override_without_key_or_value_shows_how(assignment: str) -> None:
    with pytest.raises(ConfigError, match=r"write part.field=value, as in --set pruning.amount=0.3"):
        override({}, assignment)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "+nan"])
def test_an_override_with_no_finite_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="not a finite number"):
        override({}, f"peak.lr={value}")


def test_an_override_cannot_go_below_a_number() -> None:
    with pytest.raises(ConfigError, match=r"--set steps.more: steps is 10 and has no fields"):
        override({"steps": 10}, "steps.more=3")


def test_an_override_reaches_the_run() -> None:
    run = run_from(override(override(SMALL, "pruning.rewind=step"), "pruning.rewind.k=4"))
    assert plain(run.pruning.rewind) == {"name": "step", "k": 4}


# What is refused, and how


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stpes": 3}, "stpes: unknown key 'stpes'; did you mean 'steps'?"),
        ({"pruning": {"amonut": 0.2}}, "pruning.amonut: unknown key 'amonut'; did you mean 'amount'?"),
        ({"model": "resnet2"}, "model: unknown model 'resnet2'; did you mean 'resnet20'?"),
        ({"model": {"name": "mlp", "witdh": 1.0}}, "model.witdh: unknown key 'witdh'; did you mean 'width'?"),
        ({"pruning": {"score": "magnitud"}}, "pruning.score: unknown score 'magnitud'; did you mean 'magnitude'?"),
        (
            {"pruning": {"rewind": {"name": "step", "kk": 1}}},
            "pruning.rewind.kk: unknown key 'kk'; did you mean 'k'?",
        ),
        ({"data": {"name": "digits", "lmit": 1}}, "data.lmit: unknown key 'lmit'; did you mean 'limit'?"),
        ({"data": "digit"}, "data: unknown data 'digit'; did you mean 'digits'?"),
        ({"optimizer": {"name": "sdg"}}, "optimizer: unknown optimizer 'sdg'; did you mean 'sgd'?"),
        ({"peak": {"name": "fixed"}}, "peak.lr: this key is required"),
        ({"data": {"name": "npz"}}, "data.path: this key is required"),
        ({"a\nb": 1}, "a\\nb: unknown key 'a\\nb'"),
        ({"model": {"name": "mlp", "a\tb": 1}}, "model.a\\tb: unknown key"),
        ({"model": {"name": "os:getcwd"}}, "model: model 'os:getcwd' is code outside scyc"),
        ({"peak": {"name": "os:getcwd"}}, "peak: unknown peak 'os:getcwd'"),
    ],
)
def test_an_unknown_key_or_name_says_where_and_which_is_nearest(changes: dict[str, Any], said: str) -> None:
    assert refused(**changes).startswith(said)


def test_a_missing_part_is_named() -> None:
    with pytest.raises(ConfigError) as error:
        run_from({key: value for key, value in SMALL.items() if key != "peak"})
    assert str(error.value) == "peak: this key is required"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"steps": True}, "steps"),  # bool is an int to Python
        ({"steps": "5"}, "steps"),
        ({"steps": 5.0}, "steps"),
        ({"steps": 0}, "steps"),
        ({"steps": -1}, "steps"),
        ({"steps": 10**30}, "steps"),
        ({"steps": None}, "steps"),
        ({"steps": [5]}, "steps"),
        ({"steps": {"name": 5}}, "steps"),
        ({"batch": 10**8}, "batch"),
        ({"batch": 0}, "batch"),
        ({"cycles": 0}, "cycles"),
        ({"cycles": 10**5}, "cycles"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
        ({"eval_every": -1}, "eval_every"),
        ({"scale": 0.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"scale": math.inf}, "scale"),
        ({"scale": 10**400}, "scale"),
        ({"precision": "float16"}, "precision"),
        ({"pruning": "magnitude"}, "pruning"),
        ({"pruning": {"amount": 0.0}}, "pruning.amount"),
        ({"pruning": {"amount": 1.0}}, "pruning.amount"),
        ({"pruning": {"amount": math.nan}}, "pruning.amount"),
        ({"pruning": {"amount": "0.2"}}, "pruning.amount"),
        ({"pruning": {"amount": True}}, "pruning.amount"),
        ({"pruning": {"score": 3}}, "pruning.score"),
        ({"pruning": {"score_batches": 0}}, "pruning.score_batches"),
        ({"pruning": {"score_batches": -3}}, "pruning.score_batches"),
        ({"pruning": {"score_batches": True}}, "pruning.score_batches"),
        ({"pruning": {"score_batches": 2.0}}, "pruning.score_batches"),
        ({"pruning": {"score_batches": "some"}}, "pruning.score_batches"),
        ({"pruning": {"rewind": {"name": "step", "k": 0}}}, "pruning.rewind"),
        ({"pruning": {"rewind": {"name": "step", "k": 7}}}, "pruning.rewind.k = 7 is past the 6 steps"),
        ({"peak": {"name": "fixed", "lr": "0.1"}}, "peak.lr"),
        ({"peak": {"name": "fixed", "lr": math.inf}}, "peak.lr"),
        ({"peak": {"name": "fixed", "lr": 10**400}}, "peak.lr"),
        ({"peak": {"name": "fixed", "lr": True}}, "peak.lr"),
        ({"peak": {"name": "fixed", "lr": -0.1}}, "peak"),
        ({"shape": {"name": "warmup", "ramp": 2, "drops": [1, "a"]}}, "shape.drops.1"),
        ({"shape": {"name": "warmup", "ramp": 2, "drops": [3, 1]}}, "shape"),
        ({"model": {"name": "mlp", "bn": 1}}, "model.bn"),
        ({"model": {"name": "mlp", "width": math.nan}}, "model.width"),
        ({"model": {"name": "mlp", "widths": "abc"}}, "model.widths"),
        ({"model": None}, "model"),
        ({"model": {"width": 1.0}}, "model"),
        ({"data": {"name": "digits", "limit": -1}}, "data.limit"),
        ({"data": {"name": "digits", "augment": 1}}, "data.augment"),
        ({"data": {"name": "digits", "split": "half"}}, "data.split"),
        ({"data": {"name": "digits", 3: 4}}, "data.3"),
        ({"optimizer": {"name": "sgd", "momentum": -0.9}}, "optimizer.momentum"),
        ({"optimizer": {"name": "sgd", "weight_decay": -1e-4}}, "optimizer.weight_decay"),
        ({"optimizer": {"name": "adam", "beta1": 1.0}}, "optimizer.beta1"),
        ({"optimizer": {"name": "adam", "eps": -1e-8}}, "optimizer.eps"),
        ({"optimizer": {"name": "rmsprop", "alpha": -0.1}}, "optimizer.alpha"),
    ],
)
def test_types_and_ranges_are_strict(changes: dict[str, Any], path: str) -> None:
    assert refused(**changes).startswith(path)


def test_what_is_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    for changes in ({"model": deep}, {"pruning": deep}, {"other": deep}, {"model": {"name": "mlp", "widths": deep}}):
        assert "nested too deep" in refused(**changes)


def test_a_whole_number_is_taken_as_a_real_one() -> None:
    assert small(**WHOLE) == small(peak={"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0})
    assert identity(small(**WHOLE), "d") == identity(
        small(peak={"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0}), "d"
    )


def test_lists_become_tuples_so_that_values_are_frozen_and_hash() -> None:
    run = small(shape={"name": "warmup", "ramp": 2, "drops": [3, 4]}, model={"name": "mlp", "widths": [3, 4]})
    assert run.shape.fields["drops"] == (3, 4)
    assert run.model.fields["widths"] == (3, 4)
    assert len({run, small(shape=plain(run.shape), model=plain(run.model))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.steps = 3  # type: ignore[misc]


# Names of values

HAND_WRITTEN = (
    '{"batch":64,"data":{"name":"digits"},"data_digest":"abc","model":{"bn":true,"name":"mlp"},'
    '"peak":{"lr":0.001,"name":"fixed"},"precision":"float32","pruning":{"amount":0.5},"seed":3,'
    '"shape":{"drops":[3,4],"name":"warmup","ramp":2},"steps":100}'
)


def test_an_id_is_12_digits_of_the_sha256_of_the_canonical_json() -> None:
    run = run_from(
        {
            "steps": 100,
            "cycles": 25,  # the default
            "shape": {"ramp": 2, "drops": [3, 4], "name": "warmup"},
            "peak": {"name": "fixed", "lr": 1e-3},
            "model": {"bn": True, "name": "mlp", "dropout": 0.0},
            "data": "digits",
            "batch": 64,
            "seed": 3,
            "pruning": {"amount": 0.5, "score": "magnitude", "rewind": {"name": "none"}},
            "optimizer": {"weight_decay": 0.0001, "name": "sgd", "momentum": 0.9},
        }
    )
    assert identity(run, "abc") == hashlib.sha256(HAND_WRITTEN.encode()).hexdigest()[:12]


def test_json_is_canonical() -> None:
    assert config.canonical({"b": 1, "a": [1.5, "ä", True, None]}) == '{"a":[1.5,"ä",true,null],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        config.canonical(math.nan)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 7},
        {"seed": 1},
        {"precision": "float32"},
        {"batch": 17},
        {"cycles": 4},
        {"scale": 0.5},
        {"eval_every": 3},
        {"peak": {"name": "fixed", "lr": 0.2}},
        {"shape": {"name": "decay", "steps": 6}},
        {"optimizer": "sgd"},  # without the default's momentum and decay
        {"model": {"name": "mlp", "widths": [8], "bn": True}},
        {"data": {"name": "digits", "limit": 201}},
        {"data": {"name": "digits", "limit": 200, "augment": True}},
        {"pruning": {"score_batches": "all"}},
        {"pruning": {"scope": "layer"}},
    ],
)
def test_everything_that_differs_counts(changes: dict[str, Any]) -> None:
    assert identity(small(**changes), "d") != identity(small(), "d")
    assert identity(small(), "d") != identity(small(), "e")


@pytest.mark.parametrize("name", ["npz", "safetensors", "folder"])
def test_where_data_lies_does_not_count(name: str) -> None:
    here, there = (small(data={"name": name, "path": path, "limit": 9}) for path in ("here", "/there"))
    assert here != there
    assert identity(here, "d") == identity(there, "d")
    assert identity(here, "d") != identity(small(data={"name": name, "path": "here"}), "d")


def test_what_stacks_differs_in_seed_and_schedule_alone() -> None:
    alike = small(seed=5, peak={"name": "fixed", "lr": 9.0}, shape={"name": "decay", "steps": 6})
    assert stack_key(alike) == stack_key(small())
    assert stack_key(small(batch=17)) != stack_key(small())
    assert stack_key(small(scale=2.0)) != stack_key(small())


@dataclass(frozen=True)
class Old:
    lr: float
    steps: Steps = 10


@dataclass(frozen=True)
class New:
    lr: float
    steps: Steps = 10
    warm: bool = False
    inner: Old = Old(lr=1.0)


def test_a_field_added_with_a_default_that_does_nothing_changes_no_id() -> None:
    assert digest(plain(Old(0.5, 20))) == digest(plain(New(0.5, 20)))
    assert digest(plain(Old(0.5))) == digest(plain(New(0.5)))
    assert digest(plain(New(0.5, warm=True))) != digest(plain(New(0.5)))
    assert digest(plain(New(0.5, inner=Old(2.0)))) != digest(plain(New(0.5)))


def test_the_same_holds_for_the_fields_of_an_entry() -> None:
    def old(lr: float, low: float = 0.0) -> float:
        return lr

    def new(lr: float, low: float = 0.0, high: float = 1.0) -> float:
        return lr

    kinds = [Kind("rate", {"x": entry}) for entry in (old, new)]
    parts = [part(kind, {"name": "x", "lr": 0.5, "low": 0.0}) for kind in kinds]
    assert plain(parts[0]) == plain(parts[1]) == {"name": "x", "lr": 0.5}
    assert parts[1].make() == 0.5


def test_a_dataclass_within_a_dataclass_is_checked_by_path() -> None:
    @dataclass(frozen=True)
    class Outer:
        inner: Annotated[Old, nested(Old)] = Old(lr=1.0)

    assert validated(Outer, {"inner": {"lr": 2}}) == Outer(Old(2.0))
    with pytest.raises(ConfigError, match=r"^inner.lr: "):
        validated(Outer, {"inner": {"lr": "2"}})


# Scaling

SCALABLE = {
    "steps": 1000,
    "batch": 128,
    "cycles": 5,
    "eval_every": 30,
    "seed": 7,
    "peak": {"name": "scyc", "eps": 0.03, "delta": 0.04, "q": 1.0, "beta": 5.0},
    "shape": {"name": "warmup", "ramp": 200, "drops": [200, 250, 996]},
    "pruning": {"amount": 0.3, "score_batches": 20, "rewind": {"name": "step", "k": 100}},
    "optimizer": {"name": "adam", "beta1": 0.8},
    "model": {"name": "mlp", "widths": [30, 20]},
    "data": {"name": "digits", "limit": 900},
}


def test_scale_multiplies_every_step_count_and_nothing_else() -> None:
    before, after = small(**SCALABLE), effective(small(**SCALABLE, scale=0.1))
    expected = {
        **SCALABLE,
        "steps": 100,
        "eval_every": 3,
        "shape": {"name": "warmup", "ramp": 20, "drops": [20, 25, 100]},
        "pruning": {"amount": 0.3, "score_batches": 20, "rewind": {"name": "step", "k": 10}},
    }
    assert after == small(**expected)
    assert effective(before) == before


@pytest.mark.parametrize(
    ("shape", "scaled_shape"),
    [
        ({"name": "decay", "steps": 1000}, {"name": "decay", "steps": 50}),
        ({"name": "cyclical", "half": 310, "low": 0.25}, {"name": "cyclical", "half": 16, "low": 0.25}),
        ({"name": "warmup", "ramp": 3, "drops": [8, 9]}, {"name": "warmup", "ramp": 1, "drops": [1, 1]}),
        ("constant", "constant"),
    ],
)
def test_scaled_counts_are_rounded_and_at_least_one(shape: Any, scaled_shape: Any) -> None:
    run = effective(small(steps=1000, shape=shape, scale=0.05))
    assert (run.steps, run.shape) == (50, small(shape=scaled_shape).shape)
    assert effective(small(steps=4, scale=0.05)).steps == 1


def test_scale_makes_longer_too() -> None:
    assert effective(small(steps=10, scale=2.5)).steps == 25


def test_evaluations_of_a_scaled_run_are_a_fiftieth_of_its_steps() -> None:
    assert small(steps=1000, eval_every=0).evaluations_of(0) == 20
    assert effective(small(steps=1000, eval_every=0, scale=0.5)).evaluations_of(0) == 10
    assert effective(small(steps=1000, eval_every=0, scale=0.001)).evaluations_of(0) == 1


def test_scaling_reaches_parts_of_parts_marked_as_steps_alone() -> None:
    @dataclass(frozen=True)
    class Inner:
        steps: Steps = 10
        count: int = 10
        places: tuple[Steps, ...] = (10, 25)
        bounds: tuple[int, ...] = (10, 25)
        wide: Annotated[Steps, Field(ge=1)] = 40

    assert scaled(Inner(), 0.1) == Inner(1, 10, (1, 2), (10, 25), 4)


# Random configurations

NAMES = sorted({name for kind in KINDS.values() for name in kind.table})
KEYS = sorted({*SMALL, "pruning", "scale", "seed", "optimizer", "name", "amount", "k", "lr", "drops", "path"})
WORDS = st.sampled_from([*NAMES, *KEYS, "all", "paper", "float64", "os:getcwd", "a\nb", "", "ä\u2028"]) | st.text(
    max_size=5
)
NUMBERS = st.one_of(
    st.booleans(),
    st.sampled_from([0, 1, 2, 5, -1, 2**31, 2**63, 10**9, 10**40, 10**400, 0.5, 1.0, 1e-300, -0.0]),
    st.integers(-3, 30),
    st.floats(),
)
DATES = st.dates() | st.datetimes() | st.times()
JUNK = st.recursive(
    NUMBERS | WORDS | st.none() | DATES | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.integers(0, 3), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def nearly(draw: st.DrawFn, kind: str) -> Any:
    """A part that is right, or right but for a field, or whatever."""
    name = draw(st.sampled_from(sorted(KINDS[kind].table)))
    known = sorted(config.parameters(KINDS[kind].table[name], KINDS[kind].arguments))
    extra = draw(st.dictionaries(st.sampled_from(known) if known else WORDS, NUMBERS | JUNK, max_size=1))
    whole = {"name": name, **EXAMPLES[kind][name]}
    return draw(st.sampled_from([whole, whole, {**whole, **extra}, name, extra])) if draw(st.booleans()) else whole


PRUNINGS = st.fixed_dictionaries(
    {}, optional={"amount": NUMBERS, "score_batches": NUMBERS | WORDS, **{kind: nearly(kind) for kind in IN_PRUNING}}
)
RUNS = st.fixed_dictionaries(
    {kind: nearly(kind) for kind in ("data", "model", "peak", "shape")} | {"steps": st.integers(1, 50) | NUMBERS},
    optional={
        "pruning": PRUNINGS,
        "optimizer": nearly("optimizer"),
        "batch": NUMBERS,
        "cycles": NUMBERS,
        "eval_every": NUMBERS,
        "precision": st.sampled_from(["float32", "tf32", "bf16", "float64", "half"]),
        "scale": NUMBERS,
        "seed": NUMBERS,
    },
)


def fuzzed(values: st.SearchStrategy[Any], count: int) -> Counter[str]:
    """Every value gives a valid run that survives JSON, or one line; how often which."""
    outcomes: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(values)
    def check(value: Any) -> None:
        try:
            run = run_from(override(SMALL, value) if isinstance(value, str) else value)
        except ConfigError as error:
            said = str(error)
        else:
            said = ""
        if said:
            assert said.isprintable()
            assert len(said) < 1000
            outcomes["refused"] += 1
            return
        assert run_from(json.loads(json.dumps(plain(run)))) == run
        assert identity(run, "d") == identity(run_from(plain(run)), "d")
        assert min(effective(run).steps, effective(run).evaluations_of(0)) >= 1
        outcomes["taken"] += 1

    check()
    return outcomes


@pytest.mark.torture
def test_what_is_nearly_a_configuration_is_taken_or_refused_in_one_line(size: Size, figure: Figure) -> None:
    outcomes = fuzzed(RUNS, size(200, 6_000))
    assert min(outcomes["taken"], outcomes["refused"]) > size(200, 6_000) / 20
    figure(f"nearly configurations: {dict(outcomes)}")


@pytest.mark.torture
def test_junk_is_refused_in_one_line(size: Size, figure: Figure) -> None:
    over = st.dictionaries(st.sampled_from(KEYS) | WORDS, JUNK, min_size=1, max_size=5)
    outcomes = fuzzed(over.map(lambda junk: {**SMALL, **junk}), size(200, 4_000))
    assert outcomes["refused"] > size(200, 4_000) / 2
    figure(f"junk over a configuration: {dict(outcomes)}")


@pytest.mark.torture
def test_any_override_is_taken_or_refused_in_one_line(size: Size, figure: Figure) -> None:
    path = st.lists(st.sampled_from(KEYS) | WORDS, min_size=1, max_size=3).map(".".join)
    outcomes = fuzzed(st.builds(lambda place, value: f"{place}={value}", path, NUMBERS | WORDS), size(200, 20_000))
    assert outcomes["refused"]
    figure(f"overrides by --set: {dict(outcomes)}")


def test_a_part_compares_by_name_and_fields() -> None:
    first, second = (part(KINDS["peak"], {"name": "fixed", "lr": lr}) for lr in (0.1, 0.2))
    assert first == part(KINDS["peak"], first)
    assert first != second
    assert isinstance(first, Part)
    assert isinstance(small(), Run)
