"""A network out of the store: the one that was trained, or one line that says why not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from examples import colour_file, kept
from scyc.data import DataError
from scyc.store.runs import Store
from scyc.trained import Trained, apart, trained


def opened(store: Store, id: str, **options: Any) -> Trained:
    return trained(store, id, (), **options)


def accuracy(found: Trained) -> float:
    """On the whole test split."""
    right = [(found.net(x[0]).argmax(1) == y[0]).tolist() for x, y in found.feed.rows("test")]
    return float(np.mean(np.concatenate(right)))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_it_is_as_good_as_its_record_says_and_zero_where_it_was_pruned(tmp_path: Path, precision: str) -> None:
    store, id = kept(tmp_path, precision=precision)
    found = opened(store, id)
    assert (found.cycle, found.run.steps, found.net.training) == (2, 6, False)
    assert accuracy(found) == pytest.approx(store.records(id)[-1]["last_test_accuracy"])
    assert {p.dtype for p in found.net.parameters()} == {getattr(torch, precision)}
    assert sum(int((~m).sum()) for m in found.masks.values()) > 0
    assert all(not found.net.get_parameter(name)[~m].any() for name, m in found.masks.items())
    assert found.images().shape == (40, 1, 8, 8)  # a fifth of 200


def test_with_all_weights_kept_every_cycle_can_be_had(tmp_path: Path) -> None:
    store, id = kept(tmp_path, keep="all")
    densities = []
    for cycle in (0, 1, 2):
        masks = opened(store, id, cycle=cycle).masks.values()
        densities.append(sum(int(m.sum()) for m in masks) / sum(m.numel() for m in masks))
    assert densities == pytest.approx([1.0, 0.8, 0.64], abs=1e-3)
    assert opened(store, id).cycle == 2
    with pytest.raises(ValueError, match=r"--cycle 3: run .* has recorded cycles 0 to 2"):
        opened(store, id, cycle=3)


def test_weights_that_were_not_kept_are_said(tmp_path: Path) -> None:
    store, id = kept(tmp_path / "last")
    with pytest.raises(ValueError, match=r"has no weights of cycle 1; it keeps those of 2: .* with --keep all"):
        opened(store, id, cycle=1)
    store, id = kept(tmp_path / "none", keep="none")
    with pytest.raises(
        ValueError, match=f"has no weights of cycle 2; it keeps none: .*`scyc rm {id}` and train it again"
    ):
        opened(store, id)


def test_a_run_that_has_not_ended_a_cycle_is_said(tmp_path: Path) -> None:
    store, id = kept(tmp_path)
    (store.folder(id) / "records.jsonl").unlink()
    with pytest.raises(ValueError, match="has recorded no cycle yet"):
        opened(store, id)


def test_a_diverged_run_is_no_trained_network(tmp_path: Path) -> None:
    store, id = kept(tmp_path, peak={"name": "fixed", "lr": 1e300})
    with pytest.raises(ValueError, match="diverged in cycle 0"):
        opened(store, id)


def test_a_search_has_no_network(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create("0123456789ab", {"search": "peaks"})
    store.append("0123456789ab", {"cycle": 0, "peaks": [0.1], "peak": 0.1})
    with pytest.raises(ValueError, match="run 0123456789ab is a search"):
        opened(store, "0123456789ab")


def test_own_data_is_asked_for_and_must_be_the_same(tmp_path: Path) -> None:
    path = colour_file(tmp_path)
    store, id = kept(tmp_path / "runs", data={"name": "npz", "path": path})
    with pytest.raises(ValueError, match=r"on your own data \(npz\); say where it lies, with --path"):
        opened(store, id)
    found = opened(store, id, path=path)
    assert accuracy(found) == pytest.approx(store.records(id)[-1]["last_test_accuracy"])
    other = tmp_path / "other.npz"
    np.savez(other, images=np.zeros((60, 8, 8, 3), np.uint8), labels=np.arange(60) % 3)
    with pytest.raises(DataError, match=f"other.npz: these are not the images that run {id} was trained on"):
        opened(store, id, path=str(other))


def test_a_path_is_refused_where_the_data_has_a_name(tmp_path: Path) -> None:
    store, id = kept(tmp_path)
    with pytest.raises(ValueError, match=r"--path x: run .* was trained on digits"):
        opened(store, id, path="x")


class Own(nn.Module):
    """Tied weights, and a buffer that no state_dict has."""

    wide = 8

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.again.weight = self.first.weight
        self.last = nn.Linear(64, classes if self.wide == 8 else 3)
        self.register_buffer("shrink", torch.tensor(0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.again(self.first(x.flatten(1)).relu() * self.shrink).relu())
        return y


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_a_users_network_with_tied_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    store, id = kept(tmp_path, engine=engine, model=f"{__name__}:Own")
    with pytest.raises(ValueError, match="add --trust"):
        opened(store, id)
    found = opened(store, id, trust=True)
    assert found.net.again.weight is found.net.first.weight
    assert accuracy(found) == pytest.approx(store.records(id)[-1]["last_test_accuracy"])
    monkeypatch.setattr(Own, "wide", 9)
    with pytest.raises(ValueError, match=r"does not fit the stored weights at 'last\.(weight|bias)'; restore the code"):
        opened(store, id, trust=True)


def test_apart_is_relative_to_what_is_large_and_infinite_where_nothing_can_be_compared() -> None:
    assert apart(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0])) == 0.25
    assert apart(torch.tensor([0.1]), torch.tensor([0.2])) == pytest.approx(0.1)
    assert apart(torch.tensor([torch.nan]), torch.tensor([0.2])) == torch.inf
    assert apart(torch.zeros(2, 1), torch.zeros(2, 3)) == torch.inf
