"""A measurement against all its values, gathered by a plain loop over the same batches."""

from typing import Any

import numpy as np
import pytest
import torch
from plain_loop import Gathered, gather
from torch import nn

from examples import colour, nothing, small, stack_of
from scyc.cycle import cycles
from scyc.distribution import Settings, measured
from scyc.distribution.capture import Capture, activations
from scyc.stack import Stack

CASES: dict[str, dict[str, Any]] = {
    "plain": {"model": {"name": "mlp", "widths": [9, 7]}},
    "batch norm": {"model": {"name": "mlp", "widths": [9, 7], "bn": True}},
    "augmented": {"data": {"name": "digits", "augment": True}},
    "resnet": {"model": {"name": "resnet20", "width": 0.125}},
    "dropout": {"model": {"name": "mlp", "widths": [9, 7], "dropout": 0.3}},
    "filters": {"model": {"name": "vgg16", "width": 0.03}, "pruning": {"unit": "filter", "scope": "layer"}},
}


def trained(case: str, seeds: tuple[int, ...] = (0, 4), engine: str = "stacked", count: int = 2) -> Stack:
    """A stack in its second cycle, after a pruning and some steps."""
    runs = [small(seed=seed, steps=3, **CASES[case]) for seed in seeds]
    side = 32 if case == "filters" else 8
    stack = stack_of(runs, colour(side=side), engine=engine)
    for _ in zip(range(count), cycles(stack, nothing), strict=False):
        pass
    return stack


def summaries(stack: Stack, settings: Settings, reference: Any = None) -> list[dict[str, Any]]:
    rows = torch.arange(len(stack.runs))
    result = measured(stack, rows, Capture(stack), settings)
    return [result.summary(k, reference) for k in range(len(rows))]


def check(summary: dict[str, Any], parts: list[Any]) -> None:
    """Every number of a stream against numpy on all values; those are float64, the histogram sees float32."""
    values = np.concatenate(parts)
    seen = values.astype(np.float32)
    assert summary["count"] == len(values)
    np.testing.assert_allclose(summary["mean"], values.mean(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(summary["std"], values.std(), rtol=1e-9)
    exact = np.quantile(np.abs(values), [0.01, 0.5, 0.9, 0.99], method="inverted_cdf")
    np.testing.assert_allclose(summary["magnitudes"], exact, rtol=1 / 256, atol=1e-37)
    low, high = summary["thresholds"]
    ends = np.quantile(seen, [0.03, 0.97], method="inverted_cdf")
    np.testing.assert_allclose([low, high], ends, rtol=1 / 128, atol=1e-37)
    assert summary["below"] == np.mean(seen < low) <= 0.03
    assert summary["above"] == np.mean(seen >= high) <= 0.03
    assert summary["zero"] == np.mean(seen == 0)
    edges = np.concatenate([[-np.inf], summary["edges"], [np.inf]]).astype(np.float32)
    assert summary["counts"] == np.histogram(seen, edges)[0].tolist()


def check_all(summary: dict[str, Any], found: Gathered) -> None:
    check(summary["gradients"], found.gradients)
    check(summary["hidden"], found.hidden)
    inputs = summary["preactivations"]
    layers = {name: np.concatenate(parts).var() for name, parts in found.entered.items()}
    assert inputs["layers"] == pytest.approx(layers, rel=1e-9)
    every = np.concatenate([part for parts in found.entered.values() for part in parts])
    assert inputs["count"] == len(every)
    np.testing.assert_allclose([inputs["mean"], inputs["variance"]], [every.mean(), every.var()], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case != "dropout"])  # whose draws are not torch's
@pytest.mark.parametrize("weights", ["surviving", "all"])
def test_batches_one_by_one(case: str, weights: str) -> None:
    stack = trained(case)
    found = summaries(stack, Settings(batches=3, weights=weights))
    for k, summary in enumerate(found):
        check_all(summary, gather(stack, k, batches=3, surviving=weights == "surviving"))


@pytest.mark.parametrize("case", ["plain", "batch norm"])
def test_the_whole_split_has_one_gradient(case: str) -> None:
    stack = trained(case)
    for k, summary in enumerate(summaries(stack, Settings(batches="all"))):
        check_all(summary, gather(stack, k))


@pytest.mark.parametrize("case", ["batch norm", "dropout"])
@pytest.mark.parametrize("batches", [3, "all"])
def test_one_by_one_the_runs_give_what_the_stack_gives(case: str, batches: int | str) -> None:
    stacked, single = (summaries(trained(case, engine=e), Settings(batches)) for e in ("stacked", "single"))
    for one, other in zip(stacked, single, strict=True):
        assert one["gradients"]["std"] == pytest.approx(other["gradients"]["std"], rel=1e-9)
        assert one["hidden"]["mean"] == pytest.approx(other["hidden"]["mean"], rel=1e-9)
        assert one["preactivations"]["layers"] == pytest.approx(other["preactivations"]["layers"], rel=1e-9)
        assert np.abs(np.subtract(one["gradients"]["counts"], other["gradients"]["counts"])).sum() <= 4


def test_a_run_measured_alone_gives_what_it_gives_among_others() -> None:
    stack = trained("plain", seeds=(0, 4, 9))
    among = summaries(stack, Settings(batches=2))[2]
    alone = measured(stack, torch.tensor([2]), Capture(stack), Settings(batches=2)).summary(0, None)
    assert alone["gradients"]["std"] == pytest.approx(among["gradients"]["std"], rel=1e-9)
    assert alone["hidden"]["counts"] == among["hidden"]["counts"]


def test_runs_with_unequally_many_weights_left() -> None:
    stack = trained("plain")
    stack.masks["fc1.weight"][1, :3] = False
    found = summaries(stack, Settings(batches=2))
    assert found[0]["gradients"]["count"] > found[1]["gradients"]["count"]
    for k, summary in enumerate(found):
        check_all(summary, gather(stack, k, batches=2))


def test_edges_and_thresholds_stay_those_of_the_reference() -> None:
    stack = trained("plain")
    reference = summaries(trained("plain", count=1), Settings(batches=2))[0]
    summary = summaries(stack, Settings(batches=2), reference)[0]["gradients"]
    values = np.concatenate(gather(stack, 0, batches=2).gradients).astype(np.float32)
    assert summary["edges"] == reference["gradients"]["edges"]
    assert summary["thresholds"] == reference["gradients"]["thresholds"]
    assert summary["below"] + summary["above"] == pytest.approx(
        np.mean((values < summary["thresholds"][0]) | (values >= summary["thresholds"][1]))
    )
    edges = np.concatenate([[-np.inf], summary["edges"], [np.inf]]).astype(np.float32)
    assert summary["counts"] == np.histogram(values, edges)[0].tolist()


def test_a_measurement_leaves_the_stack_as_it_is() -> None:
    stack, twin = trained("batch norm"), trained("batch norm")
    summaries(stack, Settings(batches=3))
    summaries(stack, Settings(batches="all"))
    for name, tensor in {**twin.engine.weights(), **twin.engine.state()}.items():
        assert torch.equal({**stack.engine.weights(), **stack.engine.state()}[name], tensor), name


class InPlace(nn.Module):
    """One activation that works in place, and is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(64, 6), nn.Linear(6, 6), nn.Linear(6, 10)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.act(self.one(x.flatten(1)))
        kept = first.clone()
        second = self.act(self.two(first))
        return self.head(second + kept)


def test_activations_in_place_and_used_twice() -> None:
    stack = stack_of([small(), small(seed=1)])
    torch.manual_seed(1)
    net = InPlace().double()
    state = {name: torch.stack([tensor, tensor * 1.5]) for name, tensor in net.state_dict().items()}
    stack.net, stack.masks = net, {}
    stack.engine.weights = lambda: state  # type: ignore[method-assign]
    summary = summaries(stack, Settings(batches=2))[1]
    weights = [state[f"{name}.weight"][1] for name in ("one", "two")]
    biases = [state[f"{name}.bias"][1] for name in ("one", "two")]
    entered, left = [], []
    for x, _ in (stack.feed.train(0, step) for step in range(2)):
        flow = x[1].flatten(1)
        for weight, bias in zip(weights, biases, strict=True):
            entered.append((flow @ weight.T + bias).flatten().numpy())
            flow = (flow @ weight.T + bias).clamp_min(0)
            left.append(flow.flatten().numpy())
    check(summary["hidden"], left)
    assert summary["preactivations"]["variance"] == pytest.approx(np.concatenate(entered).var(), rel=1e-9)


def test_a_network_names_its_hidden_representations_itself() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Softplus())
    assert activations(net) == ("1",)
    net.hidden = ("3",)
    assert activations(net) == ("3",)
    net.hidden = ["1", "5"]
    with pytest.raises(ValueError, match=r"net\.hidden names '5', which is no module; set net\.hidden to"):
        activations(net)


def test_a_layer_called_hidden_is_no_declaration() -> None:
    net = nn.Sequential()
    net.hidden = nn.Linear(4, 4)
    net.act = nn.GELU()
    assert activations(net) == ("act",)
    with pytest.raises(ValueError, match=r"no activation module found; set net\.hidden to the names"):
        activations(nn.Linear(4, 4))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batches": 0}, "batches = 0; write a number of batches, at least 1, or 'all'"),
        ({"batches": "some"}, "batches = 'some'; write a number"),
        ({"weights": "dead"}, "weights = 'dead'; write 'surviving' or 'all'"),
    ],
)
def test_settings_are_checked(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings(**fields)
