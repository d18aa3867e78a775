import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import ROWS, crc32

from scyc.store import journal
from scyc.store.files import Integrity

LINE = b'{"cycle":0,"loss":0.1,"crc32":"aaa7191d"}'  # the checksum of its first 21 bytes as gzip has it


def test_a_line_is_flat_json_that_ends_with_the_checksum_of_its_own_bytes(path):
    first, second, third = path.read_bytes().splitlines()
    assert first == LINE
    assert second == b'{"cycle":1,"loss":null,"crc32":"%08x"}' % crc32(b'{"cycle":1,"loss":null')
    assert json.loads(third) == {**ROWS[2], "crc32": f"{crc32(third[:-20]):08x}"}
    assert "ü".encode() in third


def test_rows_come_back(path):
    assert journal.read(path) == (ROWS, False)
    assert journal.append_(path, [{"cycle": 3}]) == 0
    assert journal.read(path) == ([*ROWS, {"cycle": 3}], False)


def test_no_rows_are_no_rows(tmp_path):
    journal.append_(tmp_path / "a", [])
    assert journal.read(tmp_path / "a") == ([], False)


def test_a_flipped_bit_never_loads(path, flips):
    count = 0
    for place in flips(path):
        with pytest.raises(Integrity) as error:
            print(place, journal.read(path))
        assert str(error.value).startswith(f"{path}: ")
        count += 1
    assert count == 8 * path.stat().st_size
    assert journal.read(path) == (ROWS, False)


@pytest.mark.parametrize("bit", range(8))
def test_an_append_does_not_take_a_damaged_newline_for_a_torn_line(path, bit):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1 << bit]))
    with pytest.raises(Integrity, match="line 3 does not match its checksum"):
        journal.append_(path, [{"cycle": 3}])


def test_a_flipped_bit_is_named_with_its_line(path):
    data = bytearray(path.read_bytes())
    data[data.index(b"null")] ^= 1
    path.write_bytes(data)
    with pytest.raises(Integrity, match="line 2 does not match its checksum"):
        journal.read(path)


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_cut_anywhere_what_is_left_is_a_prefix_and_a_torn_line_is_said(path, lines):
    data = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == 0x0A]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = sum(end - 1 <= size for end in ends)  # the newline may be missing
        torn = size not in (0, *ends, *(end - 1 for end in ends))
        assert journal.read(path) == (ROWS[:whole], torn)
        cut = journal.append_(path, [{"cycle": 9}] * lines)
        assert (cut > 0) == torn
        assert journal.read(path) == ([*ROWS[:whole], *[{"cycle": 9}] * lines], False)


def test_zeros_after_a_power_cut_are_a_torn_line(path):
    with path.open("ab") as file:
        file.write(bytes(100))
    assert journal.read(path) == (ROWS, True)
    assert journal.append_(path, [{"cycle": 3}]) == 100
    assert journal.read(path) == ([*ROWS, {"cycle": 3}], False)


@pytest.mark.parametrize("change", ["removed", "doubled", "joined", "blank", "spaced", "carriage"])
def test_garbage_between_lines_is_refused(path, change):
    first, second, third = path.read_bytes().splitlines(keepends=True)
    data = {
        "removed": first + second[:9] + third,
        "doubled": first + second[:9] + second + third,
        "joined": first[:-1] + second + third,
        "blank": first + b"\n" + second + third,
        "spaced": first + b" " + second + third,
        "carriage": first[:-1] + b"\r\n" + second + third,
    }[change]
    path.write_bytes(data)
    with pytest.raises(Integrity, match=r"a.jsonl: line [12] does not match"):
        journal.read(path)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":NaN',
        b'{"a":-Infinity',
        b'{"a":',
        b"",
        b"[",
        b'{"a":1},{"b":2',
        b'{"a":"\xff"',
        b'{"a":' + b"[" * 99_999,
        b"1},2",
    ],
)
def test_a_right_checksum_does_not_make_it_json(path, body):
    path.write_bytes(body + b',"crc32":"%08x"}\n' % crc32(body))
    with pytest.raises(Integrity, match=f"^{path}: expected"):
        journal.read(path)


def test_lines_that_make_json_only_together_are_refused(path):
    bodies = [b'1,{"a":"', b'"']  # joined by the comma and brackets between two rows: 1 and {"a":"},"}
    path.write_bytes(b"".join(body + b',"crc32":"%08x"}\n' % crc32(body) for body in bodies))
    with pytest.raises(Integrity, match="expected one JSON object on every line"):
        journal.read(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": {"b": [0, float("nan")]}}, r"^a.b.1 = nan cannot be stored"),
        ({"a": float("inf")}, r"^a = inf cannot be stored"),
        ({"a": {1, 2}}, r"^a = {1, 2} cannot be stored"),
        ({"a": "\ud800"}, r"^a = '\\ud800' cannot be stored"),
        ({1: 2, "a": 3}, r"^value = "),
        ({}, "at least one field"),
        ({"crc32": "00000000"}, "none named 'crc32'"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(tmp_path, row, message):
    with pytest.raises(ValueError, match=message) as error:
        journal.append_(tmp_path / "a", [{"cycle": 0}, row])
    assert "\n" not in str(error.value)
    assert not (tmp_path / "a").exists()


def test_nothing_is_acknowledged_that_could_not_be_read_back(tmp_path):
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValueError, match="recursion"):
        journal.append_(tmp_path / "a", [{"a": deep}])
    deep[0] = deep
    with pytest.raises(ValueError, match="cannot be stored"):
        journal.append_(tmp_path / "a", [{"a": deep}])


def test_links_and_pipes_are_not_written_to(tmp_path):
    (tmp_path / "outside").write_bytes(b"kept")
    os.symlink(tmp_path / "outside", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(Integrity, match="expected a plain file"):
            journal.append_(tmp_path / name, ROWS)
    assert (tmp_path / "outside").read_bytes() == b"kept"


TEXT = st.text(st.characters(codec="utf-8"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


RECORDS = st.dictionaries(TEXT.filter(lambda name: name != "crc32"), VALUES, min_size=1, max_size=5)


@settings(deadline=None, max_examples=50)
@given(st.lists(RECORDS, max_size=5))
def test_whatever_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("journal") / "a"
    journal.append_(path, rows)
    found, torn = journal.read(path)
    assert not torn
    assert repr(found) == repr([dict(sorted(row.items())) for row in map(ordered, rows)])


def ordered(value):
    """With the keys of every dict sorted, as they are stored."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


LONG = [{"curve": [0.5] * 9000, "cycle": cycle, "inner": {"cycle": 9}, "text": ',"cycle":7'} for cycle in range(3)]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], LONG, [*LONG, ROWS[0]]], ids=["short", "one", "long", "mixed"])
@pytest.mark.parametrize("torn", [b"", b'{"cycle":3,"l', b'{"curve":[' + b"0.5," * 9000])
def test_the_last_row_is_the_last_of_all(tmp_path, rows, torn):
    path = tmp_path / "a"
    journal.append_(path, rows)
    with path.open("ab") as file:
        file.write(torn)
    assert journal.last(path) == journal.read(path)[0][-1] == rows[-1]
    path.write_bytes(path.read_bytes().removesuffix(torn)[:-1])  # one that lacks its newline alone is whole
    assert journal.last(path) == rows[-1]


def test_an_empty_journal_has_no_last_row(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert journal.last(tmp_path / "a") == {}


def test_no_flipped_bit_of_the_last_line_goes_unnoticed(path, flips):
    size = path.stat().st_size
    begin = path.read_bytes()[:-1].rfind(b"\n") + 1
    for what in flips(path):
        place = int(what.split()[-1])
        if begin <= place < size - 1:
            with pytest.raises(Integrity, match="line 3 does not match its checksum"):
                journal.last(path)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"a": [1.5, "]"], "cycle": 2, "z": {"cycle": 3}}, {"cycle": 2, "z": {"cycle": 3}}),
        ({"a": ',"cycle":', "b": '"cycle":1', "cycle": 2}, {"cycle": 2}),
        ({"a": {"b": 1, "cycle": 5}, "cycle": 2}, {"a": {"b": 1, "cycle": 5}, "cycle": 2}),  # not worth the trouble
        ({"cycle": 2, "z": 1}, {"cycle": 2, "z": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}),
    ],
)
def test_fields_before_the_first_one_asked_for_are_left_out(tmp_path, row, expected):
    journal.append_(tmp_path / "a", [row, row])
    assert journal.read(tmp_path / "a", "cycle") == ([expected, expected], False)
