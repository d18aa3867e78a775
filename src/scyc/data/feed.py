"""Batches for a stack of runs: one image tensor on the device, an index per seed, time as an argument."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from scyc.data.augment import crop_and_flip
from scyc.data.dataset import Dataset, Images
from scyc.data.split import split
from scyc.draw import key, mixed, permutation

CPU = torch.device("cpu")
EVALUATED_ROWS = 500  # rows of one evaluation pass: a constant, so that sums are taken in the same order every time


class Feed:
    """What every run of a stack sees at (cycle, step); runs of one seed see the same."""

    def __init__(
        self,
        dataset: Dataset,
        seeds: Sequence[int],  # one per run
        *,
        batch: int,
        how: str = "paper",
        limit: int = 0,
        augment: bool = False,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        held_out = dataset.test or Images(dataset.train.images[:0], dataset.train.labels[:0])
        self.images = torch.cat([dataset.train.images, held_out.images]).to(device)
        self.labels = torch.cat([dataset.train.labels, held_out.labels]).to(device)
        channels, height, width = self.images.shape[1:]
        self.shape = (channels, height, width)
        self.classes, self.batch, self.augment, self.dtype, self.device = dataset.classes, batch, augment, dtype, device
        self.distinct = list(dict.fromkeys(seeds))
        self.row = torch.tensor([self.distinct.index(seed) for seed in seeds], device=device)  # (runs,)
        splits = [split(len(dataset.train.labels), len(held_out.labels), how, s, limit) for s in self.distinct]
        self.index = {
            name: torch.stack([getattr(s, name) for s in splits]).to(device) for name in ("train", "validation", "test")
        }  # each (seeds, n)
        for name, index in self.index.items():
            if not index.shape[1]:
                total = sum(part.shape[1] for part in self.index.values())
                raise ValueError(
                    f"split {how!r} of {total} images leaves none for {name}; use more images (data.limit)"
                )
        self.epoch_steps = self.index["train"].shape[1] // batch
        if not self.epoch_steps:
            n = self.index["train"].shape[1]
            raise ValueError(f"batch = {batch} is larger than the {n} training images; use a batch of at most {n}")
        self.mean, self.std = self.normalisation(dataset)
        self.order = lru_cache(maxsize=2)(self.fresh_order)

    def normalisation(self, dataset: Dataset) -> tuple[Tensor, Tensor]:  # each (seeds, 1, channels, 1, 1)
        """The set's constants, or those of each seed's training split."""
        if dataset.mean is not None and dataset.std is not None:
            pairs = [(torch.tensor(dataset.mean), torch.tensor(dataset.std))] * len(self.distinct)
        else:
            pairs = [channel_statistics(self.images[index]) for index in self.index["train"]]
        mean, std = (torch.stack(side).to(self.device, self.dtype) for side in zip(*pairs, strict=True))
        return mean[:, None, :, None, None], std[:, None, :, None, None]

    def fresh_order(self, purpose: str, cycle: int, epoch: int) -> Tensor:  # (seeds, n)
        n = self.index["train"].shape[1]
        order = torch.stack([permutation(n, purpose, seed, cycle, epoch) for seed in self.distinct])
        return self.index["train"].gather(1, order.to(self.device))

    def train(self, cycle: int, step: int) -> tuple[Tensor, Tensor]:  # (runs, batch, ...), (runs, batch)
        """The batch of one step: drop-last epochs, a new order each."""
        epoch, place = divmod(step, self.epoch_steps)
        index = self.order("order", cycle, epoch)[:, place * self.batch : (place + 1) * self.batch]
        pixels = self.images[index]
        if self.augment:
            keys = torch.tensor([key("augment", seed, cycle) for seed in self.distinct], device=self.device)
            pixels = crop_and_flip(pixels, keys, step)
        return self.per_run(pixels, index)

    def rows(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """All images of a part, a pass at a time."""
        for index in torch.split(self.index[part], EVALUATED_ROWS, 1):
            yield self.per_run(self.images[index], index)

    def scoring(self, cycle: int, batches: int | str) -> Iterator[tuple[Tensor, Tensor]]:
        """Training images without augmentation: some batches drawn for this cycle's score, or `all`."""
        if batches == "all":
            yield from self.rows("train")
            return
        order = self.order("score", cycle, 0)
        for place in range(min(int(batches), self.epoch_steps)):
            index = order[:, place * self.batch : (place + 1) * self.batch]
            yield self.per_run(self.images[index], index)

    def drop_keys(self, cycle: int, step: int) -> Tensor:  # (runs,) int64
        """What a step's dropout is keyed by."""
        return mixed(torch.tensor([key("dropout", s, cycle) + step for s in self.distinct], device=self.device))[
            self.row
        ]

    def per_run(self, pixels: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x = (pixels.to(self.dtype) / 255 - self.mean) / self.std
        return x[self.row], self.labels[index][self.row]


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:  # (n, channels, height, width) uint8; each (channels,)
    """Mean and standard deviation of pixels in [0, 1], exact: taken from the counts of the 256 values."""
    values = torch.arange(256, dtype=torch.float64) / 255
    counts = (
        torch.stack([torch.bincount(c.flatten().int(), minlength=256) for c in images.transpose(0, 1)]).cpu().double()
    )
    share = counts / counts.sum(1, keepdim=True)
    mean = share @ values
    std = ((share @ values**2) - mean**2).clamp_min(0).sqrt()
    return mean, std.masked_fill(std == 0, 1.0)
