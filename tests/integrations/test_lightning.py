"""Lightning: masks hold through a fit of several cycles, and a resumed fit ends with the bits of one never interrupted."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from examples import digit_images
from scyc import lr, mask, prune

pytest.importorskip("lightning")
import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint, ModelPruning

from scyc.integrations.lightning import IterativePruning

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*log_every_n_steps"),
    pytest.mark.filterwarnings("ignore:.*Starting from v1.9.0, `tensorboardX`"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory"),
]

ROWS, BATCH = 96, 16  # 6 steps an epoch
SCHEDULE = lr.Schedule(peak=lr.SCyc(eps=0.05, delta=0.05, q=0, beta=3), shape=lr.Warmup(ramp=4, drops=(9,)))


def optimizer_of(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, weight_decay=1e-2)


class Digits(pl.LightningModule):
    """A small network, with dropout, and with whatever a test wants of `configure_optimizers`."""

    def __init__(self, configure: Callable[[nn.Module], Any] = optimizer_of) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 10)
        )
        self.configure = configure

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self.log("accuracy", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self) -> Any:
        return self.configure(self)


def digits() -> Digits:
    torch.manual_seed(1)
    return Digits()


def rows(shuffle: bool = True) -> DataLoader[tuple[Tensor, ...]]:
    images, labels = digit_images().train.images[:ROWS].float() / 16, digit_images().train.labels[:ROWS]
    return DataLoader(TensorDataset(images, labels), BATCH, shuffle=shuffle)


class Watch(pl.Callback):
    """Every learning rate, and the number of pruned weights that are not zero, after every batch."""

    def __init__(self, pruning: IterativePruning) -> None:
        self.pruning = pruning
        self.rates: list[float] = []
        self.densities: list[float] = []

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: torch.optim.Optimizer) -> None:
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_train_batch_end(self, trainer: Any, pl_module: pl.LightningModule, *_: Any) -> None:
        for name, kept in self.pruning.masks.items():
            assert not pl_module.get_parameter(name)[~kept].any()
        self.densities.append(mask.density(self.pruning.masks))


def trainer(folder: Path, *callbacks: pl.Callback, **options: Any) -> pl.Trainer:
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    saving = [] if any(isinstance(c, ModelCheckpoint) for c in callbacks) else {"enable_checkpointing": False}
    return pl.Trainer(
        default_root_dir=folder, accelerator="cpu", callbacks=list(callbacks), **(quiet | dict(saving) | options)
    )


def fitted(folder: Path, pruning: IterativePruning, *others: pl.Callback, **options: Any) -> Digits:
    net = digits()
    torch.manual_seed(2)
    trainer(folder, pruning, *others, **options).fit(net, rows(), rows(shuffle=False))
    return net


def test_cycles_by_epochs_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    pruning = IterativePruning(SCHEDULE, cycles=3, epochs=2, amount=0.3, rewind="init")
    watch = Watch(pruning)
    net = fitted(tmp_path, pruning, watch, max_epochs=6, num_sanity_val_steps=0, limit_val_batches=0)
    assert watch.rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(3) for step in range(12)]
    assert watch.densities[::12] == [1.0, 1036 / 1480, 725 / 1480]  # 1480 - round(444), - round(310.8)

    plain = digits()
    torch.manual_seed(2)
    initial, masks = copy.deepcopy(plain.state_dict()), mask.ones_like(plain)
    for cycle in range(3):
        if cycle:
            masks = prune.step(plain, masks, amount=0.3)
            plain.load_state_dict(initial)
        optimizer = optimizer_of(plain)
        scheduler = lr.ScheduleLR(optimizer, SCHEDULE, cycle, 0.3)
        mask.attach_(optimizer, plain, masks)
        for _ in range(2):
            for batch in rows():
                optimizer.zero_grad()
                plain.training_step(batch).backward()
                optimizer.step()
                scheduler.step()
    assert bits(net) == bits(plain)


def bits(net: nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in net.state_dict().items()}


# Interrupted and resumed


@pytest.mark.parametrize("rewind", ["none", "init", {"name": "step", "k": 3}])
@pytest.mark.parametrize("length", [{"epochs": 2}, {"steps": 8}], ids=["epochs", "steps"])
@pytest.mark.parametrize("stop", range(1, 6))
def test_a_resumed_fit_ends_with_the_same_bits(tmp_path: Path, rewind: Any, length: dict[str, int], stop: int) -> None:
    """Stopped after each epoch in turn: within cycles, at their ends; shuffled rows and dropout from torch's stream."""
    made = [IterativePruning(SCHEDULE, cycles=3, amount=0.3, rewind=rewind, **length) for _ in range(3)]
    whole = fitted(tmp_path, made[0], max_epochs=6)
    saving = ModelCheckpoint(tmp_path, save_last=True, save_on_train_epoch_end=True)
    fitted(tmp_path, made[1], saving, max_epochs=stop)

    resumed = digits()
    torch.manual_seed(77)  # what the new process happens to have
    again = trainer(tmp_path, made[2], saving, max_epochs=6)
    again.fit(resumed, rows(), rows(shuffle=False), ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert bits(resumed) == bits(whole)
    assert all(torch.equal(made[0].masks[name], kept) for name, kept in made[2].masks.items())
    assert mask.density(made[2].masks) == 725 / 1480
    assert made[2].fit.pruner.history == made[0].fit.pruner.history
    assert [record.cycle for record in made[0].records] == [0, 1, 2]
