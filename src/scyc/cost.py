"""What a network costs where it is used: parameters, floating-point operations, bytes of its file, measured time."""

import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from scyc.store.weights import Payload, encode

BATCHES = (1, 64)  # images at once: one that waits for its answer, and many
SECONDS = 2.0  # of measuring, per batch size
FEWEST, MOST = 5, 200  # passes of each network
WARM = 2  # passes before those that count


@dataclass(frozen=True)
class Cost:
    """One network's."""

    parameters: int
    flops: int  # of one image; a multiplication and an addition are two
    bytes: int  # of its safetensors file
    milliseconds: dict[int, float]  # by images at once: the median pass


def costs(nets: Sequence[nn.Module], images: Tensor) -> list[Cost]:
    """Of networks that take the same images (n, channels, height, width); their passes take turns."""
    timed = {batch: milliseconds(nets, repeated(images, batch)) for batch in BATCHES}
    return [
        Cost(
            sum(p.numel() for p in net.parameters()),
            flops(net, images[:1]),
            payload(net.state_dict()).size,
            {batch: times[k] for batch, times in timed.items()},
        )
        for k, net in enumerate(nets)
    ]


def payload(tensors: Mapping[str, Tensor]) -> Payload:
    """A safetensors file as other programs expect it: they look for the format's name."""
    return encode(tensors, {"format": "pt"})


def repeated(images: Tensor, count: int) -> Tensor:
    return images[torch.arange(count) % len(images)]


def flops(net: nn.Module, image: Tensor) -> int:
    """As torch counts them: matrix products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        net(image)
    return int(counter.get_total_flops())


@torch.no_grad()
def milliseconds(nets: Sequence[nn.Module], x: Tensor) -> list[float]:
    """The median pass of each; one after the other, again and again, so that what else runs here meets all alike."""
    times: list[list[float]] = [[] for _ in nets]
    for _ in range(WARM):
        for net in nets:
            net(x)
    began = time.perf_counter()
    while len(times[0]) < FEWEST or (len(times[0]) < MOST and time.perf_counter() - began < SECONDS):
        for net, own in zip(nets, times, strict=True):
            start = time.perf_counter()
            net(x)
            own.append(1000 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]


def in_words(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 100 else f"{milliseconds:,.0f}"


def machine() -> str:
    threads = torch.get_num_threads()
    return f"CPU {platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"
