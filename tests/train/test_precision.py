"""A run's declared precision: true inside a block, undone after it, and felt by the numbers."""

import os
from collections.abc import Iterator

import pytest
import torch

from examples import finished, small, stack_of
from scyc.train.precision import PRECISIONS, declared, repeating

FLAGS = [(False, False), (True, True), (True, False)]


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.fixture(params=FLAGS)
def before(request: pytest.FixtureRequest) -> Iterator[tuple[bool, bool]]:
    """What the user had set; it is put back after the test."""
    own = flags()
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = own


@pytest.mark.parametrize("precision", PRECISIONS)
def test_tf32_is_on_only_where_it_is_declared(precision: str, before: tuple[bool, bool]) -> None:
    with declared(precision):
        assert flags() == ((True, True) if precision == "tf32" else (False, False))
    assert flags() == before


def test_flags_are_restored_after_an_error(before: tuple[bool, bool]) -> None:
    with pytest.raises(KeyError), declared("tf32"):
        raise KeyError
    assert flags() == before


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_each_precision_trains_with_weights_of_its_type(engine: str) -> None:
    curves = {}
    for precision in PRECISIONS:
        stack = stack_of([small(precision=precision, cycles=2)], engine=engine)
        curves[precision] = torch.tensor(
            [rows["curve_validation_loss"] for rows in finished(stack)[0]], dtype=torch.float64
        )
        dtypes = {t.dtype for t in stack.engine.weights().values()}
        assert dtypes == {torch.float64 if precision == "float64" else torch.float32}
    assert torch.equal(curves["tf32"], curves["float32"])  # without a GPU there is no TF32
    assert not torch.equal(curves["bf16"], curves["float32"])
    torch.testing.assert_close(curves["bf16"], curves["float32"], rtol=0.05, atol=0.0)  # 8 bits of mantissa
    assert not torch.equal(curves["float64"], curves["float32"])
    torch.testing.assert_close(curves["float64"], curves["float32"], rtol=1e-4, atol=0.0)


# Bits that repeat


def switches() -> tuple[object, ...]:
    cudnn = torch.backends.cudnn
    algorithms = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    return *algorithms, cudnn.deterministic, cudnn.benchmark, os.environ.get("CUBLAS_WORKSPACE_CONFIG")


@pytest.mark.parametrize("workspace", [None, ":16:8", "anything"])
def test_everything_that_makes_bits_repeat_is_on_inside_and_undone_after(
    workspace: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if workspace is not None:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", workspace)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    own = switches()
    with repeating(True):
        assert switches() == (True, False, True, False, ":16:8" if workspace == ":16:8" else ":4096:8")
    assert switches() == own
    with pytest.raises(KeyError), repeating(True):
        raise KeyError
    assert switches() == own
    with repeating(False):
        assert switches() == own


def test_what_torch_cannot_promise_is_one_line_that_says_what_to_do() -> None:
    with (
        pytest.raises(
            ValueError,
            match=r"^--deterministic cannot be had here: max_unpooling2d_forward_out does not have a deterministic "
            r"implementation; train without it$",
        ),
        repeating(True),
    ):
        torch.nn.functional.max_unpool2d(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2)
    with pytest.raises(RuntimeError, match="another"), repeating(True):
        raise RuntimeError("another")


@pytest.mark.parametrize("engine", ["stacked", "single"])
def test_it_changes_nothing_where_bits_repeat_anyway(engine: str) -> None:
    """On one thread of the CPU."""
    plain, repeated = (stack_of([small(), small(seed=1)], engine=engine) for _ in range(2))
    finished(plain)
    with repeating(True):
        finished(repeated)
    assert repeated.history == plain.history
