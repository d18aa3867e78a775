"""How gradients, hidden representations and pre-activations are distributed, at the peak and the end of every cycle."""

from scyc.distribution.measure import Settings, measured
from scyc.distribution.measuring import Measuring, rows

__all__ = ["Measuring", "Settings", "measured", "rows"]
