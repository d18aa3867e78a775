"""The published figures, as printed."""

import tomllib
from importlib.resources import files
from typing import Any


def published() -> dict[str, Any]:
    """The paper's printed tables by experiment: accuracies in percent, oracle peaks as learning rates."""
    return tomllib.loads(files(__package__).joinpath("published.toml").read_text(encoding="utf-8"))
