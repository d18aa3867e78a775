"""`scyc distribution` as its user meets it."""

import json
import sys
from pathlib import Path

import pytest

from scyc import cli

TINY = """
doc = "tiny"
seeds = 2
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 6
batch = 20
cycles = 3
[schedules.constant]
peak = { name = "fixed", lr = 0.05 }
shape = "constant"
[schedules.warmup]
peak = { name = "fixed", lr = 0.05 }
shape = { name = "warmup", ramp = 2, drops = [4] }
"""


@pytest.fixture
def scyc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Calls `scyc` in a folder that holds tiny.toml; gives exit code, stdout and stderr."""
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["scyc", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def test_it_trains_measures_and_prints(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = scyc("distribution", "tiny.toml", "--batches", "2")
    assert code == 0
    assert out.startswith("tiny: distributions, n = 2 seeds")
    assert "warmup: gradients at the end of every cycle" in out
    assert "constant, peak: the rate is highest at the first step" in out
    assert "cycle 3/3" in err
    again = scyc("distribution", "tiny.toml", "--batches", "2")
    assert again == (0, out, "")


def test_the_runs_are_those_of_scyc_run(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    scyc("distribution", "tiny.toml", "--batches", "2", "--root", "one", "--quiet")
    scyc("run", "tiny.toml", "--root", "two", "--quiet")
    one, two = ({p.parent.name: p.read_bytes() for p in (tmp_path / r).glob("*/records.jsonl")} for r in ("one", "two"))
    assert one == two
    assert len(one) == 4
    code, _, err = scyc("distribution", "tiny.toml", "--batches", "2", "--root", "two")
    assert code == 0
    assert err.startswith("4 runs in one stack")  # from the start, not from a cycle
    same = [(tmp_path / root / id / "distribution.jsonl").read_bytes() for id in one for root in ("one", "two")]
    assert same[::2] == same[1::2]


def test_other_settings_are_other_numbers(scyc) -> None:  # type: ignore[no-untyped-def]
    found = [
        json.loads(scyc("distribution", "tiny.toml", "--format", "json", "--quiet", "--batches", *words)[1])
        for words in (("2",), ("all", "--weights", "all"))
    ]
    assert [(one["batches"], one["weights"]) for one in found] == [(2, "surviving"), ("all", "all")]
    assert found[0]["rows"][0]["gradients_std"] != found[1]["rows"][0]["gradients_std"]


def test_figures_go_where_they_are_asked(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = scyc("distribution", "tiny.toml", "--batches", "2", "--figures", "drawn", "--quiet")
    assert code == 0
    assert "figure:" not in out
    assert "figure: drawn/tiny-warmup-end.png" in err
    assert len(list((tmp_path / "drawn").iterdir())) == 12


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batches", "0"), "batches = 0; write a number of batches, at least 1, or 'all'"),
        (("--batches", "few"), "batches = 'few'; write a number of batches"),
        (("--weights", "dead"), "weights = 'dead'; write 'surviving' or 'all'"),
        (("--format", "tables"), "unknown format 'tables'; did you mean 'table'?"),
        (("--keep", "lst"), "unknown --keep 'lst'; did you mean 'last'?"),
    ],
)
def test_wrong_words_are_one_line_and_nothing_is_trained(scyc, tmp_path: Path, words, said) -> None:  # type: ignore[no-untyped-def]
    code, out, err = scyc("distribution", "tiny.toml", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"scyc: {said}")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_divergence_is_said_and_has_its_exit_code(scyc) -> None:  # type: ignore[no-untyped-def]
    wild = "schedules.warmup.peak.lr=1e30"
    code, out, _ = scyc("distribution", "tiny.toml", "--batches", "2", "--set", wild, "--quiet")
    assert code == 3
    assert out.startswith("tiny: distributions, n = 2 seeds, 2 runs diverged")


def test_runs_recorded_elsewhere_are_not_trained_again_in_vain(scyc, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    scyc("run", "tiny.toml", "--quiet")
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    code, out, err = scyc("distribution", "tiny.toml", "--batches", "2")
    assert (code, out) == (2, "")
    assert "is now cpu abacus" in err


def test_a_dry_run_says_what_is_measured_already(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = ("distribution", "tiny.toml", "--batches", "2")
    before = scyc(*words, "--dry-run")
    assert (before[0], before[1].count("to measure"), before[2]) == (0, 4, "")
    assert not (tmp_path / "runs").exists()
    scyc(*words, "--quiet")
    after = scyc(*words, "--seeds", "3", "--dry-run")[1].splitlines()
    assert [line.split("  ")[-1] for line in after] == ["measured", "measured", "to measure"] * 2
