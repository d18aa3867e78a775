"""Transformers: a small network through several cycles in one `train`; resumed, it ends with the same bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from examples import digit_images
from scyc import lr, mask

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, ViTConfig
from transformers import ViTForImageClassification as ViT

from scyc.integrations.transformers import IterativePruning

pytestmark = pytest.mark.slow

SCHEDULE = lr.Schedule(peak=lr.SCyc(eps=0.005, delta=0.005, q=0, beta=3), shape=lr.Warmup(ramp=4, drops=(9,)))
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def vit() -> nn.Module:
    torch.manual_seed(1)
    config = ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=10, hidden_dropout_prob=0.1, **SMALL)
    net: nn.Module = ViT(config)
    return net


def bert() -> nn.Module:
    torch.manual_seed(1)
    net: nn.Module = BertForSequenceClassification(BertConfig(vocab_size=17, num_labels=10, **SMALL))
    return net


def pictures() -> list[dict[str, Any]]:
    images, labels = digit_images().train.images[:96], digit_images().train.labels[:96]
    return [{"pixel_values": image.float() / 16, "labels": label} for image, label in zip(images, labels, strict=True)]


def sentences() -> list[dict[str, Any]]:
    return [{"input_ids": row["pixel_values"].flatten().long(), "labels": row["labels"]} for row in pictures()]


class Watching(Trainer):  # type: ignore[misc]
    """Notes the learning rates, and that pruned weights are zero, whenever a batch comes."""

    def __init__(self, pruning: IterativePruning, **options: Any) -> None:
        super().__init__(**options)
        self.pruning, self.rates = pruning, []

    def training_step(self, model: nn.Module, *rest: Any) -> torch.Tensor:
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        for name, kept in self.pruning.masks.items():
            assert not self.model.get_parameter(name)[~kept].any()
        loss: torch.Tensor = super().training_step(model, *rest)
        return loss


def trainer(
    folder: Path, net: nn.Module, pruning: IterativePruning, rows: list[dict[str, Any]], **options: Any
) -> Watching:
    quiet: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    sizes: dict[str, Any] = {"per_device_train_batch_size": 16, "num_train_epochs": 6, "dataloader_pin_memory": False}
    arguments = TrainingArguments(str(folder), **(quiet | sizes | {"save_strategy": "no", "seed": 5} | options))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1.0, weight_decay=0.1)
    return Watching(
        pruning,
        model=net,
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows[:32],
        optimizers=(optimizer, pruning.scheduler(optimizer)),
        callbacks=[pruning],
    )


def bits(net: nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in net.state_dict().items()}


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], list[dict[str, Any]]]]] = {
    "vit": (vit, pictures),
    "bert": (bert, sentences),
}
CASES: list[tuple[str, dict[str, int], Any]] = [
    ("vit", {"epochs": 2}, "init"),
    ("vit", {"steps": 8}, {"name": "step", "k": 6}),
    ("bert", {"epochs": 2}, "none"),
    ("bert", {"steps": 8}, "init"),
]


@pytest.mark.parametrize(("network", "length", "rewind"), CASES)
def test_a_resumed_training_ends_with_the_same_bits(
    tmp_path: Path, network: str, length: dict[str, int], rewind: Any
) -> None:
    """From checkpoints within cycles and at their ends; shuffled rows and dropout."""
    make, rows = NETWORKS[network]
    last = 36 if "epochs" in length else 24
    pruning = IterativePruning(SCHEDULE, cycles=3, amount=0.3, rewind=rewind, **length)
    whole = trainer(tmp_path, make(), pruning, rows(), save_strategy="steps", save_steps=4)
    whole.train()
    assert whole.state.global_step == last
    steps = last // 3
    assert whole.rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(3) for step in range(steps)]
    for saved in (4, 8, 12, 20):
        again = IterativePruning(SCHEDULE, cycles=3, amount=0.3, rewind=rewind, **length)
        path = str(tmp_path / f"checkpoint-{saved}")
        resumed = trainer(tmp_path, ViT.from_pretrained(path) if make is vit else make(), again, rows())
        resumed.train(resume_from_checkpoint=path)
        assert bits(resumed.model) == bits(whole.model), saved
        assert resumed.rates == whole.rates[saved:]
        assert all(torch.equal(pruning.masks[name], kept) for name, kept in again.masks.items())
        assert again.fit.pruner.history == pruning.fit.pruner.history


def test_densities_and_records(tmp_path: Path) -> None:
    choose = lambda name, _: "classifier" not in name  # noqa: E731
    pruning = IterativePruning(SCHEDULE, cycles=3, epochs=1, amount=0.5, where=choose)
    trained = trainer(tmp_path, vit(), pruning, pictures(), num_train_epochs=3, eval_strategy="epoch")
    trained.train()
    assert [record.density for record in pruning.records] == [1.0, 0.5, 0.25]
    assert "classifier.weight" not in pruning.masks
    assert trained.model.classifier.weight.all()
    assert all(record.outcome["eval_loss"] > 0 for record in pruning.records)
    names = {name for name in mask.weights(trained.model) if name != "classifier.weight"}
    assert set(pruning.masks) == names
    assert sum("attention" in name for name in names) == 8  # query, key, value and output of 2 layers


def test_accumulation_counts_steps_of_the_optimizer(tmp_path: Path) -> None:
    pruning = IterativePruning(SCHEDULE, cycles=2, steps=4, amount=0.3)
    trained = trainer(tmp_path, vit(), pruning, pictures(), gradient_accumulation_steps=2, bf16=True)
    trained.train()
    assert trained.rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(2) for step in range(4) for _ in range(2)]


def test_what_would_lose_masks_is_refused_in_a_line(tmp_path: Path) -> None:
    def said_by(start: Callable[[], object]) -> str:
        with pytest.raises(ValueError) as error:
            start()
        assert "\n" not in str(error.value)
        return str(error.value)

    net, pruning = vit(), IterativePruning(SCHEDULE, cycles=2, steps=4)
    plain = Trainer(
        net, TrainingArguments(str(tmp_path), report_to=[], use_cpu=True), train_dataset=pictures(), callbacks=[pruning]
    )
    assert "use optimizers=(optimizer, pruning.scheduler(optimizer))" in said_by(plain.train)
    best = trainer(tmp_path, vit(), pruning, pictures(), load_best_model_at_end=True, eval_strategy="no")
    assert "load_best_model_at_end=True" in said_by(best.train)

    saving = {"save_strategy": "steps", "save_steps": 4, "max_steps": 4}
    trainer(tmp_path / "other", vit(), IterativePruning(SCHEDULE, cycles=2, steps=4), pictures(), **saving).train()
    other = trainer(tmp_path, vit(), IterativePruning(SCHEDULE, cycles=2, steps=4, amount=0.3), pictures())
    path = str(tmp_path / "other" / "checkpoint-4")
    assert "state has amount 0.2, this scheduler 0.3" in said_by(lambda: other.train(resume_from_checkpoint=path))
    other = trainer(tmp_path, vit(), IterativePruning(SCHEDULE, cycles=2, steps=4, rewind="init"), pictures())
    assert "state has method" in said_by(lambda: other.train(resume_from_checkpoint=path))

    saving = {**saving, "save_only_model": True}
    trainer(tmp_path / "bare", vit(), IterativePruning(SCHEDULE, cycles=2, steps=4), pictures(), **saving).train()
    path = str(tmp_path / "bare" / "checkpoint-4")
    other = trainer(tmp_path, vit(), IterativePruning(SCHEDULE, cycles=2, steps=4), pictures())
    assert "the checkpoint has no scheduler.pt" in said_by(lambda: other.train(resume_from_checkpoint=path))


def test_a_trainer_that_loads_other_weights_than_it_saved_is_refused(tmp_path: Path) -> None:
    """As transformers 5.23 does for a ViT, whose weights it saves under names that it does not look for."""
    options = {"save_strategy": "steps", "save_steps": 4, "max_steps": 4}
    trainer(tmp_path, vit(), IterativePruning(SCHEDULE, cycles=2, steps=4), pictures(), **options).train()
    other = trainer(tmp_path, vit(), IterativePruning(SCHEDULE, cycles=2, steps=4), pictures())
    other._load_from_checkpoint = lambda *_: None
    with pytest.raises(ValueError, match=r"did not load the checkpoint's weights; build the network with from_pre"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
