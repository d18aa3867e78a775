"""`scyc oracle` and `scyc tune` as their user meets them."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from scyc import cli
from test_cli import Said

TINY = """
doc = "tiny"
seeds = 2
[oracle]
peaks = { first = 0.1, last = 0.3, step = 0.1 }
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 6
batch = 20
cycles = 3
[schedules.low]
peak = { name = "fixed", lr = 0.05 }
shape = "constant"
[schedules.scyc]
peak = { name = "scyc", eps = 0.05, delta = 0.1, q = 0, beta = 4 }
shape = { name = "warmup", ramp = 2, drops = [2, 4] }
"""


@pytest.fixture
def scyc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["scyc", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return Said(int(stop.value.code or 0), captured.out, captured.err)

    return call


def test_an_oracle_prints_its_table_and_is_printed_again_without_training(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("oracle", "tiny.toml", "--compare", "low", "--quiet")
    assert said.code == 0
    assert said.err == ""
    assert "3 peaks x 2 seeds x 3 cycles = 18 trainings of 6 steps" in said.out
    assert "low: inside in 0 of 3 cycles (below at m = 0, below at m = 1, below at m = 2)" in said.out
    assert said.out.splitlines()[-1] == "results: tiny-oracle in runs"
    again = scyc("oracle", "tiny.toml", "--compare", "low")
    assert (again.out, again.err) == (said.out, "")
    table = "\n".join(said.out.splitlines()[:-1])
    for words in (["oracle", "tiny-oracle"], ["oracle", "tiny-oracle", "--stored"], ["report", "tiny-oracle"]):
        assert scyc(*words).out.strip().removesuffix("\npage: runs/.reports/tiny-oracle.html") == table


def test_json_is_json_alone(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("oracle", "tiny.toml", "--format", "json", "--quiet", "--cycles", "2", "--peaks", "0.1,0.2")
    document = json.loads(said.out)
    assert [cycle["peaks"] for cycle in document["cycles"]] == [[0.1, 0.2], [0.1, 0.2]]
    assert said.err == "results: tiny-oracle in runs\n"


def test_progress_says_every_cycles_pick(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("oracle", "tiny.toml")
    assert [line.split("  ")[0] for line in said.err.splitlines() if "feasible" in line] == [
        f"cycle {number}/3" for number in (1, 2, 3)
    ]


def test_it_lies_in_the_store_like_a_run(scyc) -> None:  # type: ignore[no-untyped-def]
    scyc("oracle", "tiny.toml", "--quiet")
    assert "tiny-oracle" in scyc("ls").out
    line = next(line for line in scyc("ls", "--runs").out.splitlines() if " oracle " in line)
    assert "finished" in line
    assert "m  density %" in scyc("show", line.split()[0]).out
    assert scyc("rm", "tiny-oracle", "--yes").out == "deleted 1 runs and 1 experiments\n"


def test_diverged_is_exit_code_3(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("oracle", "tiny.toml", "--peaks", "1e30,1e31", "--quiet")
    assert said.code == 3
    assert "none" in said.out
    said = scyc("tune", "tiny.toml", "--schedule", "low", "--peaks", "1e30,1e31", "--quiet")
    assert (said.code, said.out) == (3, "")
    assert said.err.splitlines() == [
        "scyc: cycle 0: no peak left: with each of them a seed diverged; search smaller ones"
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["oracle", "nope"], "unknown preset 'nope'"),
        (["oracle", "tiny.toml", "--peaks", "1"], "peaks '1' (a grid has 2 to 1000 different peaks)"),
        (["oracle", "tiny.toml", "--shape", "lwo"], "unknown schedule 'lwo'; did you mean 'low'?"),
        (["oracle", "tiny.toml", "--compare", "lwo"], "unknown schedule 'lwo'; did you mean 'low'?"),
        (["oracle", "tiny.toml", "--format", "jsn"], "unknown format 'jsn'; did you mean 'json'?"),
        (["oracle", "tiny.toml", "--set", "oracle.peaks=3"], "oracle.peaks = 3"),
        (["oracle", "nope", "--stored"], "unknown experiment 'nope'"),
        (["tune", "tiny.toml", "--schedule", "lwo"], "unknown schedule or shape 'lwo'; did you mean 'low'?"),
        (["tune", "tiny.toml", "--target", "3"], "the pruned cycles are 1 to 2"),
        (["tune", "tiny.toml", "--delta", "x"], "--delta 'x'"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(scyc, words: list[str], expected: str) -> None:  # type: ignore[no-untyped-def]
    said = scyc(*words)
    assert said.code == 2
    assert said.out == ""
    assert expected in said.err
    assert len(said.err.splitlines()) == 1


def test_tune_prints_lines_to_paste(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("tune", "tiny.toml", "--trials", "6", "--peaks", "0.1,0.2,0.4", "--delta", "0,0.1", "--quiet")
    assert said.code == 0
    pasted = tomllib.loads(said.out[said.out.index("[schedules") :])["schedules"]["scyc"]
    assert pasted["shape"] == {"name": "warmup", "ramp": 2, "drops": [2, 4]}
    assert pasted["peak"]["eps"] in (0.1, 0.2, 0.4)
    assert pasted["peak"]["delta"] in (0, 0.1)
    # 3 + 1 + 2 peaks and 2 pairs x 3 cycles, of 2 seeds each
    assert "cost: 24 trainings of 6 steps, 144 steps in all" in said.out
    assert scyc("report", "tiny-tune").err == (
        "scyc: experiment 'tiny-tune' is a tuning; `scyc tune` prints it again without training\n"
    )


def test_tune_finds_a_benchmarks_learning_rate(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("tune", "tiny.toml", "--schedule", "constant", "--quiet")
    assert "cost: 30 trainings of 6 steps" in said.out  # 15 peaks, 2 seeds
    pasted = tomllib.loads(said.out[said.out.index("[schedules") :])["schedules"]["low"]
    assert pasted["shape"] == "constant"
    assert 0.05 / 8 <= pasted["peak"]["lr"] <= 0.4


def started(folder: Path, words: list[str]) -> subprocess.Popen[str]:
    env = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "scyc.cli", *words]
    return subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["oracle", "tiny.toml"], ["tune", "tiny.toml", "--trials", "8"]], ids=" ".join)
def test_stopped_by_a_signal_it_goes_on_where_it_was(number: signal.Signals, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    words = [*words, "--scale", "60", "--cycles", "4"]
    process = started(tmp_path, words)
    assert process.stderr
    while "cycle 2/" not in (line := process.stderr.readline()):
        assert line, process.wait()
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == f"saved; resume with: scyc {' '.join(words)}"
    whole, parts = started(tmp_path, [*words, "--root", "whole", "--quiet"]), started(tmp_path, [*words, "--quiet"])
    texts = [process.communicate(timeout=120)[0] for process in (whole, parts)]
    assert whole.returncode == parts.returncode == 0
    same = [[line for line in text.splitlines() if "seconds" not in line and "results:" not in line] for text in texts]
    assert same[0] == same[1]
    journals = [
        sorted(path.read_bytes() for path in (tmp_path / root).glob("*/records.jsonl")) for root in ("whole", "runs")
    ]
    assert journals[0] == journals[1]
