"""`scyc export` and `scyc shrink` as their user meets them."""

import json
from pathlib import Path

import pytest
import safetensors.torch

from examples import SMALL, colour_file, kept
from scyc import shrink
from test_cli import scyc as scyc

FILTERS = {"unit": "filter", "scope": "layer", "amount": 0.5}


@pytest.fixture(autouse=True)
def _few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scyc.cost.SECONDS", 0.0)


def test_export_prints_its_files_and_what_zeros_are_worth(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    _, id = kept(tmp_path / "runs")
    said = scyc("export", id[:6])
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    name = f"{id}-cycle-002.safetensors"
    assert lines[:3] == [name, f"{name}.masks.safetensors", f"{name}.json"]
    assert lines[3].startswith("36.0 % of the prunable weights are zero")
    assert len(lines) == 4
    assert safetensors.torch.load_file(name)["fc.weight"].shape == (10, 8)
    assert json.loads(Path(lines[2]).read_text())["fields"] == {"widths": SMALL["model"]["widths"]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["export", "RUN", "--to", "onxx"], "unknown format 'onxx'; did you mean 'onnx'?"),
        (["export", "RUN", "--cycle", "0"], "has no weights of cycle 0; it keeps those of 2"),
        (["export", "RUN", "--path", "x.npz"], "was trained on digits, which is found by its name; leave it out"),
        (["export", "RUN", "--out", "none/net"], "there is no folder none; make it, or choose another place"),
        (["export", "0000000000zz"], "unknown run '0000000000zz'"),
        (["shrink", "RUN", "--to", "torch"], "unknown format 'torch'; known: onnx, safetensors"),
        (["shrink", "RUN", "--out", "none/net"], "there is no folder none; make it, or choose another place"),
        (["shrink", "RUN"], "nothing can be removed: unit 'weight' scatters its zeros"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(scyc, tmp_path: Path, words: list[str], expected: str) -> None:  # type: ignore[no-untyped-def]
    _, id = kept(tmp_path / "runs")
    there = sorted(tmp_path.iterdir())
    said = scyc(*[id if word == "RUN" else word for word in words])
    assert said.code == 2
    assert expected in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    assert sorted(tmp_path.iterdir()) == there


def test_data_that_is_another_is_exit_code_4(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = colour_file(tmp_path)
    _, id = kept(tmp_path / "runs", data={"name": "npz", "path": path})
    colour_file(tmp_path, side=10)
    said = scyc("export", id, "--path", path)
    assert said.code == 4
    assert "these are not the images that run" in said.err


@pytest.mark.slow
def test_shrink_prints_its_table_and_its_files(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = colour_file(tmp_path)
    model = {"name": "resnet20", "width": 0.25}
    _, id = kept(tmp_path / "runs", data={"name": "npz", "path": path}, model=model, pruning=FILTERS)
    said = scyc("shrink", id, "--path", path, "--out", "net.safetensors")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].split() == ["masked", "shrunk", "ratio"]
    assert [line.split()[0] for line in lines[2:7]] == ["parameters", "FLOPs", "file,", "ms,", "ms,"]
    assert lines[-2:] == ["net.safetensors", "net.safetensors.json"]
    parameters = sum(p.numel() for p in shrink.load("net.safetensors").parameters())
    assert lines[2].split()[2] == f"{parameters:,}"
    exported = scyc("export", id, "--path", path)
    assert exported.out.splitlines()[-1].endswith("`scyc shrink` takes out the filters that are zero")
