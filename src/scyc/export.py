"""A trained network as files for other programs: dense weights, masks beside them, a sheet that says what they are."""

import copy
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scyc import mask, onnx
from scyc.cost import BATCHES, in_words, machine, milliseconds, payload, repeated
from scyc.registry import nearest
from scyc.store import files
from scyc.trained import Trained

Facts = dict[str, Any]


def state(net: nn.Module) -> dict[str, Tensor]:
    """A plain dense state_dict, as `load_state_dict(strict=True)` of the same network takes it."""
    return {name: tensor.detach().contiguous().clone() for name, tensor in net.state_dict().items()}


def safetensors_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return b"".join(payload(tensors))


def torch_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """What `torch.load(weights_only=True)` reads: a dictionary of tensors and nothing else."""
    buffer = io.BytesIO()
    torch.save(dict(tensors), buffer)
    return buffer.getvalue()


Writer = Callable[[nn.Module, Tensor], tuple[bytes, Facts]]  # network, images -> the file, what was found out about it
FORMATS: dict[str, tuple[str, Writer]] = {  # suffix, writer
    "safetensors": (".safetensors", lambda net, _: (safetensors_bytes(state(net)), {})),
    "onnx": (".onnx", onnx.graph),
    "torch": (".pt", lambda net, _: (torch_bytes(state(net)), {})),
}


def form(to: str, *, among: tuple[str, ...] = tuple(FORMATS)) -> tuple[str, Writer]:
    if to not in among:
        raise nearest("format", to, among)
    return FORMATS[to]


def write(trained: Trained, to: str, out: Path | None = None) -> list[Path]:
    """The network, its masks and its sheet as three files: all of them or none."""
    suffix, writer = form(to)
    path = place(out or Path(trained.name + suffix))
    data, found = writer(trained.net, trained.images())
    masks = {path.with_name(f"{path.name}.masks.safetensors"): safetensors_bytes(trained.masks)}
    if to == "torch":
        masks = {path.with_name(f"{path.name}.masks.pt"): torch_bytes(trained.masks)}
    return together({path: data, **masks}, path, {**sheet(trained), **found})


def place(path: Path) -> Path:
    """Said before the work, not after it."""
    if not path.parent.is_dir():
        raise ValueError(f"--out {path}: there is no folder {path.parent}; make it, or choose another place")
    if path.is_dir():
        raise ValueError(f"--out {path} is a folder; name a file in it")
    return path


def sheet(trained: Trained) -> Facts:
    """What a reader of the file has to know; the weights are those after the last step of the cycle."""
    run, feed, record = trained.run, trained.feed, trained.record
    return {
        "run": trained.id,
        "cycle": trained.cycle,
        "seed": run.seed,
        "model": run.model.name,
        "fields": dict(run.model.fields),
        "classes": feed.classes,
        "input": {
            "shape": list(feed.shape),
            "dtype": str(feed.dtype).removeprefix("torch."),
            "values": "(pixels / 255 - mean) / std, by channel",
            "mean": feed.mean.flatten().tolist(),
            "std": feed.std.flatten().tolist(),
        },
        "density": record["density"],
        "density_all": record["density_all"],
        "precision": run.precision,
        "step": run.steps_of(record["cycle"]),
        "test_accuracy": record["last_test_accuracy"],
        "early_stop": {"step": record["step"], "test_accuracy": record["test_accuracy"]},
    }


def sheet_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def together(contents: Mapping[Path, bytes], path: Path, facts: Facts) -> list[Path]:
    """Write the files, last the sheet of `path` with their digests; where one cannot be written, none stays."""
    digests = {file.name: hashlib.sha256(data).hexdigest() for file, data in contents.items()}
    text = json.dumps({**facts, "files": digests}, indent=2, allow_nan=False).encode() + b"\n"
    done: list[Path] = []
    try:
        for file, data in {**contents, sheet_of(path): text}.items():
            files.write(file, data)
            done.append(file)
    except BaseException:
        for file in done:
            with suppress(OSError):
                file.unlink()
        raise
    return done


@torch.no_grad()
def zeros(trained: Trained) -> str:
    """What zeros are worth in time, measured: the network beside its twin that has none."""
    names = [name for name in mask.prunable(trained.net) if name in trained.masks]
    if all(bool(trained.masks[name].all()) for name in names):
        return "no weight is pruned yet"
    twin = copy.deepcopy(trained.net)
    for name in names:
        weight = twin.get_parameter(name)
        weight.copy_(torch.where(trained.masks[name], weight, 0.01 * torch.randn_like(weight)))
    images = repeated(trained.images(), BATCHES[-1])
    ours, theirs = map(in_words, milliseconds([trained.net, twin], images))
    share, many = 100 * (1 - mask.density(trained.masks, names)), f"a batch of {len(images)}"
    return (
        f"{share:.1f} % of the prunable weights are zero and stay there: {many} takes {ours} ms, {theirs} ms "
        f"without a single zero ({machine()}); {ADVICE[trained.run.pruning.unit.name == 'filter']}"
    )


ADVICE = {  # were whole filters pruned?
    False: "scattered zeros make nothing faster on ordinary hardware",
    True: "`scyc shrink` takes out the filters that are zero",
}
