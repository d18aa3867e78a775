"""Dropout whose draws are keyed by (seed, cycle, step, place): alike alone and in a stack, and after a resume."""

import torch
from torch import Tensor, nn

from scyc.draw import mixed

KEY = "drop_key"


class KeyedDropout(nn.Module):
    """Stands in for `nn.Dropout`; its buffer `drop_key` is set before every step."""

    drop_key: Tensor

    def __init__(self, p: float, place: int) -> None:
        super().__init__()
        self.p, self.place = p, place
        self.register_buffer(KEY, torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        words = mixed(mixed(self.drop_key + self.place) + torch.arange(x.numel(), device=x.device))
        kept = ((words >> 11) & 0x1FFFFFFFFFFFFF).view(x.shape) >= int(self.p * 2**53)
        return torch.where(kept, x / (1 - self.p), 0.0)


def keyed_(net: nn.Module) -> list[str]:
    """Replace every `nn.Dropout` in the network; returns the names of the key buffers."""
    found = [(prefix, module) for prefix, module in net.named_modules() if type(module) is nn.Dropout]
    for place, (prefix, module) in enumerate(found):
        net.set_submodule(prefix, KeyedDropout(module.p, place << 32))
    return [f"{prefix}.{KEY}" for prefix, _ in found]
