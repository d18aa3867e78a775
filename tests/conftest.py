"""Every test on one thread, from the same random state, with the same generated examples every time.

Tests of faults exist once: in a small size among the others, and with `--full` (`make torture`) in their full size.
What they counted is printed at the end.
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings

from faults import Faults

torch.set_num_threads(1)
os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on the CPU; before anybody imports triton
settings.register_profile("same", deadline=None, derandomize=True, print_blob=False)
settings.load_profile("same")

FIGURES = "figures"  # what a test counted, among the properties of its report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="inject faults in their full numbers: make torture")


def pytest_make_parametrize_id(val: object) -> str | None:
    """A gzip file holds the second it was made in, and all workers must call a test by the same name."""
    return "bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def _same_random_state() -> None:
    torch.manual_seed(0)


@pytest.fixture
def size(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """size(small, full): how often a fault is injected."""
    whole = request.config.getoption("--full")
    return lambda small, full: full if whole else small


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """figure("500 kills, none lost"): a line for the end of the test session."""
    return lambda line: record_property(FIGURES, line)


@pytest.fixture
def faults() -> Iterator[Faults]:
    faults = Faults()
    yield faults
    for pid in list(faults.pids):
        os.kill(pid, signal.SIGKILL)
        faults.status(pid)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--full"):
        terminalreporter.section("what was injected")
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
            for name, line in report.user_properties:
                if name == FIGURES and report.when == "call":
                    terminalreporter.write_line(f"{report.outcome:6}  {report.duration:6.0f} s  {line}")
