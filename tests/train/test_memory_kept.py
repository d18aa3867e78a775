"""Memory that a step frees stays with the process, so that the next one does not fault it in page by page."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from scyc.train.memory import keep_freed
{call}
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():  # blocks of 8 MB, several alive at a time, as gradients are
    blocks = [torch.ones(2_000_000) for _ in range(4)]
step(), step()
before = faults()
for _ in range(20):
    step()
print(faults() - before)
"""


def faults(call: str) -> int:
    script = FAULTS.format(call=call)
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc hands freed memory back so eagerly")
def test_freed_blocks_are_taken_again_without_page_faults() -> None:
    """80 blocks of 1,953 pages each: every page faults where they are handed back, none where they are kept."""
    assert faults("keep_freed()") < 80 * 1953 / 10 < faults("")
