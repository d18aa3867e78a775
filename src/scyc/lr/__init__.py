"""The learning rate is peak(cycle) x shape(step): only the peak carries a rate, and a shape is a factor."""

from scyc.lr.adapter import ScheduleLR
from scyc.lr.peaks import ALLR, PEAKS, Density, Fixed, History, Linear, Peak, Reversed, SCyc, Step, Table, Unmeasured
from scyc.lr.schedule import Schedule, plain, table
from scyc.lr.shapes import FT, LLR, SHAPES, SLR, Constant, Cosine, Cyclical, Decay, OneCycle, Shape, Warmup

__all__ = ["PEAKS", "SHAPES", "History", "Peak", "Schedule", "ScheduleLR", "Shape", "Unmeasured", "plain", "table"]
__all__ += ["ALLR", "Density", "Fixed", "Linear", "Reversed", "SCyc", "Step", "Table"]
__all__ += ["FT", "LLR", "SLR", "Constant", "Cosine", "Cyclical", "Decay", "OneCycle", "Warmup"]
