"""Claim: on a GPU a stack trains its runs many times faster than a plain loop trains one after the other.

Milliseconds per run and step, everything included: batches drawn, augmented and normalised on the device, per-run
learning rates, masks, optimizer, look for NaN. Beside each the plain loop of torch's own layers on a batch that lies
ready, and the floor: the larger of the arithmetic over the measured rate and the bytes that must move over the
measured bandwidth.

usage: python benchmarks/stack_on_gpu.py [RECORDS.json]
"""

import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from scyc import stack as stacks
from scyc.data import Dataset, Images
from scyc.model import MODELS
from scyc.run import run_from
from scyc.stack import Stack
from scyc.train.precision import autocast, declared

CUDA = torch.device("cuda")
SGD = {"momentum": 0.9, "weight_decay": 1e-4}
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"shape": (1, 28, 28), "batch": 64, "augment": False, "steps": 100},
    "resnet20": {"shape": (3, 32, 32), "batch": 128, "augment": True, "steps": 20},
}
CASES = [  # network, precision, runs
    *(("mlp", "float32", runs) for runs in (1, 4, 16, 64, 256, 512)),
    ("mlp", "tf32", 512),
    ("resnet20", "bf16", 32),
    ("resnet20", "tf32", 32),
    ("resnet20", "float32", 32),
    ("resnet20", "bf16", 96),
]
PASSES = 6  # over every activation: written and read forward, and read and written for both gradients


def seconds(work: Callable[[int], None], steps: int) -> float:
    """Of one step, after as many that warm up."""
    work(steps)
    torch.cuda.synchronize()
    began = time.perf_counter()
    work(steps)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def plain(network: str, precision: str) -> float:
    """The loop one would write."""
    facts = NETWORKS[network]
    net = MODELS[network](facts["shape"], 10).to(CUDA)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, **SGD)
    x, y = torch.randn(facts["batch"], *facts["shape"], device=CUDA), torch.arange(facts["batch"], device=CUDA) % 10

    def work(steps: int) -> None:
        for _ in range(steps):
            with autocast(precision, CUDA):
                loss = cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    with declared(precision):
        return seconds(work, facts["steps"])


def started(network: str, precision: str, runs: int) -> Stack:
    facts = NETWORKS[network]
    draw, labels = torch.Generator().manual_seed(0), torch.arange(20_000) % 10
    images = Images(torch.randint(0, 256, (20_000, *facts["shape"]), dtype=torch.uint8, generator=draw), labels)
    dataset = Dataset(images, None, 10, mean=(0.5,) * facts["shape"][0], std=(0.25,) * facts["shape"][0])
    config = {"data": {"name": "npz", "path": "-", "augment": facts["augment"]}, "model": network, "steps": 10_000}
    config |= {"peak": {"name": "fixed", "lr": 0.01}, "shape": "constant", "batch": facts["batch"]}
    made = [run_from({**config, "precision": precision, "seed": seed}) for seed in range(runs)]
    return stacks.start([f"{k:012x}" for k in range(runs)], made, dataset, engine="captured", device=CUDA)


def stacked(network: str, precision: str, runs: int) -> dict[str, float]:
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with declared(precision):
        stack = started(network, precision, runs)
        ready = time.perf_counter() - began

        def work(steps: int) -> None:
            stack.engine.steps_(0, stack.step, torch.full((runs, steps), 0.01, dtype=torch.float64), stack.now)
            stack.step += steps

        step = seconds(work, NETWORKS[network]["steps"])
    assert bool(stack.engine.finite.all())
    memory = torch.cuda.max_memory_allocated() / runs
    return {"ms": 1e3 * step / runs, "setup_s": ready, "megabytes": memory / 1e6}


def rates() -> dict[str, float]:
    """What this device does at best: bytes copied and products per second."""
    block = torch.empty(2**30, dtype=torch.uint8, device=CUDA)
    other = torch.empty_like(block)
    found = {"bandwidth": 2 * 2**30 / seconds(lambda n: [other.copy_(block) for _ in range(n)] and None, 10)}
    for precision in ("float32", "tf32", "bf16"):
        a = torch.randn(8192, 8192, device=CUDA, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
        with declared(precision):
            found[precision] = 2 * 8192**3 / seconds(lambda n, a=a: [a @ a for _ in range(n)] and None, 5)
    return found


def floor(network: str, precision: str, best: dict[str, float]) -> float:
    """Milliseconds of a run's step that no version goes below by much."""
    facts, size = NETWORKS[network], 2 if precision == "bf16" else 4
    net = MODELS[network](facts["shape"], 10)
    outputs, products = [], []
    for layer in net.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(
                lambda layer, _, y: (
                    outputs.append(y.numel()),
                    products.append(y[0].numel() / y.shape[1] * layer.weight.numel()),
                )
            )
    net.eval()(torch.randn(1, *facts["shape"]))
    weights = sum(p.numel() for p in net.parameters())
    moved = PASSES * facts["batch"] * sum(outputs) * size + weights * (2 * size + 4 * 4 + 1)  # the update in float32
    return 1e3 * max(6 * facts["batch"] * sum(products) / best[precision], moved / best["bandwidth"])


def main() -> None:
    best = rates()
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, python {platform.python_version()}"
    records: dict[str, Any] = {"device": device, "rates": best, "plain": {}, "stacked": []}
    print(device, {name: f"{rate:.3g}" for name, rate in best.items()}, flush=True)
    for network in NETWORKS:
        for precision in ("float32", "tf32", "bf16"):
            records["plain"][f"{network} {precision}"] = 1e3 * plain(network, precision)
    print("plain loop, ms a step:", {k: round(v, 3) for k, v in records["plain"].items()}, flush=True)
    for network, precision, runs in CASES:
        found = stacked(network, precision, runs)
        ratio = records["plain"][f"{network} {precision}"] / found["ms"]
        row = {"network": network, "precision": precision, "runs": runs, **found, "ratio": ratio}
        row["floor_ms"] = floor(network, precision, best)
        records["stacked"].append(row)
        print({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        torch.cuda.empty_cache()
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
