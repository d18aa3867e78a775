"""What every registered name keeps: documented in a line, annotated, plain as JSON; and what its kind asks of it."""

import inspect
import itertools
import json
from typing import Any

import pytest
import torch

from examples import EXAMPLES, IN_PRUNING, configured, small
from scyc.config import Part, annotations, parameters, plain
from scyc.lr import PEAKS, SHAPES, Unmeasured
from scyc.prune import REWINDS, SCOPES, SCORES, UNITS
from scyc.run import KINDS, Run, run_from
from scyc.train import OPTIMIZERS

ENTRIES = [(kind, name) for kind in KINDS for name in KINDS[kind].table]


def made(kind: str, name: str, run: Run) -> Part:
    """The entry's Part within a run."""
    value = getattr(run.pruning if kind in IN_PRUNING else run, kind)
    part: Part = value.source if kind == "data" else value
    assert part.name == name
    return part


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_has_an_example(kind: str) -> None:
    assert set(EXAMPLES[kind]) == set(KINDS[kind].table)


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_is_documented_in_one_line(kind: str, name: str) -> None:
    doc = inspect.getdoc(KINDS[kind].table[name])
    assert doc
    assert "\n" not in doc
    assert not doc.startswith(f"{KINDS[kind].table[name].__name__}(")  # what dataclass writes where nobody did


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_is_annotated(kind: str, name: str) -> None:
    entry = KINDS[kind].table[name]
    hints = annotations(entry.__init__ if isinstance(entry, type) else entry)  # type: ignore[misc]
    assert set(hints) == {*inspect.signature(entry).parameters, "return"}


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_is_plain(kind: str, name: str) -> None:
    run = run_from(configured(kind, name))
    text = json.dumps(plain(run), allow_nan=False)
    again = run_from(json.loads(text))
    assert again == run
    assert hash(again) == hash(run)
    assert plain(again) == json.loads(text)
    assert made(kind, name, run).entry is KINDS[kind].table[name]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_refuses_a_field_it_does_not_have(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match="nonsense: unknown key 'nonsense'") as error:
        run_from(configured(kind, name, nonsense=1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_says_which_field_is_missing(kind: str, name: str) -> None:
    entry = KINDS[kind].table[name]
    fields = parameters(entry, KINDS[kind].arguments)
    assert set(EXAMPLES[kind][name]) >= {n for n, p in fields.items() if p.default is p.empty}
    for field in [n for n, p in fields.items() if p.default is p.empty]:
        config = configured(kind, name)
        place = config["pruning"][kind] if kind in IN_PRUNING else config[kind]
        del place[field]
        with pytest.raises(ValueError, match=rf"{kind}\.{field}: this key is required"):
            run_from(config)


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_a_factor(name: str) -> None:
    shape = made("shape", name, run_from(configured("shape", name))).make()
    factors = [shape(step) for step in range(20)]
    assert all(isinstance(factor, float) and 0 <= factor <= 1 for factor in factors)
    assert max(factors) > 0
    assert factors == [shape(step) for step in range(20)]  # nothing counts inside


@pytest.mark.parametrize("name", PEAKS)
def test_a_peak_is_a_positive_rate(name: str) -> None:
    peak = made("peak", name, run_from(configured("peak", name))).make()
    rows = [{"cycle": m, "steps": 9, "next": {"steps": 9, "pruned_share": 0.2, "pruned_norm": 0.1}} for m in range(30)]
    rates = [peak(cycle, 0.2, rows[:cycle]) for cycle in range(30)]
    assert all(isinstance(rate, float) and rate > 0 for rate in rates)
    assert rates == [peak(cycle, 0.2, rows[:cycle]) for cycle in range(30)]  # nothing counts inside


@pytest.mark.parametrize("name", PEAKS)
def test_without_history_a_peak_is_the_same_or_says_that_it_needs_some(name: str) -> None:
    peak = made("peak", name, run_from(configured("peak", name))).make()
    assert peak(0, 0.2) > 0  # the dense network's has none
    if name in ("allr",):
        with pytest.raises(Unmeasured, match="in cycle 3: the history does not say"):
            peak(3, 0.2)
    else:
        assert peak(3, 0.2) == peak(3, 0.2, [{"peak": 9.0}] * 3)


def tensors(value: float = 1.0) -> dict[str, torch.Tensor]:
    return {"a": torch.full((2, 3), value), "b": torch.full((4, 2, 1, 1), value)}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_has_the_shapes_of_the_weights(name: str) -> None:
    weights, grads = tensors(-2.0), tensors(3.0)
    scores = SCORES[name](weights, grads, torch.Generator().manual_seed(0))
    assert {n: s.shape for n, s in scores.items()} == {n: w.shape for n, w in weights.items()}
    assert all((score >= 0).all() for score in scores.values())
    assert all((weight == -2.0).all() for weight in weights.values())


@pytest.mark.parametrize("name", SCOPES)
def test_a_scope_groups_every_layer_once(name: str) -> None:
    names = ["one", "two", "three"]
    assert sorted(itertools.chain.from_iterable(SCOPES[name](names))) == sorted(names)


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_holds_every_weight_once_or_none(name: str) -> None:
    for shape in ((2, 4, 3), (2, 4, 3, 5, 5)):  # a linear layer and a convolution, in a stack of two
        weight = torch.arange(torch.Size(shape).numel()).view(shape)
        units = UNITS[name](weight)
        assert units.dim() == 3
        assert units.numel() == 0 or torch.equal(units.flatten(1), weight.flatten(1))


@pytest.mark.parametrize("name", REWINDS)
def test_a_rewind_returns_one_of_three(name: str) -> None:
    rewind = made("rewind", name, run_from(configured("rewind", name))).make()
    kept, trained, fresh = tensors(1.0), tensors(2.0), tensors(3.0)
    returned = rewind(kept, trained, lambda: fresh)
    assert any(returned is given for given in (kept, trained, fresh))
    assert (returned is kept) == (rewind.snapshot is not None)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_returns_a_step_down_and_leaves_the_weights(name: str) -> None:
    params, grads = torch.ones(3, 5), torch.rand(3, 5) + 0.5
    state: dict[str, Any] = {}
    update = OPTIMIZERS[name](params, grads.clone(), state, torch.full((3, 1), 0.1))
    assert update.shape == (3, 5)
    assert (update > 0).all()
    assert torch.equal(params, torch.ones(3, 5))
    assert all(slot.shape[0] == 3 for slot in state.values())  # checkpoints cut slots along the runs


def test_the_small_run_is_what_it_says() -> None:
    assert (small().steps, small().cycles, small(seed=3).seed) == (6, 3, 3)
