"""Iterative pruning within one `Trainer.fit` of Lightning."""

from collections.abc import Mapping
from typing import Any, Unpack

from torch.utils.hooks import RemovableHandle

from scyc import across, draw
from scyc.integrations.one_fit import OneFit
from scyc.lr import Schedule
from scyc.mask import Masks
from scyc.method import Choices, Method
from scyc.pruner import Record

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError("this needs Lightning, which is not installed: pip install 'scyc[lightning]'") from error


class IterativePruning(Callback):  # type: ignore[misc]  # Lightning need not be installed to check types
    """Prunes after every `epochs` or `steps` of training, `cycles` trainings in all, and sets the learning rate.

    `configure_optimizers` returns one optimizer with lr=1.0 (or each group's share) and no scheduler. The other
    keywords are the fields of `scyc.Method`. Checkpoints hold the masks; a fit that goes on from one ends with the
    bits of a fit that was never interrupted.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        cycles: int = 25,
        epochs: int | None = None,
        steps: int | None = None,
        **choices: Unpack[Choices],
    ) -> None:
        self.fit = OneFit(schedule, cycles=cycles, epochs=epochs, steps=steps, method=Method(**choices))
        self.random: Mapping[str, Any] | None = None
        self.schedule_state: dict[str, Any] = {}
        self.stepping: RemovableHandle | None = None

    @property
    def masks(self) -> Masks:
        return self.fit.pruner.masks

    @property
    def records(self) -> list[Record]:
        """One for every cycle that this object trained."""
        return self.fit.records

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        found = [
            one for one in trainer.optimizers if one.param_groups and one.state_dict()
        ]  # Lightning's mock has none
        if len(found) != 1:
            raise ValueError(f"configure_optimizers returned {len(found)} optimizers; return one")
        if trainer.lr_scheduler_configs:
            raise ValueError("configure_optimizers returned a scheduler; return the optimizer alone: schedule= sets it")
        if self.fit.knows(pl_module) and self.fit.loaded is None:
            self.load_state_dict(self.state_dict())  # a second fit goes on where the first ended
        scheduler = self.fit.follow_(trainer.optimizers[0])
        self.fit.begin_(pl_module)
        if self.schedule_state:
            scheduler.restart_(self.fit.pruner.cycle, self.fit.pruner.past)
            scheduler.load_state_dict(self.schedule_state)
        if self.stepping is not None:
            self.stepping.remove()
        self.stepping = self.fit.optimizer.register_step_post_hook(lambda *_: scheduler.step())
        if self.random is not None:
            draw.set_stream_(self.random)
        self.schedule_state, self.random = {}, None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop |= self.fit.finished(trainer.current_epoch)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.fit.proceed_(trainer.current_epoch)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        trainer.should_stop |= self.fit.finished(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.fit.evaluated_(trainer.callback_metrics)
        trainer.should_stop |= self.fit.finished(trainer.current_epoch + 1)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.fit.evaluated_(trainer.callback_metrics)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.fit.record_()

    def state_dict(self) -> dict[str, Any]:
        if not self.fit.started:
            return {}
        random = draw.stream() if across.processes() == 1 else None  # one process's stream is not the others'
        return self.fit.state_dict() | {"schedule": self.fit.scheduler.state_dict(), "random": random}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.fit.loaded = state_dict
        self.schedule_state, self.random = state_dict["schedule"], state_dict["random"]
