"""The command line as its user meets it: words, streams and exit codes."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scyc import cli
from scyc.registry import Kind
from scyc.run import KINDS

TINY = """
doc = "tiny"
seeds = 2
[run]
data = { name = "digits", limit = 300 }
model = { name = "mlp", widths = [6] }
steps = 6
batch = 20
cycles = 2
[schedules.low]
peak = { name = "fixed", lr = 0.05 }
shape = "constant"
[schedules.scyc]
peak = { name = "scyc", eps = 0.05, delta = 0.1, q = 0, beta = 4 }
shape = { name = "warmup", ramp = 2, drops = [2, 4] }
"""


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def scyc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Calls `scyc` in a folder that holds tiny.toml."""
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["scyc", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return Said(int(stop.value.code or 0), captured.out, captured.err)

    return call


def test_run_prints_the_tables_and_the_path_and_nothing_else_on_stdout(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("run", "tiny.toml")
    assert said.code == 0
    assert said.out.splitlines()[-2].startswith("results: runs/.experiments/tiny.json (4 runs")
    assert said.out.splitlines()[-1] == "page: runs/.reports/tiny.html"
    assert os.path.getsize("runs/.reports/tiny.html") > 800_000  # with everything that draws it
    assert "▁" in said.out
    assert "low" in said.out
    assert "cycle 2/2" in said.err
    assert "cycle 2/2" not in said.out


def test_quiet_json_is_json_alone(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("run", "tiny.toml", "--quiet", "--format", "json")
    document = json.loads(said.out)
    assert document["runs"] == document["finished"] == 4
    assert {row["n"] for row in document["rows"]} == {2}
    assert said.err.startswith("results: ")


def test_a_report_writes_its_page_where_asked_and_keeps_machine_formats_clean(scyc) -> None:  # type: ignore[no-untyped-def]
    scyc("run", "tiny.toml", "--quiet")
    assert not os.path.exists("runs/.reports")  # quiet: nobody looks
    said = scyc("report", "tiny", "--format", "json", "--page", "there/tiny.html")
    assert json.loads(said.out)["experiment"] == "tiny"
    assert said.err.splitlines() == ["page: there/tiny.html"]
    assert scyc("report", "tiny", "--format", "csv").err == ""
    assert scyc("report", "tiny").out.splitlines()[-1] == "page: runs/.reports/tiny.html"


def test_several_experiments_in_one_report(scyc) -> None:  # type: ignore[no-untyped-def]
    scyc("run", "tiny.toml", "--quiet")
    scyc("run", "tiny.toml", "--quiet", "--name", "half", "--set", "pruning.amount=0.5")
    documents = json.loads(scyc("report", "tiny", "half", "--format", "json").out)
    assert [document["experiment"] for document in documents] == ["tiny", "half"]
    rows = list(csv.DictReader(scyc("report", "tiny", "half", "--format", "csv").out.splitlines()))
    assert {row["experiment"] for row in rows if row["kind"] == "rows"} == {"tiny", "half"}
    assert scyc("report", "tiny", "half").out.splitlines()[-1] == "page: runs/.reports/tiny+half.html"


def test_a_page_that_cannot_be_written_is_no_failure_unless_it_was_asked_for(scyc) -> None:  # type: ignore[no-untyped-def]
    scyc("run", "tiny.toml", "--quiet")
    Path("runs/.reports").write_text("a file where the folder should be")
    said = scyc("report", "tiny")
    assert (said.code, said.err.startswith("no page: ")) == (0, True)
    assert scyc("report", "tiny", "--page", "runs/.reports/tiny.html").code == 2


def test_every_line_of_a_table_fits_a_terminal(scyc) -> None:  # type: ignore[no-untyped-def]
    text = Path("tiny.toml").read_text()
    for k in range(4):
        text += (
            f'[schedules.a-schedule-with-a-long-name-{k}]\npeak = {{ name = "fixed", lr = 0.1 }}\nshape = "constant"\n'
        )
    Path("wide.toml").write_text(text)
    said = scyc("run", "wide.toml", "--quiet")
    assert max(map(len, said.out.splitlines()[:-1])) <= 100


def test_dry_run_trains_nothing(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("run", "tiny.toml", "--dry-run")
    assert [line.split()[-2:] for line in said.out.splitlines()] == [["to", "train"]] * 4
    assert not os.path.exists("runs")


def test_store_commands_find_what_was_made_by_name_and_by_first_digits(scyc) -> None:  # type: ignore[no-untyped-def]
    scyc("run", "tiny.toml", "--quiet", "--scale", "0.5", "--set", "pruning.amount=0.5", "--name", "half")
    assert "half" in scyc("ls").out
    rows = scyc("ls", "half").out.splitlines()
    one, other = rows[2].split()[0], rows[3].split()[0]
    shown = scyc("show", one[:8]).out
    assert '"amount": 0.5' in shown
    assert '"scale": 0.5' in shown
    assert "50.00" in shown  # percent left after one pruning of a half
    assert "seed" in scyc("diff", one, other).out
    assert "50.00" in scyc("report", "half").out
    assert scyc("report", "hafl").err.strip() == "scyc: unknown experiment 'hafl'; did you mean 'half'?"
    assert scyc("rm", "half", "--yes").out == "deleted 4 runs and 1 experiments\n"
    assert len(scyc("ls", "--runs").out.splitlines()) == 2


def test_one_diverged_run_stops_no_other_and_gives_exit_code_3(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("run", "tiny.toml", "--quiet", "--set", "schedules.low.peak.lr=1e30")
    assert said.code == 3
    assert "2 div" in said.out
    assert "4 of 4 runs finished" in said.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "digitz"], "unknown preset 'digitz'; did you mean 'digits'?"),
        (["run", "none.toml"], "none.toml: no such file"),
        (
            ["run", "tiny.toml", "--set", "modle.width=2"],
            "schedules.low: modle: unknown key 'modle'; did you mean 'model'?",
        ),
        (["run", "tiny.toml", "--set", "model.width"], "write part.field=value"),
        (["run", "tiny.toml", "--seeds", "x"], "write a number (5), a range (0-4) or a list (0,3)"),
        (["run", "tiny.toml", "--name", "../../x"], "cannot be a file name"),
        (["run", "tiny.toml", "--format", "tabel"], "did you mean 'table'?"),
        (["run", "tiny.toml", "--set", "model.name=os:getcwd"], "to import and run it, add --trust"),
        (["run", "tiny.toml", "--set", "batch=1000"], "batch = 1000 is larger than the 180 training images"),
        (["list", "peeks"], "did you mean 'peaks'?"),
        (["plan", "tiny.toml", "--keep", "al"], "unknown --keep 'al'; did you mean 'all'?"),
        (["show", "0123"], "unknown run '0123'"),
        (["lr", "tiny.toml", "--cycle", "7"], "this experiment has cycles 0 to 1"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(scyc, words: list[str], expected: str) -> None:  # type: ignore[no-untyped-def]
    said = scyc(*words)
    assert said.code == 2
    assert expected in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_missing_data_is_exit_code_4(scyc) -> None:  # type: ignore[no-untyped-def]
    said = scyc("run", "tiny.toml", "--set", "data.name=npz", "--set", "data.path=none.npz")
    assert said.code == 4
    assert "none.npz" in said.err


def test_lr_says_every_peak_and_every_step(scyc) -> None:  # type: ignore[no-untyped-def]
    peaks = [line.split() for line in scyc("lr", "tiny.toml").out.splitlines()[2:]]
    assert [row[2] for row in peaks] == ["0.05", "0.05"]
    steps = scyc("lr", "tiny.toml", "--cycle", "0")
    assert [line.split()[2] for line in steps.out.splitlines()[2:]] == [
        "0.025",
        "0.05",
        "0.005",
        "0.005",
        "0.0005",
        "0.0005",
    ]
    assert "the peak is reached at step 1 alone" in steps.err


@pytest.mark.parametrize("kind", [*(k if k == "data" else f"{k}s" for k in KINDS), "presets"])
def test_list_names_every_entry(scyc, kind: str) -> None:  # type: ignore[no-untyped-def]
    out = scyc("list", kind).out
    known: Kind | None = KINDS.get(kind.removesuffix("s") if kind != "data" else kind)
    assert all(name in out for name in (known.names() if known else ["digits"]))


def test_plan_counts_runs_and_steps(scyc) -> None:  # type: ignore[no-untyped-def]
    rows = scyc("plan", "tiny.toml").out.splitlines()
    assert rows[2].split()[:6] == ["1", "4", "460", "2", "x", "6"]  # 64*6+6 + 6*10+10 parameters
    assert "48 in all" in rows[-1]


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from scyc.cli import app; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_own_model_by_import_path(scyc, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def two(shape, classes, hidden: int = 4):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, classes))\n"
    )
    said = scyc("run", "tiny.toml", "--quiet", "--trust", "--set", "model={name='my_nets:two', hidden=5}")
    assert said.code == 0, said.err
