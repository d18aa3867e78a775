from pathlib import Path

from scyc.data import roots

SYSTEM = Path("/usr/share/datasets")


def test_roots_go_from_what_was_asked_for_to_the_system() -> None:
    found = roots(Path("/asked"), {"SCYC_DATA": "/named", "HOME": "/home/anna"})
    assert found == (Path("/asked"), Path("/named"), Path("data"), Path("/home/anna/.cache/scyc/data"), SYSTEM)


def test_roots_without_wishes() -> None:
    assert roots(None, {"HOME": "/home/anna"}) == (Path("data"), Path("/home/anna/.cache/scyc/data"), SYSTEM)


def test_an_empty_variable_names_no_folder() -> None:
    assert roots(None, {"SCYC_DATA": "", "HOME": "/h"}) == roots(None, {"HOME": "/h"})


def test_a_folder_named_twice_is_looked_in_once() -> None:
    assert roots(SYSTEM, {"SCYC_DATA": "data", "HOME": "/h"}) == (SYSTEM, Path("data"), Path("/h/.cache/scyc/data"))


def test_the_home_folder_is_found_where_the_environment_does_not_name_it() -> None:
    assert roots(None, {})[1] == Path.home() / ".cache/scyc/data"
