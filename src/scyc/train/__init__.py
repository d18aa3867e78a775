"""Engines that train K runs at once: `Stacked` is the product, `Single` its readable reference."""

from scyc.train.engine import ENGINES, Engine, engine_for
from scyc.train.update import OPTIMIZER, OPTIMIZERS

__all__ = ["ENGINES", "OPTIMIZER", "OPTIMIZERS", "Engine", "engine_for"]
