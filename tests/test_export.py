"""Files for other programs: they load where scyc is not, and nothing stays where something is wrong."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from examples import colour, colour_file, kept
from scyc import export
from scyc.model import MODELS
from scyc.trained import Trained, trained


def opened(folder: Path, **changes: Any) -> Trained:
    """A small run out of its store."""
    store, id = kept(folder / "runs", precision="float32", **changes)
    return trained(store, id, (), trust=True)


READERS = {
    "safetensors": (".safetensors", safetensors.torch.load_file),
    "torch": (".pt", lambda path: torch.load(path, weights_only=True)),
}


@pytest.mark.parametrize("to", READERS)
def test_the_file_loads_into_the_plain_module_and_is_as_good_as_the_run_was(tmp_path: Path, to: str) -> None:
    """By nothing but the files: the network as its sheet describes it, pixels as its sheet normalises them."""
    path, (suffix, read) = colour_file(tmp_path), READERS[to]
    store, id = kept(
        tmp_path / "runs", data={"name": "npz", "path": path}, precision="float32", cycles=2, retrain_steps=3
    )
    found = trained(store, id, (), path=path)
    files = export.write(found, to, tmp_path / f"net{suffix}")
    assert [file.name for file in files] == [f"net{suffix}", f"net{suffix}.masks{suffix}", f"net{suffix}.json"]
    sheet = json.loads(files[2].read_text())
    net = MODELS[sheet["model"]](tuple(sheet["input"]["shape"]), sheet["classes"], **sheet["fields"])
    net.load_state_dict(read(files[0]), strict=True)
    masks = read(files[1])
    assert all(not net.get_parameter(name)[~mask].any() for name, mask in masks.items())
    assert sum(int(mask.sum()) for mask in masks.values()) < sum(mask.numel() for mask in masks.values())
    pixels, index = colour().train, found.feed.index["test"][0]
    mean, std = (torch.tensor(sheet["input"][name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        right = net.eval()((pixels.images[index] / 255 - mean) / std).argmax(1) == pixels.labels[index]
    assert float(right.float().mean()) == pytest.approx(sheet["test_accuracy"])
    assert sheet["test_accuracy"] == store.records(id)[1]["last_test_accuracy"]
    assert sheet["step"] == 3
    assert (sheet["run"], sheet["cycle"], sheet["classes"], sheet["input"]["shape"]) == (id, 1, 3, [3, 8, 8])
    assert sheet["density"] == pytest.approx(0.8, abs=1e-3)


def test_the_torch_file_holds_tensors_and_nothing_else(tmp_path: Path) -> None:
    found = opened(tmp_path)
    file = export.write(found, "torch", tmp_path / "net.pt")[0]
    assert b"scyc" not in file.read_bytes()
    loaded = torch.load(file, weights_only=True)
    assert type(loaded) is dict
    assert loaded.keys() == found.net.state_dict().keys()
    assert all(type(tensor) is Tensor and not tensor.requires_grad for tensor in loaded.values())


def test_files_are_named_after_run_and_cycle_where_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = [f"{found.id}-cycle-002.safetensors{end}" for end in ("", ".masks.safetensors", ".json")]
    assert [str(path) for path in export.write(found, "safetensors")] == names
    assert [str(path) for path in export.write(found, "safetensors")] == names  # and written over


def test_places_that_cannot_be_are_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*none; make it"):
        export.place(tmp_path / "none" / "net.pt")
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        export.place(tmp_path)
    with pytest.raises(ValueError, match="unknown format 'onxx'; did you mean 'onnx'"):
        export.form("onxx")


def test_where_one_file_cannot_be_written_none_stays(tmp_path: Path) -> None:
    found = opened(tmp_path)
    (tmp_path / "net.pt.json").mkdir()  # no sheet can be put here
    with pytest.raises(OSError, match=r"net\.pt\.json"):
        export.write(found, "torch", tmp_path / "net.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.pt.json", "runs"]


def test_zeros_are_measured_and_not_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def measured(nets: list[nn.Module], x: Tensor) -> list[float]:
        looked.extend([nets, x])
        return [12.3, 12.5]

    monkeypatch.setattr(export, "milliseconds", measured)
    found = opened(tmp_path)
    said = export.zeros(found)
    assert said.startswith("36.0 % of the prunable weights are zero")
    assert "a batch of 64 takes 12.3 ms, 12.5 ms without a single zero (CPU" in said
    assert said.endswith("scattered zeros make nothing faster on ordinary hardware")
    (masked, twin), x = looked
    assert masked is found.net
    assert all(twin.get_parameter(name).all() for name in found.masks)
    assert len(x) == 64


def test_a_network_that_is_not_pruned_has_no_zeros_to_measure(tmp_path: Path) -> None:
    assert export.zeros(opened(tmp_path, cycles=1)) == "no weight is pruned yet"


def test_onnx_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"is not installed; add it with: pip install 'scyc\[onnx\]'"):
        export.write(opened(tmp_path), "onnx", tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()


# ONNX

NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"widths": [8], "bn": True},
    "resnet20": {"width": 0.25, "activation": "prelu"},
    "alexnet": {"width": 0.02, "resize": 63},
    "vit": {"width": 0.05, "depth": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runs_as_torch_does_at_any_batch_size(tmp_path: Path, name: str) -> None:
    import onnxruntime

    found = opened(tmp_path, model={"name": name, **NETWORKS[name]}, steps=2, cycles=2)
    files = export.write(found, "onnx", tmp_path / "net.onnx")
    assert [file.name for file in files] == ["net.onnx", "net.onnx.masks.safetensors", "net.onnx.json"]
    session = onnxruntime.InferenceSession(files[0], providers=["CPUExecutionProvider"])
    for count in (1, 2, 7):
        images = torch.randn(count, 1, 8, 8)
        (logits,) = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(logits, found.net(images).detach().numpy(), rtol=1e-4, atol=1e-4)
    checked = json.loads(files[2].read_text())["onnxruntime"]
    assert checked["apart"] < checked["tolerance"] == 1e-4
    assert str(Path(export.__file__).parent).encode() not in files[0].read_bytes()  # no trace of this machine


class Changeable(nn.Module):
    """Another function while it is exported: what is checked must not agree."""

    off = 1e-3

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(x.flatten(1))
        return y * (1 + self.off) if torch.compiler.is_exporting() else y  # some logits are above 1


class Branching(Changeable):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(x.flatten(1))
        return y if x.mean().item() < 1e9 else -y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [("Changeable", "onnxruntime is 0.001 off torch, more than 0.0001"), ("Branching", "cannot be written as ONNX")],
)
def test_onnx_that_does_not_agree_is_refused_and_leaves_nothing(tmp_path: Path, name: str, said: str) -> None:
    found = opened(tmp_path, model=f"{__name__}:{name}", cycles=2)
    with pytest.raises(ValueError, match=said) as error:
        export.write(found, "onnx", tmp_path / "net.onnx")
    assert "nothing was written" in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.slow
def test_onnx_within_the_tolerance_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changeable, "off", 1e-5)
    found = opened(tmp_path, model=f"{__name__}:Changeable", cycles=2)
    sheet = json.loads(export.write(found, "onnx", tmp_path / "net.onnx")[2].read_text())
    assert sheet["onnxruntime"]["apart"] == pytest.approx(1e-5, rel=0.2)
