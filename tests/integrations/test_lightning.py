"""Lightning: masks hold through a fit of several cycles; a resumed fit ends with the bits of one never interrupted."""

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
@pytest.mark.parametrize("stop", [2, 3, 5])
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


class Resumable:
    """Batches whose order is keyed by the epoch, and which go on in the middle of one."""

    def __init__(self) -> None:
        self.epoch = self.batch = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        images, labels = digit_images().train.images.float() / 16, digit_images().train.labels
        while self.batch < 6:
            chosen = torch.arange(BATCH) + BATCH * (self.batch + 6 * self.epoch)
            self.batch += 1
            yield images[chosen], labels[chosen]
        self.epoch, self.batch = self.epoch + 1, 0

    def __len__(self) -> int:
        return 6

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.batch = state["epoch"], state["batch"]


@pytest.mark.parametrize("step", [4, 8, 9, 16])
def test_a_fit_resumes_within_an_epoch(tmp_path: Path, step: int) -> None:
    """Where the rows can go on there; a cycle of 8 steps ends within epochs of 6."""
    made = [IterativePruning(SCHEDULE, cycles=3, steps=8, amount=0.3, rewind="init") for _ in range(2)]
    saving = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    ended = []
    for pruning, path in zip(made, [None, tmp_path / f"step={step}.ckpt"], strict=True):
        ended.append(digits())
        torch.manual_seed(2)
        fit = trainer(tmp_path, pruning, saving, max_epochs=-1, num_sanity_val_steps=0, limit_val_batches=0)
        fit.fit(ended[-1], Resumable(), rows(False), ckpt_path=path, weights_only=path is not None or None)
        assert fit.global_step == 24
    assert bits(ended[1]) == bits(ended[0])
    assert [record.steps for record in made[0].records] == [8, 8, 8]


def test_lightnings_own_pruning_loses_its_masks_on_resume_and_ours_does_not(tmp_path: Path) -> None:
    """Pruned once to a half, saved, loaded into a new process's objects, trained on: how many weights are zero?"""

    def after_resuming(make: Callable[[], pl.Callback], folder: Path) -> list[int]:
        nets = [digits(), digits()]
        saving = ModelCheckpoint(folder, save_last=True, save_on_train_epoch_end=True)
        for net, epochs, path in zip(nets, (2, 3), (None, folder / "last.ckpt"), strict=True):
            torch.manual_seed(2)
            trainer(folder, make(), saving, max_epochs=epochs).fit(net, rows(), rows(False), ckpt_path=path)
        return [sum(int((net.net[k].weight == 0).sum()) for k in (1, 5)) for net in nets]

    def theirs() -> pl.Callback:
        return ModelPruning("l1_unstructured", apply_pruning=lambda epoch: epoch == 1, amount=0.5)

    saved, resumed = after_resuming(theirs, tmp_path / "theirs")
    assert saved >= 740
    assert resumed < 20
    ours = after_resuming(lambda: IterativePruning(SCHEDULE, cycles=2, epochs=1, amount=0.5), tmp_path / "ours")
    assert ours == [740, 740]


# What configure_optimizers may return


def decay(net: nn.Module) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer_of(net), 1)


FORMS: dict[str, Callable[[nn.Module], Any]] = {
    "alone": optimizer_of,
    "list": lambda net: [optimizer_of(net)],
    "lists": lambda net: ([optimizer_of(net)], []),
    "dictionary": lambda net: {"optimizer": optimizer_of(net)},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_configure_optimizers(tmp_path: Path, form: str) -> None:
    pruning = IterativePruning(SCHEDULE, cycles=2, epochs=1, amount=0.3)
    watch, net = Watch(pruning), Digits(FORMS[form])
    trainer(tmp_path, pruning, watch, max_epochs=2).fit(net, rows(), rows(False))
    assert watch.rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(2) for step in range(6)]


REFUSED: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "lists": (lambda net: ([(s := decay(net)).optimizer], [s]), "configure_optimizers returned a scheduler"),
    "dictionary": (
        lambda net: {"optimizer": (s := decay(net)).optimizer, "lr_scheduler": {"scheduler": s, "interval": "step"}},
        "return the optimizer alone",
    ),
    "two": (lambda net: [optimizer_of(net), optimizer_of(net)], "returned 2 optimizers; return one"),
    "none": (lambda net: None, "returned 0 optimizers; return one"),
}


@pytest.mark.filterwarnings("ignore:`LightningModule.configure_optimizers` returned `None`")
@pytest.mark.parametrize("form", REFUSED)
def test_other_forms_are_refused_in_a_line(tmp_path: Path, form: str) -> None:
    configure, said = REFUSED[form]
    net = Digits(configure)
    net.automatic_optimization = form != "two"  # with which Lightning would refuse it itself
    with pytest.raises(ValueError, match=said) as error:
        trainer(tmp_path, IterativePruning(SCHEDULE, cycles=2, epochs=1), max_epochs=2).fit(net, rows(), rows(False))
    assert "\n" not in str(error.value)


def test_groups_keep_their_ratios(tmp_path: Path) -> None:
    def grouped(net: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            [{"params": net.net[1].parameters()}, {"params": net.net[5].parameters(), "lr": 0.1}], 1
        )

    seen: list[list[float]] = []

    class Look(pl.Callback):
        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: torch.optim.Optimizer) -> None:
            seen.append([group["lr"] for group in optimizer.param_groups])

    pruning = IterativePruning(SCHEDULE, cycles=2, steps=5, amount=0.3)
    trainer(tmp_path, pruning, Look(), max_epochs=-1).fit(Digits(grouped), rows(), rows(False))
    peaks = [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(2) for step in range(5)]
    assert seen == [[peak, pytest.approx(peak / 10, rel=1e-15)] for peak in peaks]


def test_accumulation_clipping_and_bf16(tmp_path: Path) -> None:
    """A step is one of the optimizer, over two batches."""
    pruning = IterativePruning(SCHEDULE, cycles=2, steps=4, amount=0.3)
    watch = Watch(pruning)
    options: dict[str, Any] = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "precision": "bf16-mixed"}
    fitted(tmp_path, pruning, watch, max_epochs=-1, **options)
    assert watch.rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(2) for step in range(4)]
    assert len(watch.densities) == 16
    assert watch.densities[-1] == 1036 / 1480


def test_a_second_fit_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    pruning = IterativePruning(SCHEDULE, cycles=3, epochs=1, amount=0.3)
    net = fitted(tmp_path, pruning, max_epochs=2)
    assert mask.density(pruning.masks) == 1036 / 1480
    watch = Watch(pruning)
    trainer(tmp_path, pruning, watch, max_epochs=2).fit(net, rows(), rows(False))
    assert watch.densities == [1036 / 1480] * 6 + [725 / 1480] * 6


def test_records_have_what_was_evaluated(tmp_path: Path) -> None:
    pruning = IterativePruning(SCHEDULE, cycles=2, epochs=1, amount=0.3, where=lambda name, _: name != "net.5.weight")
    fitted(tmp_path, pruning, max_epochs=2)
    assert [record.density for record in pruning.records] == [1.0, 896 / 1280]
    assert [record.density_all for record in pruning.records] == [1.0, 1096 / 1480]
    assert all(0 < record.outcome["accuracy"] <= 1 for record in pruning.records)
    assert [record.peak for record in pruning.records] == [SCHEDULE.peak(cycle, 0.3) for cycle in range(2)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "epochs=None, steps=None: say how long a cycle is"),
        ({"epochs": 1, "steps": 2}, "epochs=1, steps=2: say how long a cycle is with one of them"),
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": 1, "score": "gradient"}, "score 'gradient' needs grads="),
        ({"epochs": 1, "score": "magnitud"}, "did you mean 'magnitude'"),
        ({"epochs": 1, "rewind": "reinit"}, "rewind 'reinit' needs fresh="),
        ({"epochs": 1, "amount": 1.0}, "amount = 1.0: must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_is_said_when_it_is_built(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        IterativePruning(SCHEDULE, **options)
    assert "\n" not in str(error.value)
