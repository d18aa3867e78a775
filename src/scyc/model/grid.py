"""The pooling between convolutions and a fully connected head."""

import torch.nn.functional as F
from torch import Tensor, nn


class Grid(nn.Module):
    """`nn.AdaptiveAvgPool2d(side)`, with a gradient that is deterministic on a GPU where one pixel fills the grid."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(
        self,
        x: Tensor,  # (batch, channels, height, width)
    ) -> Tensor:  # (batch, channels, side, side)
        if x.shape[-2:] == (1, 1):
            return x.expand(*x.shape[:-2], self.side, self.side)
        if x.shape[-2:] == (self.side, self.side):
            return x
        return F.adaptive_avg_pool2d(x, self.side)

    def extra_repr(self) -> str:
        return str(self.side)
