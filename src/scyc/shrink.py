"""Pruned filters taken out: a narrow network that computes the same, what it saves, and its file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scyc import mask
from scyc.config import part
from scyc.cost import Cost, costs, in_words, machine
from scyc.draw import seeded
from scyc.export import form, place, sheet, sheet_of, together, zeros
from scyc.report.table import Grid
from scyc.run import MODEL
from scyc.silent import filters, without_silent
from scyc.stack import built
from scyc.store.files import Integrity
from scyc.store.weights import decode
from scyc.trained import Trained, apart

TOLERANCE = 1e-5  # between masked and narrow network, relative to the largest logit where that is above 1
WRITES = ("safetensors", "onnx")
SIZES = ("in_channels", "out_channels", "in_features", "out_features", "num_features", "num_parameters", "groups")
Widths = dict[str, dict[str, int]]  # by module: its sizes that differ from those of the network as it is built


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A network without its silent filters, beside the one it came from."""

    trained: Trained
    net: nn.Module
    apart: float  # on test images, at most TOLERANCE
    before: Cost
    after: Cost


def shrunk(trained: Trained) -> Shrunk:
    """The narrow network and what it saves; refused where nothing can go, or where it does not compute the same."""
    wide, images = trained.net, trained.images()
    if why := hopeless(trained):
        raise ValueError(f"run {trained.id}: nothing can be removed: {why}")
    net = without_silent(wide, images)
    if filters(net)[0] == filters(wide)[0]:
        raise ValueError(f"run {trained.id}: nothing can be removed: {reason(trained)}")
    with torch.no_grad():
        off = apart(net(images), wide(images))
    if not off <= TOLERANCE:
        raise ValueError(
            f"run {trained.id}: without its pruned filters the network is {off:.2g} off the masked one, more than "
            f"{TOLERANCE:g}; nothing was written"
        )
    return Shrunk(trained, net, off, *costs([wide, net], images))


def hopeless(trained: Trained) -> str:
    """Why no filter can go, where that is known without looking at how layers hang together."""
    total, silent = filters(trained.net)
    if trained.run.pruning.unit.name == "weight":
        remedy = "prune with unit 'filter'" if total else "it has no filters"
        return f"unit 'weight' scatters its zeros: {zeros(trained)}; {remedy}"
    return "" if silent else f"none of its {total} filters is pruned"


def reason(trained: Trained) -> str:
    silent = filters(trained.net)[1]
    if not mask.coupled(trained.net):
        return (
            f"{silent} filters are zero, but the model does not say in `prune_coupled` which bias and BatchNorm go "
            "with them, so their channels still speak"
        )
    return f"{silent} filters are zero, but what is not zero writes the same channels (sums)"


def table(found: Shrunk) -> Grid:
    """Before and after, and how many times less."""
    one, other = found.before, found.after
    sizes = [
        ("parameters", one.parameters, other.parameters),
        ("FLOPs per image", one.flops, other.flops),
        ("file, bytes", one.bytes, other.bytes),
    ]
    grid = [["", "masked", "shrunk", "ratio"]]
    grid += [[what, f"{a:,}", f"{b:,}", f"{a / b:.2f}"] for what, a, b in sizes]
    for batch, a in one.milliseconds.items():
        b = other.milliseconds[batch]
        grid.append([f"ms, {batch} image{'s' if batch > 1 else ''}", in_words(a), in_words(b), f"{a / b:.2f}"])
    return grid


def words(found: Shrunk) -> list[str]:
    (total, pruned), (left, stay) = filters(found.trained.net), filters(found.net)
    stays = f"; {stay} stay, since filters that are not pruned write the same channels (sums)" if stay else ""
    images = len(found.trained.images())
    return [
        f"{pruned} of {total} filters are pruned, {total - left} are removed{stays}",
        f"on {images} test images the two differ by {found.apart:.2g} at most (refused above {TOLERANCE:g})",
        f"times are those of the median pass, in turns, on {machine()}",
    ]


def save(found: Shrunk, to: str = "safetensors", out: Path | None = None) -> list[Path]:
    """The narrow network and its sheet; what is written as safetensors was loaded again, and computes the same."""
    suffix, writer = form(to, among=WRITES)
    path = place(out or Path(f"{found.trained.name}-shrunk{suffix}"))
    data, checked = writer(found.net, found.trained.images())
    facts = {**sheet(found.trained), "widths": widths(found.trained.net, found.net), "apart": found.apart, **checked}
    facts |= {"before": asdict(found.before), "after": asdict(found.after), "measured_on": machine()}
    if to == "safetensors":
        same(found, rebuilt(json.loads(json.dumps(facts)), decode(data, path), path, trust=True))
    return together({path: data}, path, facts)


def same(found: Shrunk, again: nn.Module) -> None:
    images = found.trained.images()
    with torch.no_grad():
        if not apart(again(images), found.net(images)) <= TOLERANCE:
            raise ValueError(f"run {found.trained.id}: the narrow network cannot be built again; nothing was written")


def widths(wide: nn.Module, narrow: nn.Module) -> Widths:
    modules = dict(narrow.named_modules())
    found = {
        name: {size: getattr(modules[name], size) for size in SIZES if differs(module, modules[name], size)}
        for name, module in wide.named_modules()
    }
    return {name: sizes for name, sizes in found.items() if sizes}


def differs(one: nn.Module, other: nn.Module, size: str) -> bool:
    return isinstance(getattr(one, size, None), int) and getattr(one, size) != getattr(other, size)


def load(path: str | Path, *, trust: bool = False) -> nn.Module:
    """The narrow network that `scyc shrink` wrote, from its safetensors file and the sheet beside it, PATH.json."""
    path = Path(path)
    try:
        data, facts = path.read_bytes(), json.loads(sheet_of(path).read_text("utf-8"))
        expected = facts["files"][path.name]
        assert isinstance(facts["widths"], dict)
    except FileNotFoundError as error:
        raise ValueError(f"{error.filename}: no such file; a shrunk network is PATH and PATH.json") from None
    except (ValueError, KeyError, TypeError, AssertionError):
        raise Integrity(
            f"{sheet_of(path)}: is no sheet of a shrunk network; write it again, with `scyc shrink`"
        ) from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise Integrity(f"{path}: is not the file that {sheet_of(path).name} describes; write both again")
    return rebuilt(facts, decode(data, path), path, trust=trust)


def rebuilt(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path, *, trust: bool) -> nn.Module:
    """The network as it is built, made narrow, with these weights."""
    model = part(MODEL, {"name": facts["model"], **facts["fields"]}, trust=trust)
    with seeded("init", 0, 0):
        net: nn.Module = built(model, tuple(facts["input"]["shape"]), facts["classes"])
    try:
        narrowed_(net.to(getattr(torch, facts["input"]["dtype"])), facts["widths"], tensors)
        net.load_state_dict(dict(tensors), strict=True)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"{path}: does not fit model {model.name!r}: {why}; write it again with this scyc") from None
    return net.eval()


@torch.no_grad()
def narrowed_(net: nn.Module, widths: Mapping[str, Mapping[str, int]], tensors: Mapping[str, Tensor]) -> None:
    """Every layer to its size, and room for its tensors."""
    for name, sizes in widths.items():
        for size, value in sizes.items():
            if size not in SIZES or type(value) is not int:
                raise KeyError(f"{name}.{size} = {value!r}")
            setattr(net.get_submodule(name), size, value)
    for name, tensor in tensors.items():
        prefix, _, leaf = name.rpartition(".")
        module = net.get_submodule(prefix)
        if leaf in module._parameters and module._parameters[leaf].shape != tensor.shape:  # type: ignore[union-attr]
            module._parameters[leaf] = nn.Parameter(torch.empty_like(tensor))
        elif leaf in module._buffers and module._buffers[leaf].shape != tensor.shape:  # type: ignore[union-attr]
            module._buffers[leaf] = torch.empty_like(tensor)
