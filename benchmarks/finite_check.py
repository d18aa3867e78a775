"""Claim: looking for NaN and infinity after every step of every run costs at most 2 % of a step.

The look is timed within the step, in seconds of the processor, which other processes change little; its share of the
step is what counts. With one run at a time it has in it the copy of the weights that a step is taken back to.

usage: python benchmarks/finite_check.py [steps]
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from scyc import stack as stacks
from scyc.data import Dataset, Images
from scyc.run import Run, run_from
from scyc.stack import Stack

CASES = {  # engine, network, image shape, runs
    "MLP 784-256-256-256-10, stack of 8": ("stacked", {"name": "mlp"}, (1, 28, 28), 8),
    "MLP 784-256-256-256-10, single": ("single", {"name": "mlp"}, (1, 28, 28), 1),
    "ResNet-20 of half the width, stack of 4": ("stacked", {"name": "resnet20", "width": 0.5}, (3, 32, 32), 4),
    "ResNet-20, single": ("single", {"name": "resnet20"}, (3, 32, 32), 1),
}


def stack_of(engine: str, model: dict[str, Any], shape: tuple[int, int, int], runs: int) -> Stack:
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2000, *shape), dtype=torch.uint8, generator=draw)
    dataset = Dataset(Images(images, torch.arange(2000) % 10), None, 10, mean=None, std=None)
    peak = {"name": "fixed", "lr": 0.01}
    config = {"data": {"name": "npz", "path": "-"}, "model": model, "peak": peak, "shape": "constant", "steps": 1000}
    made: list[Run] = [run_from({**config, "seed": seed}) for seed in range(runs)]
    ids = [f"{k:012x}" for k in range(runs)]
    return stacks.start(ids, made, dataset, engine=engine, device=torch.device("cpu"))


def cost(engine: str, model: dict[str, Any], shape: tuple[int, int, int], runs: int, steps: int) -> tuple[float, float]:
    """Seconds of a step, and the share of them that the look takes."""
    stack = stack_of(engine, model, shape, runs)
    taken: dict[str, list[float]] = {"step_": [], "look": []}
    for name in ("sound", "keep_"):
        if hasattr(stack.engine, name):
            setattr(stack.engine, name, timed(getattr(stack.engine, name), taken["look"]))
    step = timed(stack.engine.step_, taken["step_"])
    lrs = torch.full((runs,), 0.01, dtype=torch.float64)
    for number in range(steps + 3):
        if number == 3:  # the first steps warm up
            taken["look"].clear()
            taken["step_"].clear()
        step(0, number, lrs)
    return sum(taken["step_"]) / steps, sum(taken["look"]) / sum(taken["step_"])


def timed(call: Callable[..., Any], taken: list[float]) -> Callable[..., Any]:
    def calling(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return call(*arguments)
        finally:
            taken.append(time.process_time() - began)

    return calling


if __name__ == "__main__":
    torch.set_num_threads(1)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"batch 128, {steps} steps, torch {torch.__version__}, 1 thread")
    for name, case in CASES.items():
        seconds, share = cost(*case, steps)
        print(f"{name:42} {1e3 * seconds:8.2f} ms a step, the look takes {100 * share:5.2f} %")
