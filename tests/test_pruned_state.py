"""State dicts of pruned networks from elsewhere: ordinary ones come out, with masks, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune as torch_prune

from scyc import mask


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 3))


KEPT = {
    "0.weight": torch.arange(36).view(4, 1, 3, 3) % 3 == 0,
    "2.weight": torch.arange(48).view(3, 16) % 4 == 0,
}


def expected() -> dict[str, Tensor]:
    return {n: v.masked_fill(~KEPT[n], 0.0) if n in KEPT else v for n, v in net().state_dict().items()}


def same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def torch_state() -> dict[str, Tensor]:
    pruned = net()
    for name, kept in KEPT.items():
        torch_prune.custom_from_mask(pruned.get_submodule(name.removesuffix(".weight")), "weight", kept)
    return pruned.state_dict()


class PrunedModel(nn.Module):
    """What open_lth saves of a pruned model: it under `model`, and the masks as buffers with dots written as ___."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        for name, kept in KEPT.items():
            self.register_buffer("mask_" + name.replace(".", "___"), kept.float())


def test_weight_orig_and_weight_mask() -> None:
    state = torch_state()
    assert "0.weight_orig" in state
    before = {name: value.clone() for name, value in state.items()}
    plain, masks = mask.from_state_dict(state)
    assert same(plain, expected())
    assert same(masks, KEPT)
    assert same(state, before)  # a pure function
    fresh = net()
    fresh.load_state_dict(plain)
    mask.attach_(torch.optim.SGD(fresh.parameters(), lr=0.1), fresh, masks)


def test_a_pruned_model_of_open_lth() -> None:
    plain, masks = mask.from_state_dict(PrunedModel(net()).state_dict())
    assert same(plain, expected())
    assert same(masks, KEPT)


def test_a_mask_file_of_open_lth_beside_its_model() -> None:
    plain, masks = mask.from_state_dict(net().state_dict(), {name: kept.int() for name, kept in KEPT.items()})
    assert same(plain, expected())
    assert same(masks, KEPT)


def test_pruned_nan_and_infinity_become_zero() -> None:
    """Which multiplying by the mask would not do."""
    state = torch_state()
    state["2.weight_orig"][0, 1], state["2.weight_orig"][0, 2] = torch.nan, torch.inf
    assert same(mask.from_state_dict(state)[0], expected())


def test_names_that_only_look_alike_stay() -> None:
    state = {"weight_orig": torch.ones(2), "mask_own": torch.ones(2), "model.weight": torch.ones(2)}
    plain, _ = mask.from_state_dict(state, {"model.weight": torch.tensor([1, 0])})
    assert plain.keys() == state.keys()
    assert plain["model.weight"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("state", "masks", "said"),
    [
        ({"weight": torch.ones(2)}, None, "no masks: no 'NAME_orig' with 'NAME_mask'"),
        ({"weight": torch.ones(2)}, {"wight": torch.ones(2)}, "mask 'wight' has shape (2,), the state nothing"),
        ({"weight": torch.ones(2)}, {"weight": torch.ones(3)}, "mask 'weight' has shape (3,), the state (2,)"),
        ({"w_orig": torch.ones(2), "w_mask": torch.tensor([1.0, 0.5])}, None, "mask 'w' holds values beside 0 and 1"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(state: dict[str, Tensor], masks: Any, said: str) -> None:
    with pytest.raises(ValueError) as error:
        mask.from_state_dict(state, masks)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
