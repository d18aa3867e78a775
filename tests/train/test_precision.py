"""A run's declared precision: true inside a block, undone after it, and felt by the numbers."""

from collections.abc import Iterator

import pytest
import torch

from examples import finished, small, stack_of
from scyc.train.precision import PRECISIONS, declared

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
