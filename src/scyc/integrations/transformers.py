"""Iterative pruning within one `Trainer.train` of Transformers."""

from typing import Any, Unpack

from torch import nn
from torch.optim import Optimizer

from scyc.across import digest
from scyc.integrations.one_fit import OneFit
from scyc.lr import Schedule, ScheduleLR
from scyc.mask import Masks
from scyc.method import Choices, Method
from scyc.pruner import Record, past, tensors

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise ImportError("this needs Transformers: pip install 'scyc[transformers]'") from error


class CarryingLR(ScheduleLR):
    """A schedule through all cycles of a fit; its state, which a Trainer saves and loads, carries the masks."""

    def __init__(self, optimizer: Optimizer, fit: OneFit) -> None:
        super().__init__(optimizer, fit.schedule, cycle=0, amount=fit.method.amount)
        self.fit = fit
        self.weights: str | None = None  # those that a loaded state was saved with

    def state_dict(self) -> dict[str, Any]:
        own = {key: value for key, value in super().state_dict().items() if key != "fit"}
        return own | {"pruning": self.fit.state_dict(), "weights": digest(tensors(self.fit.pruner.net))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pruning = state_dict.get("pruning")
        if pruning is None:
            raise ValueError("the checkpoint has no masks: it was not saved with IterativePruning; start without it")
        self.fit.loaded, self.weights = pruning, state_dict["weights"]
        cycle, history, taken = (pruning["pruner"].get(name, {}) for name in ("cycle", "history", "taken"))
        self.restart_(cycle, past(cycle, history, taken))
        super().load_state_dict({key: state_dict[key] for key in state_dict if key not in ("pruning", "weights")})

    def check(self, net: nn.Module) -> None:
        """Refuse other weights than were saved: for a ViT, some versions of Transformers save under other names than
        `resume_from_checkpoint` looks for, warn, and go on from where the network happens to be."""
        saved, self.weights = self.weights, None
        if saved is not None and digest(tensors(net)) != saved:
            raise ValueError(
                "the Trainer did not load the checkpoint's weights; build the network with "
                "from_pretrained(CHECKPOINT) before resume_from_checkpoint"
            )


class IterativePruning(TrainerCallback):  # type: ignore[misc]  # nor need Transformers be installed
    """Prunes after every `epochs` or `steps` of training, `cycles` trainings in all, and sets the learning rate.

    Pass it twice: `Trainer(optimizers=(optimizer, pruning.scheduler(optimizer)), callbacks=[pruning])`, the optimizer
    with lr=1.0 (or each group's share). The other keywords are the fields of `scyc.Method`. Checkpoints hold the masks
    in `scheduler.pt`, so that `resume_from_checkpoint` ends with the bits of a training never interrupted.
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

    def scheduler(self, optimizer: Optimizer) -> ScheduleLR:
        """What goes beside the optimizer into `Trainer(optimizers=...)`."""
        return self.fit.follow_(optimizer, CarryingLR(optimizer, self.fit))

    @property
    def masks(self) -> Masks:
        return self.fit.pruner.masks

    @property
    def records(self) -> list[Record]:
        """One for every cycle that this object trained."""
        return self.fit.records

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **of: Any) -> None:
        if getattr(of["lr_scheduler"], "fit", None) is not self.fit:
            raise ValueError(
                "the Trainer has another scheduler; use optimizers=(optimizer, pruning.scheduler(optimizer))"
            )
        if args.load_best_model_at_end:
            raise ValueError("load_best_model_at_end=True may load weights of an earlier cycle; set it to False")
        if state.global_step and self.fit.loaded is None:
            raise ValueError("the checkpoint has no scheduler.pt, and so no masks; save with save_only_model=False")
        self.fit.begin_(of["model"])
        of["lr_scheduler"].check(of["model"])
        control.should_training_stop |= self.fit.finished(state.epoch or 0)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.fit.proceed_(state.epoch or 0)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        control.should_training_stop |= self.fit.finished(state.epoch or 0)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **of: Any) -> None:
        self.fit.evaluated_(of["metrics"])

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.fit.record_()
