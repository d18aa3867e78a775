"""A trained network out of the store: the plain module with its weights, its masks, and the images it has seen."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scyc.config import parameters, plain
from scyc.data import READERS, DataError, read
from scyc.data.feed import Feed
from scyc.run import Run, effective, run_from
from scyc.stack import network
from scyc.store.runs import Store
from scyc.train.precision import PRECISIONS

KEPT = re.compile(r"cycle-([0-9]{3,})")
LOOKED_AT = 100  # test images that two forms of a network are compared on


@dataclass(frozen=True, eq=False)
class Trained:
    """One run at the end of one cycle."""

    id: str
    run: Run
    cycle: int
    record: Mapping[str, Any]
    net: nn.Module  # in evaluation mode, on the CPU
    masks: Mapping[str, Tensor]
    feed: Feed

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.id}-cycle-{self.cycle:03}"

    def images(self) -> Tensor:  # (n, channels, height, width)
        """Test images as the network sees them, normalised."""
        return next(self.feed.rows("test"))[0][0][:LOOKED_AT]


def trained(
    store: Store, id: str, roots: tuple[Path, ...], *, cycle: int | None = None, path: str = "", trust: bool = False
) -> Trained:
    """A run's network after a cycle, by default the last whose weights are kept; `path` is where its own data lies."""
    records = store.records(id)
    number = chosen(id, records, store.states(id), cycle)
    record = records[number]
    if "diverged" in record:
        raise ValueError(
            f"run {id} diverged in cycle {number}; name an earlier cycle whose weights are kept, with --cycle"
        )
    run, data_digest = configured(store, id, path, trust=trust)
    feed = fed(id, run, data_digest, roots, trust=trust)
    stored = store.load_state(id, f"cycle-{number:03}", record["state"])
    weights = {name: tensor for name, tensor in stored.items() if not name.startswith("mask/")}
    masks = {name.removeprefix("mask/"): tensor for name, tensor in stored.items() if name.startswith("mask/")}
    net = network(run, feed.shape, feed.classes).to(PRECISIONS[run.precision])
    return Trained(id, run, number, record, filled_(net, weights, run.model.name).eval(), masks, feed)


def chosen(id: str, records: list[dict[str, Any]], states: list[str], cycle: int | None) -> int:
    """The cycle asked for, if its weights are there; else why they are not, and what to do."""
    if not records:
        raise ValueError(f"run {id} has recorded no cycle yet; train it first, with `scyc run`")
    if "state" not in records[-1]:
        raise ValueError(f"run {id} is a search: it has records and no network of its own; name a run of `scyc run`")
    kept = [int(found[1]) for found in map(KEPT.fullmatch, states) if found and int(found[1]) < len(records)]
    last = max(kept, default=len(records) - 1) if cycle is None else cycle
    if not 0 <= last < len(records):
        raise ValueError(f"--cycle {last}: run {id} has recorded cycles 0 to {len(records) - 1}")
    if last not in kept:
        there = f"it keeps those of {', '.join(map(str, kept))}" if kept else "it keeps none"
        raise ValueError(
            f"run {id} has no weights of cycle {last}; {there}: with --keep last they stay at its end, with --keep all "
            f"after every cycle; to have them now, `scyc rm {id}` and train it again"
        )
    return last


def configured(store: Store, id: str, path: str, *, trust: bool) -> tuple[Run, str]:
    """The run's configuration with its scale applied, and the digest of its data."""
    config = store.config(id)
    data_digest = str(config.pop("data_digest", ""))
    data = dict(config["data"])
    place = parameters(READERS.find(data["name"], trust=trust), READERS.arguments).get("path")
    if path and place is None:
        raise ValueError(
            f"--path {path}: run {id} was trained on {data['name']}, which is found by its name; leave it out"
        )
    if path:
        data["path"] = path
    elif place is not None and place.default is inspect.Parameter.empty:
        raise ValueError(f"run {id} was trained on your own data ({data['name']}); say where it lies, with --path")
    return effective(run_from({**config, "data": data}, trust=trust)), data_digest


def fed(id: str, run: Run, data_digest: str, roots: tuple[Path, ...], *, trust: bool) -> Feed:
    """The images that the run was trained and tested on, and how it normalised them."""
    source = run.data.source
    dataset = read(source.name, source.fields, roots, trust=trust)
    if dataset.digest() != data_digest:
        where = plain(source).get("path", source.name)
        raise DataError(f"{where}: these are not the images that run {id} was trained on; name the same data")
    dtype = PRECISIONS[run.precision]
    return Feed(dataset, [run.seed], batch=run.batch, how=run.data.split, limit=run.data.limit, dtype=dtype)


@torch.no_grad()
def filled_(net: nn.Module, weights: Mapping[str, Tensor], model: str) -> nn.Module:
    """The network with these weights: each tensor of its state, where weights are tied under any of their names."""
    places = dict(net.named_parameters(remove_duplicate=False)) | dict(net.named_buffers(remove_duplicate=False))
    unknown = [name for name in weights if name not in places or places[name].shape != weights[name].shape]
    filled = {id(places[name]) for name in weights if name in places}
    missing = [name for name, tensor in net.state_dict(keep_vars=True).items() if id(tensor) not in filled]
    if unknown or missing:
        name = (unknown + missing)[0]
        raise ValueError(f"model {model!r} does not fit the stored weights at {name!r}; restore the code it had then")
    for name, tensor in weights.items():
        places[name].copy_(tensor)
    return net


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value of `other` where that is above 1; NaN is infinite."""
    if one.shape != other.shape:
        return float("inf")
    one, other = one.detach().double(), other.detach().double()
    off = (one - other).abs().max() / max(1.0, float(other.abs().max()))
    return float(off.nan_to_num(torch.inf, torch.inf))
