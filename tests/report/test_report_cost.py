"""Seconds from events, each run paying its share of a stack, and the code that trained."""

from pathlib import Path

from experiments import TWO, stored
from scyc.report.cost import cost, environments, stretches
from scyc.report.rows import collect
from scyc.revision import revision


def event(kind: str, second: int, runs: int = 4) -> dict[str, object]:
    return {"kind": kind, "time": f"2026-01-01T00:00:{second:02}.000+00:00", "runs": runs}


def test_a_run_pays_its_share_of_every_stretch() -> None:
    """20 seconds with four runs, and 10 with two, after a stretch that was killed."""
    events = [event("started", 0), event("resumed", 5), event("interrupted", 25), event("resumed", 30, 2)]
    assert stretches([*events, event("finished", 40, 2)]) == (20 / 4 + 10 / 2, 1)


def test_trainings_are_records_and_environments_are_counted(tmp_path: Path) -> None:
    store = stored(tmp_path, TWO)
    ids = store.ids()
    for id in ids:
        store.event(id, "started", environment={"torch": "2.13"}, code="0.1.0", engine="stacked", runs=4)
    store.event(ids[0], "finished")
    found = cost(store, collect(store, "e"), ids)
    assert (found.budget.trainings, found.budget.steps, found.untimed) == (12, 100, 3)
    assert environments(store, ids) == [("scyc 0.1.0, torch 2.13, engine stacked", 4)]


def test_outside_a_checkout_the_code_has_a_version_and_no_commit(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("")
    assert "commit" not in revision(tmp_path)
