"""One of two processes of a test: runs the functions named on its command line, prints what they return as JSON."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import scyc
from scyc import across, lr, mask, prune

torch.set_num_threads(1)
SCHEDULE = lr.Schedule(peak=lr.SCyc(eps=0.05, delta=0.05, q=0, beta=3), shape=lr.Warmup(ramp=3))
BATCH = 16


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3)).double()


def data() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    return torch.randn(64, 12, generator=draw, dtype=torch.float64), torch.randint(0, 3, (64,), generator=draw)


def share(rank: int, processes: int) -> list[tuple[Tensor, Tensor]]:
    """The batches of one process: its part of every batch."""
    return [(x[rank::processes], y[rank::processes]) for x, y in zip(*(t.split(BATCH) for t in data()), strict=True)]


def trained(net: nn.Module, wrapped: nn.Module, rank: int, processes: int) -> list[scyc.Record]:
    """Two cycles by gradients and back to the start; `wrapped` averages gradients over the processes."""
    batches = share(rank, processes)

    def train(cycle: scyc.Cycle) -> None:
        optimizer = torch.optim.SGD(cycle.net.parameters(), lr=1.0, momentum=0.9)
        scheduler = cycle.attach_(optimizer)
        for x, y in batches:
            optimizer.zero_grad()
            cross_entropy(wrapped(x), y).backward()
            optimizer.step()
            scheduler.step()

    grads = lambda own: prune.gradients(own, batches, cross_entropy)  # noqa: E731
    choices: dict[str, Any] = {"score": "gradient", "grads": grads, "rewind": "init", "amount": 0.4, "cycles": 3}
    return list(scyc.prune_iteratively(net, train=train, schedule=SCHEDULE, **choices))


def ddp() -> dict[str, Any]:
    net = network()
    trained(net, DistributedDataParallel(net), distributed.get_rank(), 2)
    return {"weights": [p.detach().flatten().tolist() for p in net.parameters()]}


def strangers() -> dict[str, Any]:
    """Processes that share nothing."""
    net = network()
    with torch.no_grad():
        next(net.parameters()).add_(distributed.get_rank())
    return refused(lambda: trained(net, net, distributed.get_rank(), 2))


def mean() -> dict[str, Any]:
    """1 in the one process, 2 in the other."""
    own = {"a": torch.full((2,), distributed.get_rank() + 1.0)}
    return {"mean": across.averaged(own)["a"].tolist(), "own": own["a"].tolist()}


def sharded() -> dict[str, Any]:
    from torch.distributed.fsdp import fully_shard

    net, whole = network(), mask.ones_like(network())
    for layer in (net[0], net[2], net):  # type: ignore[index]
        fully_shard(layer)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    uses = [lambda: mask.ones_like(net), lambda: prune.step(net, whole), lambda: mask.attach_(optimizer, net, whole)]
    return {"refused": [refused(use)["refused"] for use in uses]}


def flattened() -> dict[str, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    said = []
    for original in (True, False):
        net, whole = network(), mask.ones_like(network())
        wrapped = FullyShardedDataParallel(net, use_orig_params=original, device_id=torch.device("cpu"))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=1.0)
        for use in (
            lambda wrapped=wrapped: mask.ones_like(wrapped),
            lambda net=net, whole=whole: prune.step(net, whole),
            lambda net=net, whole=whole, optimizer=optimizer: mask.attach_(optimizer, net, whole),
        ):
            said.append(refused(use)["refused"])
    return {"refused": said}


def accelerated() -> dict[str, Any]:
    """The scheduler stays unprepared: one step of it for each of the optimizer, over two batches."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net, rates, bad = network(), [], []
    wrapped = accelerator.prepare(net)
    batches = share(accelerator.process_index, accelerator.num_processes)

    def train(cycle: scyc.Cycle) -> None:
        optimizer = accelerator.prepare(torch.optim.SGD(cycle.net.parameters(), lr=1.0, momentum=0.9))
        scheduler = cycle.attach_(optimizer)
        for x, y in batches:
            with accelerator.accumulate(wrapped):
                rates.append(optimizer.param_groups[0]["lr"])
                accelerator.backward(cross_entropy(wrapped(x), y))
                optimizer.step()
                if accelerator.sync_gradients:
                    scheduler.step()
                optimizer.zero_grad()
            for name, kept in cycle.masks.items():
                bad.append(int(cycle.net.get_parameter(name)[~kept].count_nonzero()))

    records = list(scyc.prune_iteratively(net, train=train, schedule=SCHEDULE, amount=0.4, cycles=2))
    return {"rates": rates, "bad": sum(bad), "steps": [record.steps for record in records], "weights": digest(net)}


def prepared_optimizer() -> dict[str, Any]:
    """The loop of the design with what accelerate makes of an optimizer."""
    from accelerate import Accelerator

    net = network()
    masks = prune.step(net, mask.ones_like(net), amount=0.5)
    optimizer = Accelerator(cpu=True).prepare(torch.optim.SGD(net.parameters(), lr=1.0))
    mask.attach_(optimizer, net, masks)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {"zeros": sum(int((net.get_parameter(name) == 0).sum()) for name in masks)}


def prepared_scheduler() -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = accelerator.prepare(network())
    optimizer = accelerator.prepare(torch.optim.SGD(net.parameters(), lr=1.0))
    scheduler = lr.ScheduleLR(optimizer.optimizer, SCHEDULE, cycle=0, amount=0.2)
    return refused(lambda: accelerator.prepare(scheduler))


def lightning() -> dict[str, Any]:
    """Two cycles in a fit of Lightning's DDP, interrupted after the first and resumed."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.utils.data import DataLoader, TensorDataset

    from scyc.integrations.lightning import IterativePruning

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            return cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1.0, momentum=0.9)

    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    folder = tempfile.mkdtemp() if distributed.get_rank() == 0 else ""
    shared = [folder]
    distributed.broadcast_object_list(shared)
    ended = {}
    for name, epochs, path in (("whole", 4, None), ("half", 1, None), ("resumed", 4, f"{shared[0]}/last.ckpt")):
        net, pruning = Module(), IterativePruning(SCHEDULE, cycles=2, epochs=2, amount=0.4, rewind="init")
        callbacks = [pruning, ModelCheckpoint(shared[0], save_last=True, save_on_train_epoch_end=True)]
        trainer = pl.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_epochs=epochs, callbacks=callbacks, **quiet
        )
        rows = DataLoader(TensorDataset(*data()), BATCH // 2, shuffle=True)
        trainer.fit(net, rows, ckpt_path=path, weights_only=path is not None or None)
        ended[name] = {"weights": digest(net), "density": mask.density(pruning.masks)}
    return ended


def refused(use: Callable[[], object]) -> dict[str, Any]:
    try:
        use()
    except ValueError as error:
        return {"refused": str(error)}
    return {"refused": None}


def digest(net: nn.Module) -> str:
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.state_dict().values())).hexdigest()


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    try:
        print(json.dumps({name: globals()[name]() for name in sys.argv[1:]}))
    finally:
        distributed.destroy_process_group()
