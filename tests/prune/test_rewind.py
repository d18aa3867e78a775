"""Rewinds: where the next cycle starts."""

import pytest
import torch

from scyc.prune import REWINDS

KEPT, TRAINED, FRESH = ({"w": torch.tensor([value])} for value in (1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("name", "fields", "snapshot", "returned"),
    [
        ("none", {}, None, TRAINED),
        ("init", {}, 0, KEPT),
        ("step", {"k": 500}, 500, KEPT),
        ("reinit", {}, None, FRESH),
    ],
)
def test_rewind(name: str, fields: dict[str, int], snapshot: int | None, returned: dict[str, torch.Tensor]) -> None:
    rewind = REWINDS[name](**fields)
    assert rewind.snapshot == snapshot
    assert rewind(KEPT, TRAINED, lambda: FRESH) is returned


def test_nothing_is_drawn_that_is_not_used() -> None:
    def never() -> dict[str, torch.Tensor]:
        raise AssertionError

    for name in ("none", "init"):
        REWINDS[name]()(KEPT, TRAINED, never)


@pytest.mark.parametrize("k", [0, -1])
def test_a_step_before_the_first_is_rewind_init(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k = {k} is no step of cycle 0; write 1 or more \(0 is rewind 'init'\)"):
        REWINDS["step"](k=k)
