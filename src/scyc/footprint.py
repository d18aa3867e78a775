"""What one run takes in memory while it trains, from shapes alone, and how many runs this machine has room for."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from scyc.data import Dataset
from scyc.run import Run, effective
from scyc.train.precision import PRECISIONS

COPIES = 6  # weights, the gradients of views, flat gradients, the new weights, the early stop, one copy to save
SLOTS = {"adam": 2}  # per weight, in the optimizer; the others keep one
SHARE = 0.7  # of the free memory: the estimate knows neither workspaces nor fragments


@dataclass(frozen=True)
class Footprint:
    """One run's cost."""

    parameters: int
    state: int  # bytes of its weights
    memory: int  # bytes, while it trains


def footprint(run: Run, shape: tuple[int, ...], classes: int) -> Footprint:
    """Built and run on torch's meta device, which has shapes and no memory."""
    run = effective(run)
    with torch.device("meta"):
        net = run.model.make(shape, classes)
        kept: dict[int, Tensor] = {}  # what the backward pass will need, each tensor once

        def pack(tensor: Tensor) -> Tensor:
            kept[id(tensor)] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            net.train()(torch.empty(run.batch, *shape))
    parameters = sum(p.numel() for p in net.parameters())
    state = parameters * PRECISIONS[run.precision].itemsize
    activations = sum(tensor.numel() * tensor.element_size() for tensor in kept.values())
    return Footprint(parameters, state, state * (COPIES + SLOTS.get(run.optimizer.name, 1)) + activations)


def free(device: torch.device) -> int:
    """Bytes that can still be had on this device; 0 where nobody says."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = [0]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = [next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))]
    with suppress(OSError, ValueError):  # a container may have less; without a limit it says "max"
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current"))
        found.append(int(limit) - int(used))
    return min(found)


def room(run: Run, dataset: Dataset, device: torch.device) -> int:
    """How many such runs fit together, at least 1; without an answer, as many as asked for: 0."""
    available = free(device)
    try:
        one = footprint(run, tuple(dataset.train.images.shape[1:]), dataset.classes)
    except Exception:  # a network of the user's may not run without memory; then the allocator has the last word
        return 0
    return max(1, int(SHARE * available / one.memory)) if available else 0
