"""Experiments as TOML and JSON files with anything in them: taken, or refused in one line; never a traceback."""

import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command import TINY, command
from scyc import experiment
from scyc.config import plain
from scyc.run import run_from

Size = Callable[[int, int], int]
Figure = Callable[[str], None]

WHOLE = {"toml": TINY, "json": json.dumps(tomllib.loads(TINY), indent=1)}
PIECES = st.sampled_from(
    [
        "", "\n", '"', "'", "[", "]", "{", "}", "=", ",", ".", ":", "#", "\\", "\\u0000", "\\ud800",
        "\0", "\ufeff", "\u2028", "\x1b[2J", "\r", "\r\n", "true", "null", "nan", "NaN", "-inf", "Infinity",
        "1e999", "1e-400", "-1", "0", "9" * 30, "1" + "0" * 5000, "0x7f", "1_000", "1979-05-27T07:32:00Z",
        "ä/ö ü.npz", "../../x", "os:getcwd", "[" * 3000, "steps", "[run]", "[run.peak]", "steps = 3\n",
        "steps = nan\n", '"lr": 1e999,', "batch = 99999999999999999999\n", 'seeds = "0-99999999"\n', "[[run]]\n",
        "seeds = -1\n", "[schedules.a]\n", 'published = "table-a"\n', 'x = """', "'''",
    ]
)  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """A file after a few edits: something replaced by something, anywhere."""
    for _ in range(draw(st.integers(1, 3))):
        start, length = draw(st.integers(0, len(text))), draw(st.sampled_from([0, 0, 1, 2, 5, 20, 80]))
        text = text[:start] + draw(PIECES | st.text(max_size=4)) + text[start + length :]
    return text


@st.composite
def revalued(draw: st.DrawFn) -> dict[str, Any]:
    """The experiment with any value in the place of one of its own."""
    config = tomllib.loads(TINY)
    at, value = config, draw(JSON)
    while True:
        key = draw(st.sampled_from(sorted(at)))
        if not isinstance(at[key], dict) or not at[key] or draw(st.booleans()):
            at[key] = value
            return config
        at = at[key]


NUMBERS = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([10**400, -(10**40), 1e308])
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def outcome(path: Path) -> str:
    """What becomes of the file: taken, and then it survives being written again; or one line that names it."""
    try:
        found = experiment.load(str(path))
    except ValueError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert str(path) in said
        assert said.isprintable()
        assert len(said) < 1000
        return "refused"
    assert all(run_from(json.loads(json.dumps(plain(run)))) == run for run in found.all[:2])
    return "taken"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="scyc ä ") as name:
        yield Path(name)


@pytest.mark.torture
@pytest.mark.parametrize("form", ["toml", "json"])
def test_an_edited_file_is_taken_or_refused_in_one_line(form: str, folder: Path, size: Size, figure: Figure) -> None:
    outcomes: Counter[str] = Counter()
    path = folder / f"own é.{form}"

    @settings(max_examples=size(150, 8_000))
    @given(edited(WHOLE[form]))
    def check(text: str) -> None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        outcomes[outcome(path)] += 1

    check()
    assert min(outcomes["taken"], outcomes["refused"]) > 3
    figure(f"edited {form} files: {dict(outcomes)}")


@pytest.mark.torture
def test_a_file_with_any_value_in_it_is_taken_or_refused_in_one_line(folder: Path, size: Size, figure: Figure) -> None:
    outcomes: Counter[str] = Counter()
    path = folder / "own.json"

    @settings(max_examples=size(150, 4_000))
    @given(revalued())
    def check(config: dict[str, Any]) -> None:
        path.write_text(json.dumps(config))
        outcomes[outcome(path)] += 1

    check()
    assert outcomes["refused"] > 10
    figure(f"JSON files with any value in them: {dict(outcomes)}")


PLACES = st.sampled_from(
    ["steps", "batch", "peak.lr", "data", "data.path", "model.widths", "seeds", "run", "x.y", "pruning.amount", "scale"]
)


@pytest.mark.torture
def test_a_command_says_it_in_one_line_and_exit_code_2(folder: Path, size: Size, figure: Figure) -> None:
    codes: Counter[int] = Counter()

    @settings(max_examples=size(10, 200), suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.sampled_from(["toml", "json"]).flatmap(lambda form: st.tuples(st.just(form), edited(WHOLE[form]))),
        st.none() | st.tuples(PLACES, JSON),
    )
    def check(file: tuple[str, str], over: tuple[str, Any] | None) -> None:
        path = folder / f"own.{file[0]}"
        path.write_bytes(file[1].encode("utf-8", "surrogatepass"))
        words = ["--set", f"{over[0]}={str(over[1])[:500]}".replace("\0", "")] if over else []
        said = command(folder, ["run", path.name, "--dry-run", *words])
        codes[said.code] += 1
        assert said.code in (0, 2, 4), said  # 4: a path to data that is not there
        if said.code:
            assert (said.out, len(said.err.splitlines())) == ("", 1), said
            assert said.err.startswith("scyc: ")
            assert said.err.strip().isprintable()

    check()
    assert codes[2]
    figure(f"commands with edited files and values: {sum(codes.values())}, exit codes {dict(codes)}")
