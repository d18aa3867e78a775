"""Runs that do not stack train side by side on the processor's cores: the same numbers, however many at once."""

from pathlib import Path

import pytest
import torch

from examples import colour, finished, small, stack_of
from scyc.config import digest, plain
from scyc.run import Run, identity
from scyc.store.runs import Store
from scyc.train import engine, single
from scyc.training import Control, Options, Training


def conv_runs(count: int) -> list[Run]:
    narrow = {"name": "resnet20", "width": 0.125}
    pruning = {"score": "gradient", "score_batches": 1}
    return [small(model=narrow, data="cifar10", cycles=2, pruning=pruning, seed=seed) for seed in range(count)]


def test_records_do_not_depend_on_how_many_train_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for at_once in (1, 2, 3):
        monkeypatch.setattr(single, "abreast", lambda device, at_once=at_once: at_once)
        found.append(finished(stack_of(conv_runs(3), colour(), engine="single")))
    assert found[0] == found[1] == found[2]
    assert len({rows[-1]["state"] for rows in found[0]}) == 3


def test_dropout_and_divergence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"name": "mlp", "widths": [8], "dropout": 0.5}
    peaks = [{"name": "fixed", "lr": lr} for lr in (0.1, 1e30, 0.2)]
    runs = [small(model=model, precision="float32", peak=peak) for peak in peaks]
    found = []
    for at_once in (1, 3):
        monkeypatch.setattr(single, "abreast", lambda device, at_once=at_once: at_once)
        found.append(finished(stack_of(runs, engine="single")))
    assert found[0] == found[1]
    assert ["diverged" in rows[-1] for rows in found[0]] == [False, True, False]


def test_the_cores_are_shared_out_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for threads, expected in ((1, 8), (2, 4), (3, 2), (16, 1)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert single.abreast(torch.device("cpu")) == expected
    assert single.abreast(torch.device("cuda")) == 1


class Heard:
    """A listener that keeps what was begun and said."""

    def __init__(self) -> None:
        self.stacks: list[tuple[str, ...]] = []
        self.why: list[str] = []
        self.lines: list[str] = []

    def began(self, stack) -> None:  # type: ignore[no-untyped-def]
        self.stacks.append(stack.ids)
        self.why.append(stack.why_single)

    def stepped(self, stack) -> None: ...  # type: ignore[no-untyped-def]
    def ended(self, stack, records) -> None: ...  # type: ignore[no-untyped-def]

    def said(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("at_once", "sizes", "words"), [(1, [1] * 5, "one run at a time"), (2, [2, 2, 1], "2 runs side by side")]
)
def test_a_training_goes_through_them_in_groups(  # type: ignore[no-untyped-def]
    at_once: int, sizes: list[int], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "step_seconds", lambda found, net: {"stacked": 4.0, "single": 1.0}[found.name])
    monkeypatch.setattr("scyc.training.abreast", lambda device: at_once)
    runs, store, heard = conv_runs(5), Store(tmp_path), Heard()
    data = {digest(plain(runs[0].data.source)): colour()}
    wanted = {identity(run, "made"): run for run in runs}
    for id, run in wanted.items():
        store.create(id, {**plain(run), "seed": run.seed})
    Training(store, data, Options(), Control(listeners=[heard])).train(wanted)
    why = "a step of 2 runs takes 4 s of the CPU stacked, 1 s one by one"
    assert [len(ids) for ids in heard.stacks] == sizes
    assert [id for ids in heard.stacks for id in ids] == list(wanted)
    assert heard.lines == [f"{words}: {why}"]
    assert set(heard.why) == {why}
    assert all(len(store.records(id)) == 2 for id in wanted)
    assert {event["engine"] for id in wanted for event in store.events(id) if "engine" in event} == {"single"}
