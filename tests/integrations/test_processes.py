"""Two processes over gloo: what works gives what one process gives; what does not is refused in a line."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import process
import pytest
import torch

from scyc import mask

pytest.importorskip("accelerate")
pytest.importorskip("lightning")
pytestmark = pytest.mark.slow


FUNCTIONS = ["ddp", "strangers", "mean", "sharded", "flattened", "accelerated", "prepared_optimizer"]
FUNCTIONS += ["prepared_scheduler", "lightning"]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Any]]:
    """What every function returned, in each of two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": "2"}
    running = [
        subprocess.Popen(
            [sys.executable, process.__file__, *FUNCTIONS],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [one.communicate(timeout=240) for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0, 0], outputs
    results = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    return {name: [result[name] for result in results] for name in FUNCTIONS}


Found = dict[str, list[Any]]


def test_ddp_prunes_as_one_process_with_the_whole_batch(found: Found) -> None:
    one, other = found["ddp"]
    assert one == other
    net = process.network()
    records = process.trained(net, net, 0, 1)
    zeros = 0
    for values, parameter in zip(one["weights"], net.parameters(), strict=True):
        own = torch.tensor(values, dtype=torch.float64).view_as(parameter)
        torch.testing.assert_close(own, parameter.detach(), rtol=1e-9, atol=1e-12)
        zeros += int((own == 0).sum()) if own.dim() == 2 else 0
    assert mask.density(records[-1].masks) == pytest.approx(0.36, abs=2e-3)
    assert zeros == sum(int((~kept).sum()) for kept in records[-1].masks.values())


def test_networks_that_differ_between_processes_are_refused(found: Found) -> None:
    for result in found["strangers"]:
        assert result["refused"].startswith("the processes chose different masks: their weights differ; wrap the netwo")
        assert "\n" not in result["refused"]


@pytest.mark.parametrize("function", ["sharded", "flattened"])
def test_fsdp_is_refused(found: Found, function: str) -> None:
    for result in found[function]:
        for said in result["refused"]:
            assert "is sharded by FSDP, and masks do not fit its shards; train with DDP" in said
            assert "\n" not in said


def test_gradients_are_averaged(found: Found) -> None:
    assert found["mean"] == [{"mean": [1.5, 1.5], "own": [1.0, 1.0]}, {"mean": [1.5, 1.5], "own": [2.0, 2.0]}]


def test_masks_hold_under_an_optimizer_that_accelerate_wrapped(found: Found) -> None:
    assert found["prepared_optimizer"] == [{"zeros": 150}] * 2  # of 300


def test_accelerate_steps_the_schedule_once_per_step(found: Found) -> None:
    one, other = found["accelerated"]
    assert one == other
    expected = [process.SCHEDULE.lr(cycle, step, 0.4) for cycle in range(2) for step in range(2) for _ in range(2)]
    assert one["rates"] == expected
    assert one["bad"] == 0
    assert one["steps"] == [2, 2]


def test_a_scheduler_that_accelerate_would_step_in_every_process_is_refused(found: Found) -> None:
    for result in found["prepared_scheduler"]:
        assert "accelerate would step it once per process; call scheduler.step() yourself" in result["refused"]
        assert "\n" not in result["refused"]


def test_lightnings_ddp_resumes_to_the_same_bits(found: Found) -> None:
    one, other = found["lightning"]
    assert one == other
    assert one["resumed"] == one["whole"]
    assert one["whole"]["density"] == 180 / 300
    assert one["half"]["density"] == 1.0
