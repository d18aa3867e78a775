"""What processes compare; with two of them it is tested in integrations/test_processes.py."""

import torch

from scyc import across


def test_alone_nothing_is_asked_of_others() -> None:
    grads = {"a": torch.ones(2)}
    assert across.processes() == 1
    assert across.averaged(grads) is grads
    across.agreed({"a": torch.ones(2, dtype=torch.bool)})


def test_a_digest_is_of_names_and_content() -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.tensor(3)}
    same = across.digest(dict(reversed(tensors.items())))
    assert across.digest(tensors) == same
    assert across.digest({**tensors, "a": tensors["a"].t().contiguous().t()}) == same  # however it lies in memory
    others = [{**tensors, "b": -tensors["b"]}, {**tensors, "c": torch.tensor(4)}, {"x": tensors["a"]}]
    assert len({across.digest(other) for other in [tensors, *others]}) == 4
