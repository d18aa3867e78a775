"""Kernels on the CPU: Triton's interpreter runs them, and every access is looked at."""

from typing import Any

import numpy as np
import pytest
import torch

interpreter = pytest.importorskip("triton.runtime.interpreter")


@pytest.fixture(autouse=True)
def _no_access_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No load and no store leaves the tensors that a launch was given."""
    inside: list[tuple[int, int]] = []
    run = interpreter.InterpretedFunction.run

    def launched(self: Any, *args: Any, **words: Any) -> Any:
        stores = [a.untyped_storage() for a in args if isinstance(a, torch.Tensor)]
        inside[:] = [(store.data_ptr(), store.data_ptr() + store.nbytes()) for store in stores]
        return run(self, *args, **words)

    def look(pointers: Any, mask: Any) -> None:
        places = np.asarray(pointers.data).astype(np.int64)
        taken = places[np.broadcast_to(np.asarray(mask.data, bool), places.shape)]
        good = np.zeros(taken.shape, bool)
        for first, last in inside:
            good |= (taken >= first) & (taken < last)
        assert good.all(), f"{(~good).sum()} of {good.size} accesses leave the tensors"

    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def loading(self: Any, pointers: Any, mask: Any, *args: Any, **words: Any) -> Any:
        look(pointers, mask)
        return load(self, pointers, mask, *args, **words)

    def storing(self: Any, pointers: Any, value: Any, mask: Any, *args: Any, **words: Any) -> Any:
        look(pointers, mask)
        return store(self, pointers, value, mask, *args, **words)

    monkeypatch.setattr(interpreter.InterpretedFunction, "run", launched)
    monkeypatch.setattr(builder, "create_masked_load", loading)
    monkeypatch.setattr(builder, "create_masked_store", storing)
