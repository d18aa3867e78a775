import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from scyc import registry
from scyc.registry import Kind, UnknownName


def apple() -> str:
    return "apple"


def pear() -> str:
    return "pear"


FRUIT = Kind("fruit", {"apple": apple, "pear": pear})
OPEN = Kind("fruit", {"apple": apple}, imports=True)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that packages declare these entry points in the group scyc.fruit."""

    def install(**values: str) -> None:
        declared = [EntryPoint(name, value, "scyc.fruit") for name, value in values.items()]

        def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
            return [point for point in declared if point.group == group and name in (None, point.name)]

        monkeypatch.setattr(registry, "entry_points", entry_points)

    return install


def test_finds_what_the_table_holds() -> None:
    assert FRUIT.find("pear") is pear
    assert FRUIT.names() == ["apple", "pear"]


def test_an_unknown_name_meets_the_nearest() -> None:
    with pytest.raises(UnknownName) as error:
        FRUIT.find("aple")
    assert str(error.value) == "unknown fruit 'aple'; did you mean 'apple'?"


def test_a_name_like_no_other_meets_all_of_them() -> None:
    with pytest.raises(UnknownName) as error:
        FRUIT.find("zzz")
    assert str(error.value) == "unknown fruit 'zzz'; known: apple, pear"


def test_an_empty_table_says_so() -> None:
    with pytest.raises(UnknownName, match="known: none"):
        Kind("nut", {}).find("almond")


def test_entry_points_follow_the_table(installed: Callable[..., None]) -> None:
    installed(ordered="collections:OrderedDict", apple="collections:Counter")
    assert FRUIT.names() == ["apple", "ordered", "pear"]
    assert FRUIT.find("ordered").__name__ == "OrderedDict"
    assert FRUIT.find("apple") is apple  # a package cannot replace what is ours
    with pytest.raises(UnknownName, match="did you mean 'ordered'"):
        FRUIT.find("orderd")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the folder the user stands in; importing it leaves a trace in sys.modules."""
    name = "fruit_of_the_user"
    (tmp_path / f"{name}.py").write_text("weight = 3\ndef plum():\n    return 'plum'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_code_is_imported_only_on_trust(module: str) -> None:
    with pytest.raises(ValueError, match="add --trust") as error:
        OPEN.find(f"{module}:plum")
    assert "\n" not in str(error.value)
    assert module not in sys.modules
    assert OPEN.find(f"{module}:plum", trust=True)() == "plum"
    del sys.modules[module]


def test_only_open_kinds_import(module: str) -> None:
    with pytest.raises(UnknownName):
        FRUIT.find(f"{module}:plum", trust=True)
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{}:cherry", "cannot be imported: module '{}' has no attribute 'cherry'"),
        ("{}_no:plum", "cannot be imported: No module named '{}_no'"),
        (":plum", "cannot be imported: Empty module name"),
        ("{}:weight", "is not callable; name a class or a function"),
    ],
)
def test_what_cannot_be_imported_is_one_line(module: str, path: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        OPEN.find(path.format(module), trust=True)
    assert said.format(module) in str(error.value)
    assert "\n" not in str(error.value)
    sys.modules.pop(module, None)


def test_a_table_can_be_any_mapping_of_callables() -> None:
    entries: dict[str, Callable[..., Any]] = {"shout": str.upper}
    assert Kind("voice", entries, arguments=1).find("shout")("a") == "A"
