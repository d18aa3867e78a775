"""An integration whose library is not installed says in one line what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_a_missing_library_is_named_with_its_remedy(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"scyc.integrations.{library}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'scyc\[{library}\]'") as error:
        importlib.import_module(f"scyc.integrations.{library}")
    assert "\n" not in str(error.value)
