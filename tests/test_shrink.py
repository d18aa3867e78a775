"""A network without its pruned filters: the same function, in a file that loads again without pickle."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from examples import TINY_RESNET, colour_file, kept
from scyc import shrink
from scyc.cost import Cost
from scyc.store.files import Integrity
from scyc.trained import Trained, trained

FILTERS = {"unit": "filter", "scope": "layer", "amount": 0.5}


@pytest.fixture(autouse=True)
def _few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scyc.cost.SECONDS", 0.0)


def opened(folder: Path, **changes: Any) -> Trained:
    """A small run with filters pruned, out of its store."""
    path = colour_file(folder)
    given: dict[str, Any] = {
        "data": {"name": "npz", "path": path},
        "model": {**TINY_RESNET, "width": 0.5},
        "pruning": FILTERS,
    }
    store, id = kept(folder / "runs", **{**given, "precision": "float32", "steps": 2, **changes})
    return trained(store, id, (), path=path, trust=True)


def test_scattered_zeros_are_refused_with_the_figures(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        shrink.shrunk(opened(tmp_path, pruning={"amount": 0.5}))
    said = str(error.value)
    assert "nothing can be removed: unit 'weight' scatters its zeros: 75.0 % of the prunable weights are zero" in said
    assert "ms without a single zero (CPU" in said
    assert said.endswith("make nothing faster on ordinary hardware; prune with unit 'filter'")
    assert "\n" not in said


def test_a_network_without_convolutions_is_not_told_to_prune_filters(tmp_path: Path) -> None:
    store, id = kept(tmp_path)
    with pytest.raises(ValueError, match=r"on ordinary hardware; it has no filters$"):
        shrink.shrunk(trained(store, id, ()))


def test_a_dense_network_has_nothing_to_remove(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing can be removed: none of its \d+ filters is pruned"):
        shrink.shrunk(opened(tmp_path, cycles=1))


def test_the_table_says_how_many_times_less(tmp_path: Path) -> None:
    before = Cost(1200, 60_000, 5000, {1: 2.0, 64: 40.0})
    after = Cost(300, 20_000, 2000, {1: 1.6, 64: 50.0})
    found = shrink.Shrunk(None, nn.Linear(1, 1), 0.0, before, after)  # type: ignore[arg-type]
    assert shrink.table(found) == [
        ["", "masked", "shrunk", "ratio"],
        ["parameters", "1,200", "300", "4.00"],
        ["FLOPs per image", "60,000", "20,000", "3.00"],
        ["file, bytes", "5,000", "2,000", "2.50"],
        ["ms, 1 image", "2", "1.6", "1.25"],
        ["ms, 64 images", "40", "50", "0.80"],  # slower is slower
    ]


@pytest.mark.slow
def test_it_is_narrower_computes_the_same_and_comes_back_from_its_files(tmp_path: Path) -> None:
    found = shrink.shrunk(opened(tmp_path))
    assert 0 <= found.apart <= 1e-5
    assert found.after.parameters < 0.5 * found.before.parameters
    assert found.after.flops < 0.5 * found.before.flops
    inner = found.trained.net.get_submodule("stage3.0.residual.conv1")
    assert found.net.get_submodule("stage3.0.residual.conv1").out_channels == inner.out_channels // 4  # half of half
    file, sheet = shrink.save(found, out=tmp_path / "net.safetensors")
    assert sheet == tmp_path / "net.safetensors.json"
    assert file.stat().st_size == found.after.bytes
    again = shrink.load(file)
    images = torch.randn(5, 3, 8, 8)
    assert torch.equal(again(images), found.net(images))
    torch.testing.assert_close(again(images), found.trained.net(images), rtol=1e-5, atol=1e-5)
    assert not again.training
    assert safetensors.torch.load_file(file).keys() == found.trained.net.state_dict().keys()
    facts = json.loads(sheet.read_text())
    assert facts["widths"]["stage3.0.residual.conv1"]["out_channels"] == inner.out_channels // 4
    assert facts["after"]["parameters"] == sum(p.numel() for p in again.parameters())
    assert facts["run"] == found.trained.id


@pytest.mark.slow
def test_loading_leaves_the_random_state_alone(tmp_path: Path) -> None:
    file, _ = shrink.save(shrink.shrunk(opened(tmp_path)), out=tmp_path / "net.safetensors")
    before = torch.get_rng_state()
    shrink.load(file)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_the_words_count_the_filters(tmp_path: Path) -> None:
    found = shrink.shrunk(opened(tmp_path))
    net, narrow = found.trained.net, found.net
    convs = [[m for m in n.modules() if isinstance(m, nn.Conv2d)] for n in (net, narrow)]
    total, left = (sum(m.out_channels for m in part) for part in convs)
    pruned = sum(int((m.weight.flatten(1) == 0).all(1).sum()) for m in convs[0])
    stay = pruned - (total - left)
    assert stay > 0
    said = f"{pruned} of {total} filters are pruned, {total - left} are removed; {stay} stay, since filters"
    assert shrink.words(found)[0].startswith(said)


@pytest.mark.slow
def test_onnx_of_the_narrow_network(tmp_path: Path) -> None:
    import onnxruntime

    found = shrink.shrunk(opened(tmp_path))
    file, sheet = shrink.save(found, "onnx", tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    images = torch.randn(3, 3, 8, 8)
    (logits,) = session.run(None, {"images": images.numpy()})
    np.testing.assert_allclose(logits, found.trained.net(images).detach().numpy(), rtol=1e-4, atol=1e-4)
    assert json.loads(sheet.read_text())["onnxruntime"]["apart"] <= 1e-4


# Files that are not what was written


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    folder = tmp_path_factory.mktemp("shrunk")
    file, sheet = shrink.save(shrink.shrunk(opened(folder)), out=folder / "net.safetensors")
    return file.read_bytes(), sheet.read_text()


@pytest.fixture
def copy(tmp_path: Path, written: tuple[bytes, str]) -> Path:
    """The two files in a place of a test's own."""
    (tmp_path / "net.safetensors").write_bytes(written[0])
    (tmp_path / "net.safetensors.json").write_text(written[1])
    return tmp_path / "net.safetensors"


def rewritten(file: Path, **changes: Any) -> None:
    sheet = file.with_name(file.name + ".json")
    sheet.write_text(json.dumps({**json.loads(sheet.read_text()), **changes}))


@pytest.mark.slow
def test_a_changed_file_is_refused(copy: Path) -> None:
    data = bytearray(copy.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    with pytest.raises(Integrity, match=r"is not the file that net.safetensors.json describes"):
        shrink.load(copy)


@pytest.mark.slow
def test_a_missing_or_damaged_sheet_is_said(copy: Path) -> None:
    sheet = copy.with_name(copy.name + ".json")
    sheet.write_text("[]")
    with pytest.raises(Integrity, match="is no sheet of a shrunk network"):
        shrink.load(copy)
    sheet.unlink()
    with pytest.raises(ValueError, match=r"net.safetensors.json: no such file"):
        shrink.load(copy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "widths",
    [
        {"fc": {"out_features": 7}, "nowhere": {"groups": 2}},
        {"fc": {"__class__": 3}},
        {"fc": {"in_features": "many"}},
    ],
    ids=["no such layer", "no size", "no number"],
)
def test_widths_that_cannot_be_are_refused(copy: Path, widths: dict[str, Any]) -> None:
    rewritten(copy, widths=widths)
    with pytest.raises(ValueError, match="does not fit model 'resnet20'"):
        shrink.load(copy)


@pytest.mark.slow
def test_another_network_than_the_sheet_says_is_refused(copy: Path) -> None:
    other = safetensors.torch.save({"fc.weight": torch.zeros(3, 3)})
    copy.write_bytes(other)
    rewritten(copy, files={"net.safetensors": hashlib.sha256(other).hexdigest()})
    with pytest.raises(ValueError, match="does not fit model 'resnet20'") as error:
        shrink.load(copy)
    assert "\n" not in str(error.value)


# Networks of the user's own


class Own(nn.Module):
    """One hidden convolution; says what goes with its filters."""

    prune_coupled: Any = {"conv.weight": ("conv.bias", "bn.weight", "bn.bias")}  # noqa: RUF012

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.conv, self.bn, self.last = nn.Conv2d(shape[0], 8, 3), nn.BatchNorm2d(8), nn.Linear(8, classes)

    def between(self, x: Tensor) -> Tensor:
        return x.relu()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.between(self.bn(self.conv(x))).mean((2, 3)))
        return y


class Silentless(Own):
    prune_coupled: Any = {}  # noqa: RUF012


class Speaking(Own):
    def between(self, x: Tensor) -> Tensor:
        return x.sigmoid()  # a half where nothing comes in


@pytest.mark.slow
def test_a_users_network_that_says_what_goes_with_a_filter_shrinks_and_loads_with_trust(tmp_path: Path) -> None:
    found = shrink.shrunk(opened(tmp_path, model=f"{__name__}:Own"))
    assert found.net.conv.out_channels == 2
    file, _ = shrink.save(found, out=tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match="add --trust"):
        shrink.load(file)
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(shrink.load(file, trust=True)(images), found.net(images))


@pytest.mark.slow
def test_a_users_network_that_does_not_say_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"6 filters are zero, but the model does not say in `prune_coupled`") as error:
        shrink.shrunk(opened(tmp_path, model=f"{__name__}:Silentless"))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_network_that_computes_something_else_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the network is .* off the masked one, more than 1e-05; nothing was written"):
        shrink.shrunk(opened(tmp_path, model=f"{__name__}:Speaking"))
