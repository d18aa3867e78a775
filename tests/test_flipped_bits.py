"""One flipped bit in what a training left behind: nothing loads silently, and the older generation takes over."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from command import TINY, command, journals
from scyc.store import checkpoint, weights
from scyc.store.files import Integrity
from scyc.store.runs import Store

WORDS = ["run", "tiny.toml", "--checkpoint-every", "0", "--quiet"]


@dataclass(frozen=True)
class Left:
    """A folder with a finished experiment under runs/ and one that was stopped in its second cycle under part/."""

    folder: Path

    @property
    def whole(self) -> Store:
        return Store(self.folder / "runs")

    @property
    def part(self) -> Store:
        return Store(self.folder / "part")

    @property
    def generations(self) -> list[Path]:
        return checkpoint.generations(self.part.stack_folder(self.stack))

    @property
    def stack(self) -> str:
        return self.part.stacks()[0]


def stopping(steps: int) -> Callable[[], None]:
    """What ends a process with SIGKILL after so many steps."""

    def spoil() -> None:
        import os
        import signal

        from scyc.training import Training

        left, pulse = iter(range(steps, -1, -1)), Training.pulse

        def beat(self: Training, stack: Any) -> None:
            pulse(self, stack)
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        Training.pulse = beat  # type: ignore[method-assign]

    return spoil


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("left")
    (folder / "tiny.toml").write_text(TINY)
    assert command(folder, WORDS).code == 0
    assert command(folder, [*WORDS, "--root", "part"], stopping(6)).code == -9
    return Left(folder)


@pytest.fixture
def left(made: Left, tmp_path: Path) -> Left:
    """A copy that may be damaged."""
    return Left(Path(shutil.copytree(made.folder, tmp_path / "left")))


def flipped(path: Path, count: int) -> Iterator[str]:
    """Flip so many bits of a file one after the other, spread over all of it; the file is whole again in the end."""
    data, draw = path.read_bytes(), random.Random(path.name)
    try:
        for number in range(count):
            place, bit = (len(data) * number + draw.randrange(len(data))) // count, draw.randrange(8)
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
            yield f"{path.name}: bit {bit} of byte {place}"
    finally:
        path.write_bytes(data)


@pytest.mark.torture
def test_of_two_generations_the_older_one_takes_over_and_says_so(
    left: Left, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    older, newest = left.generations
    folder, count = left.part.stack_folder(left.stack), size(200, 2500)
    expected = checkpoint.verified(older, left.stack)[1]
    for place in flipped(newest, count):
        found = checkpoint.load(folder, stack=left.stack)
        assert found.head == expected, place
        assert (found.generation, len(found.rejected)) == (checkpoint.number(older), 1), place
        assert found.rejected[0].startswith(f"{newest}: "), place
    assert checkpoint.load(folder, stack=left.stack).rejected == ()
    figure(f"one flipped bit in the newest checkpoint: {count}, the older one was taken every time")


@pytest.mark.torture
def test_nothing_that_is_stored_loads_with_a_flipped_bit(
    left: Left, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    store, (older, newest) = left.whole, left.generations
    older.unlink()
    id = store.ids()[0]
    state = store.records(id)[-1]["state"]
    folder = left.part.stack_folder(left.stack)
    kinds: dict[Path, list[Callable[[], Any]]] = {
        newest: [lambda: checkpoint.load(folder, stack=left.stack), lambda: checkpoint.head(folder, stack=left.stack)],
        store.root / id / "cycle-002.safetensors": [lambda: store.load_state(id, "cycle-002", state)],
        store.root / id / "records.jsonl": [lambda: store.records(id), lambda: store.rows()],
        store.root / id / "events.jsonl": [lambda: store.events(id)],
        store.root / id / "config.json": [lambda: store.config(id)],
        store.root / ".experiments/tiny.json": [lambda: store.manifest("tiny")],
    }
    count = size(50, 1000)
    for path, loads in kinds.items():
        for place in flipped(path, count):
            for load in loads:
                with pytest.raises(Integrity) as error:
                    print(place, load())
                assert str(path) in str(error.value)
                assert "\n" not in str(error.value)
        assert all(load() for load in loads)
    figure(f"one flipped bit in {', '.join(path.name for path in kinds)}: {count} each, none loaded")


@pytest.mark.torture
def test_a_command_goes_on_from_the_older_generation_with_the_same_records(
    left: Left, made: Left, size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    undisturbed, count = journals(made.folder / "runs"), size(2, 40)
    words = [*WORDS[:-1], "--root", "part"]
    newest = left.generations[-1]
    for _ in flipped(newest, count):
        shutil.rmtree(left.folder / "now", ignore_errors=True)
        shutil.copytree(left.part.root, left.folder / "now")
        said = command(left.folder, [*words[:-1], "now"])
        assert said.code == 0, said.err
        assert journals(left.folder / "now") == undisturbed
        assert f"going on from the one before: now/.stacks/{left.stack}/{newest.name}: " in said.err
        for id in undisturbed:
            kinds = [event["kind"] for event in Store(left.folder / "now").events(id)]
            assert "damaged checkpoint refused, going on from the one before" in kinds
    figure(f"a command whose newest checkpoint has a flipped bit: {count}, the same records, noted in every run")


@pytest.mark.torture
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("*/records.jsonl", ["run", "tiny.toml"]),
        ("*/records.jsonl", ["report", "tiny"]),
        ("*/config.json", ["run", "tiny.toml"]),
        (".experiments/tiny.json", ["run", "tiny.toml"]),
        (".experiments/tiny.json", ["report", "tiny"]),
    ],
)
def test_a_command_that_meets_one_is_one_line_and_exit_code_4(left: Left, name: str, words: list[str]) -> None:
    (path, *_) = left.whole.root.glob(name)
    for _ in flipped(path, 3):
        said = command(left.folder, [*words, *(["--quiet"] if words[0] == "run" else [])])
        assert (said.code, said.out) == (4, ""), said.err
        assert re.fullmatch(rf"scyc: runs/{path.relative_to(left.whole.root)}: .+; .+\n", said.err)


def test_both_generations_damaged_are_one_line_and_what_to_do(left: Left) -> None:
    for path in left.generations:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    said = command(left.folder, [*WORDS, "--root", "part"])
    assert said.code == 4
    line = said.err.splitlines()[-1]
    assert line.startswith("scyc: part/.stacks/")
    assert line.endswith("remove the folder to start again from what is recorded")


def test_weights_are_hashed_before_they_are_believed(left: Left) -> None:
    id = left.whole.ids()[0]
    path = left.whole.root / id / "cycle-002.safetensors"
    tensors = weights.decode(path.read_bytes(), path)
    name = next(name for name, tensor in tensors.items() if tensor.dtype == torch.float32)
    tensors[name].view(-1)[0] += 1.0
    weights.save_tensors(path, tensors, {"run": id})  # a whole file, of other weights
    with pytest.raises(Integrity, match="sha256 is"):
        left.whole.load_state(id, "cycle-002", left.whole.records(id)[-1]["state"])
