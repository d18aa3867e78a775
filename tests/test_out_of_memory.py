"""Memory that ends in the middle of a training: the stack is split and retried, and every run says so."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command import TINY, command
from scyc.store.runs import Store
from scyc.train.memory import out_of_memory

SIZED = TINY.replace("seeds = 2", "seeds = 4").replace("widths = [6]", "widths = [WIDTH]")
WORDS = ["run", "sized.toml", "--checkpoint-every", "0"]
RAISED = {
    "torch's own": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "the CPU allocator's": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    "Python's": MemoryError,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sized.toml").write_text(SIZED.replace("WIDTH", "6"))
    return tmp_path


def raising(error: Callable[[], BaseException], most: int, at: int) -> Callable[[], None]:
    """What makes the n-th step of more than so many runs fail, and every later one."""

    def spoil() -> None:
        from scyc.train.stacked import Stacked

        step, steps = Stacked.step_, iter(range(10**9))

        def failing(self: Stacked, cycle: int, number: int, lrs: torch.Tensor) -> None:
            if len(lrs) > most and next(steps) >= at:
                raise error()
            step(self, cycle, number, lrs)

        Stacked.step_ = failing  # type: ignore[method-assign]

    return spoil


def stacks_of(store: Store, kind: str) -> list[list[int]]:
    """Per run, how many runs its stacks had when this happened."""
    return [[event["runs"] for event in store.events(id) if event["kind"] == kind] for id in store.ids()]


def near(one: Path, other: Path) -> None:
    """The same records up to what the number of runs in a stack may change: the last bits."""
    for id, expected in {id: Store(other).records(id) for id in Store(other).ids()}.items():
        found = Store(one).records(id)
        assert [row["cycle"] for row in found] == [row["cycle"] for row in expected]
        for row, right in zip(found, expected, strict=True):
            assert row["validation_loss"] == pytest.approx(right["validation_loss"], rel=1e-5)
            assert (row["density"], row["peak"]) == (right["density"], right["peak"])


@pytest.mark.torture
@pytest.mark.parametrize(
    "error",
    [pytest.param(error, marks=[] if name == "torch's own" else pytest.mark.slow) for name, error in RAISED.items()],
    ids=RAISED,
)
def test_a_stack_that_does_not_fit_is_split_and_goes_on(folder: Path, error: Callable[[], BaseException]) -> None:
    assert command(folder, [*WORDS, "--root", "calm"]).code == 0
    said = command(folder, WORDS, raising(error, most=2, at=6))
    assert said.code == 0, said.err
    assert "4 runs do not fit into memory together: split in two, batch size unchanged" in said.err
    store = Store(folder / "runs")
    assert stacks_of(store, "out of memory") == [[4]] * 4
    assert stacks_of(store, "started") == [[4]] * 4
    assert stacks_of(store, "resumed") == [[2]] * 4  # from the step before, not from the start
    assert {(e["cycle"], e["step"]) for id in store.ids() for e in store.events(id) if e["kind"] == "resumed"} == {
        (1, 2)
    }
    assert store.ids() == Store(folder / "calm").ids()  # the batch size is in the id
    near(folder / "runs", folder / "calm")


@pytest.mark.slow
@pytest.mark.torture
def test_where_not_even_one_run_fits_it_says_so_and_stays_unfinished(folder: Path) -> None:
    said = command(folder, WORDS, raising(RAISED["torch's own"], most=0, at=0))
    assert said.code == 3
    store = Store(folder / "runs")
    assert stacks_of(store, "out of memory") == [[4, 2, 1]] * 4
    assert [store.records(id) for id in store.ids()] == [[]] * 4
    assert said.err.count("does not fit into memory even alone; the other runs go on") == 4
    assert command(folder, [*WORDS, "--quiet"]).code == 0  # with more memory the same command goes on
    assert [len(store.records(id)) for id in store.ids()] == [3] * 4


def spare(megabytes: int) -> Callable[[], None]:
    """What leaves a process so much more address space than it has."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


@pytest.mark.slow
@pytest.mark.torture
def test_less_and_less_memory_for_real(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Four networks of 2 M parameters (8 MB, and so much for gradients, momentum, masks): somewhere two still fit."""
    (tmp_path / "sized.toml").write_text(SIZED.replace("WIDTH", "25_000").replace("batch = 20", "batch = 100"))
    words, outcomes = [*WORDS[:2], "--cycles", "2", "--root"], {}
    assert command(tmp_path, [*words, "calm"]).code == 0
    for megabytes in (300, 150, 80):
        said = command(tmp_path, [*words, f"runs-{megabytes}"], spare(megabytes))
        store = Store(tmp_path / f"runs-{megabytes}")
        assert said.code in (0, 2, 3), said.err
        assert "Traceback" not in said.err
        outcomes[megabytes] = stacks_of(store, "out of memory")
        if said.code == 0:
            assert [len(store.records(id)) for id in store.ids()] == [2] * 4
            near(store.root, tmp_path / "calm")
    split = [megabytes for megabytes, lost in outcomes.items() if [4] in lost or [4, 2] in lost]
    alone = [megabytes for megabytes, lost in outcomes.items() if [4, 2, 1] in lost]
    assert split, outcomes
    assert alone, outcomes
    figure(f"RLIMIT_AS: split with {split} MB to spare, not even one run with {alone} MB")


def test_other_errors_are_not_taken_for_it() -> None:
    assert not out_of_memory(RuntimeError("shapes do not match"))
    assert not out_of_memory(OSError(5, "Input/output error"))
