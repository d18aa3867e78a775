"""Claim: what a step frees on the CPU stays for the next one, which would fault it in again page by page.

A process that frees and takes 80 blocks of 8 MB, with and without `keep_freed`: page faults, and seconds of the CPU.
Without it the C library decides, by what was freed before, so that its own figure differs from machine to machine.

usage: python benchmarks/kept_memory.py
"""

import subprocess
import sys

STEPS = """
import resource, torch
from scyc.train.memory import keep_freed
torch.set_num_threads(1)
{call}
def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_utime + usage.ru_stime
def step():  # several blocks alive at a time, as gradients are
    blocks = [torch.ones(2_000_000) for _ in range(4)]
step(), step()
faults, seconds = spent()
for _ in range(20):
    step()
print(spent()[0] - faults, spent()[1] - seconds)
"""


def measured(call: str) -> tuple[int, float]:
    done = subprocess.run([sys.executable, "-c", STEPS.format(call=call)], capture_output=True, text=True, check=True)
    faults, seconds = done.stdout.split()
    return int(faults), float(seconds)


def main() -> None:
    (plain, slow), (kept, fast) = measured(""), measured("keep_freed()")
    print(f"left to the C library: {plain:,} page faults, {slow:.3f} s; kept: {kept:,}, {fast:.3f} s")
    print(f"ratio of the times: {slow / fast:.2f}")


if __name__ == "__main__":
    main()
