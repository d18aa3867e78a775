"""How gradients, hidden representations and pre-activations are distributed, at the peak and the end of every cycle."""

from scyc.distribution.buckets import RELATIVE_ERROR
from scyc.distribution.measure import Settings, measured
from scyc.distribution.measuring import MOMENTS, Measuring, rows

__all__ = ["MOMENTS", "RELATIVE_ERROR", "Measuring", "Settings", "measured", "rows"]
