"""Claim: the 30 runs of the digits preset train several times faster as one stack than one after the other.

Both engines train the same cycles in this one process, on one thread; the ratio is what counts.

usage: python benchmarks/stacked_against_sequential.py [cycles]
"""

import sys
import time

import torch

from scyc import cycle, load
from scyc import stack as stacks
from scyc.data import read


def seconds(engine: str, cycles: int) -> tuple[float, float]:
    """Time of all runs, and the mean test accuracy they end with."""
    experiment = load("digits", overrides=[f"cycles={cycles}"])
    dataset = read("digits", {}, ())
    groups = [experiment.all] if engine == "stacked" else [[run] for run in experiment.all]
    began, reached = time.perf_counter(), []
    for runs in groups:
        ids = [f"{k:012x}" for k in range(len(runs))]
        stack = stacks.start(ids, runs, dataset, engine=engine, device=torch.device("cpu"))
        for records in cycle.cycles(stack, lambda _: None):
            last = records
        reached += [record["test_accuracy"] for record in last.values()]
    return time.perf_counter() - began, sum(reached) / len(reached)


if __name__ == "__main__":
    torch.set_num_threads(1)
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    stacked, accuracy = seconds("stacked", cycles)
    single, reference = seconds("single", cycles)
    print(f"30 runs, {cycles} cycles of 400 steps, torch {torch.__version__}, 1 thread")
    print(f"one after the other  {single:7.1f} s   mean test accuracy {100 * reference:.2f} %")
    print(f"one stack            {stacked:7.1f} s   mean test accuracy {100 * accuracy:.2f} %")
    print(f"ratio                {single / stacked:7.1f}")
