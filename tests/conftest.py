"""Every test on one thread, from the same random state, with the same generated examples every time."""

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("same", deadline=None, derandomize=True, print_blob=False)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _same_random_state() -> None:
    torch.manual_seed(0)
