"""A store of many runs with whole curves: every question is answered right, and how fast is printed."""

import shutil
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from scyc.report import listing
from scyc.report.rows import collect
from scyc.store import journal
from scyc.store.runs import Store

CYCLES, POINTS, SCHEDULES = 25, 50, 10
CONFIG = {
    "data": {"name": "digits"}, "model": {"name": "mlp"}, "peak": {"name": "fixed", "lr": 0.03},
    "shape": {"name": "constant"}, "steps": 2500, "data_digest": "0" * 12, "precision": "float32",
}  # fmt: skip
NOBODY = b"x" * 12


def record(cycle: int) -> dict[str, Any]:
    """Of the length of a real one."""
    values = [0.1234567890123456 + 0.001 * k for k in range(POINTS)]
    names = ("validation_loss", "test_loss", "last_validation_loss", "last_test_loss", "last_test_accuracy")
    return {
        "run": NOBODY.decode(), "cycle": cycle, "density": 0.8**cycle, "density_all": 0.8**cycle, "peak": 0.03,
        "highest_lr": 0.03, "guarded": False, "state": "0" * 64, "step": 2000, "test_accuracy": 0.9 - 0.01 * cycle,
        "validation_accuracy": 0.95 - 0.01 * cycle, **dict.fromkeys(names, 0.1234567890123456),
        "layers": {f"fc{k}.weight": 0.8**cycle for k in range(4)}, "curve_step": list(range(50, 2550, 50)),
        "curve_train_loss": values, "curve_validation_loss": values, "curve_validation_accuracy": values,
    }  # fmt: skip


def filled(root: Path, runs: int) -> Store:
    """Written quickly: lines differ in their run alone."""
    bodies = [journal.canonical(record(cycle))[:-1] for cycle in range(CYCLES)]
    store, ids = Store(root), [f"{number:012x}" for number in range(1, runs + 1)]
    for number, id in enumerate(ids):
        (root / id).mkdir(parents=True)
        row = {"config": {**CONFIG, "seed": number // SCHEDULES}, "run": id}
        (root / id / "config.json").write_bytes(journal.seal(row) + b"\n")
        lines = [body.replace(NOBODY, id.encode()) for body in bodies]
        sealed = [line + b',"crc32":"%08x"}\n' % zlib.crc32(line) for line in lines]
        (root / id / "records.jsonl").write_bytes(b"".join(sealed))
    schedules = [[f"s{k}", ids[k::SCHEDULES]] for k in range(SCHEDULES)]
    store.write_manifest("large", {"doc": "", "published": "", "settings": "x", "schedules": schedules})
    return store


@pytest.mark.torture
def test_of_many_runs_every_question_is_answered_and_how_fast_is_printed(
    tmp_path: Path, size: Any, figure: Any
) -> None:
    runs = size(40, 10_000)
    store, took = filled(tmp_path / "runs", runs), {}
    questions = {
        "ls": lambda: listing.experiments(store),
        "ls large": lambda: listing.runs(store, "large"),
        "report large": lambda: collect(store, "large"),
    }
    answers: dict[str, Any] = {}
    for name, question in questions.items():
        wall, used = time.perf_counter(), time.process_time()
        answers[name] = question()
        took[name] = f"{name} {time.perf_counter() - wall:.2f} s ({time.process_time() - used:.2f} s of one core)"
    assert answers["ls"][1] == ["large", "10", str(runs), str(runs), "0"]
    assert len(answers["ls large"]) == runs + 1
    assert answers["ls large"][1][5:] == ["finished", "0.47", "66.0"]  # 0.8 ** 24, and 0.9 - 0.24
    results = answers["report large"]
    assert (results.runs, results.finished, results.cycles) == (runs, runs, CYCLES)
    row = results.row("s3", 10)
    assert (row.n, row.mean, row.density) == (runs // SCHEDULES, pytest.approx(0.8), pytest.approx(0.8**10))
    shutil.rmtree(store.root)
    figure(f"{runs:,} runs x {CYCLES} cycles with {POINTS} points each: {', '.join(took.values())}")
