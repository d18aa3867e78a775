import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scyc.report.toml import inline, key

scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.text(), values)
def test_tomllib_reads_back_what_was_spelled(name: str, value: Any) -> None:
    assert tomllib.loads(f"{key(name)} = {inline(value)}") == {name: value}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"name": "scyc", "eps": 0.03, "q": 1}, '{ name = "scyc", eps = 0.03, q = 1 }'),
        ([20000, 25000], "[20000, 25000]"),
        (True, "true"),
        ('say "a"', '"say \\"a\\""'),
    ],
)
def test_it_reads_as_one_would_write_it(value: Any, text: str) -> None:
    assert inline(value) == text
