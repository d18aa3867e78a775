"""What an oracle searches: peaks, shape, name, and the manifest that finds it again."""

from pathlib import Path
from typing import Any

import pytest

from examples import digit_images
from scyc import oracle
from scyc.config import ConfigError
from scyc.experiment import Experiment, experiment, load
from scyc.store.runs import Store

WARMUP = {"name": "warmup", "ramp": 2}
CONFIG: dict[str, Any] = {
    "doc": "tiny",
    "run": {"data": "digits", "model": "mlp", "steps": 6, "cycles": 3},
    "schedules": {
        "constant": {"peak": {"name": "fixed", "lr": 0.03}, "shape": "constant"},
        "scyc": {"peak": {"name": "scyc", "eps": 0.05, "delta": 0.1, "q": 1, "beta": 5}, "shape": WARMUP},
        "other": {"peak": {"name": "scyc", "eps": 0.07, "delta": 0.1, "q": 1, "beta": 5}, "shape": WARMUP},
    },
}


def made(**changes: Any) -> Experiment:
    return experiment({**CONFIG, **changes}, "tiny", seeds="2")


def test_the_papers_grid_is_sixty_peaks_two_thousandths_apart() -> None:
    for name in ("oracle-a", "oracle-b", "oracle-c"):
        known = load(name)
        peaks = oracle.grid(known, oracle.searched(known))
        assert len(peaks) == 60
        assert (peaks[0], peaks[1], peaks[-1]) == (0.002, 0.004, 0.12)


def test_without_a_grid_fifteen_peaks_lie_around_the_dense_networks() -> None:
    peaks = oracle.grid(made(), "scyc")
    assert (len(peaks), peaks[0], peaks[7], peaks[-1]) == (15, 0.00625, 0.05, 0.4)
    assert oracle.grid(made(), "constant")[7] == 0.03


def test_peaks_given_come_before_those_of_the_preset() -> None:
    known = made(oracle={"peaks": {"first": 0.01, "last": 0.03, "step": 0.01}})
    assert oracle.grid(known, "scyc") == (0.01, 0.02, 0.03)
    assert oracle.grid(known, "scyc", "0.5,0.25") == (0.25, 0.5)


@pytest.mark.parametrize("peaks", [[0.1, 0.05], "0.05,0.1", "0.05:0.1:0.05"])
def test_a_preset_may_list_its_peaks(peaks: Any) -> None:
    assert oracle.grid(made(oracle={"peaks": peaks}), "scyc") == (0.05, 0.1)


@pytest.mark.parametrize(
    "table",
    [
        {"peaks": {"first": 0.01, "last": 0.03}},
        {"peaks": {"first": "a", "last": 0.03, "step": 0.01}},
        {"peaks": {"first": 0.03, "last": 0.01, "step": 0.01}},
        {"peaks": 5},
        {"peaks": [0.1]},
        {"peaks": []},
        {"grid": [0.1, 0.2]},
    ],
)
def test_a_grid_that_is_none_is_one_line_with_its_place(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^tiny: oracle") as caught:
        oracle.grid(made(oracle=table), "scyc")
    assert "\n" not in str(caught.value)


def test_the_shape_searched_with_is_that_of_s_cyc_or_of_the_schedule_named() -> None:
    known = made()
    assert oracle.searched(known) == "scyc"
    assert oracle.searched(known, "constant") == "constant"
    assert oracle.searched(made(schedules={"constant": CONFIG["schedules"]["constant"]})) == "constant"
    with pytest.raises(ValueError, match=r"unknown schedule 'sycc'; did you mean 'scyc'\?"):
        oracle.searched(known, "sycc")


def test_every_s_cyc_and_the_schedules_named_are_compared() -> None:
    assert list(oracle.compared(made(), [])) == ["scyc", "other"]
    assert list(oracle.compared(made(), ["constant", "scyc"])) == ["scyc", "other", "constant"]


def test_its_id_holds_peaks_seeds_shape_and_data_but_no_schedules_own_peak() -> None:
    known = made()

    def id_of(label: str = "scyc", peaks: tuple[float, ...] = (0.1, 0.2), seeds: int = 2, data: str = "d") -> str:
        return oracle.question(known.runs[label][:seeds], peaks, data).id

    assert id_of() == id_of("other")
    assert len({id_of(), id_of("constant"), id_of(peaks=(0.1, 0.3)), id_of(seeds=1), id_of(data="e")}) == 5


def test_the_manifest_finds_the_study_and_keeps_the_one_before(tmp_path: Path) -> None:
    known, store, digest = made(), Store(tmp_path), digit_images().digest()
    first, second = (oracle.question(known.runs["scyc"], peaks, digest) for peaks in ((0.1, 0.2), (0.1, 0.3)))
    oracle.register(store, known, first, oracle.compared(known, []))
    assert store.manifest("tiny-oracle")["schedules"] == [["oracle", [first.id]]]
    assert [label for label, _ in store.manifest("tiny-oracle")["oracle"]["compare"]] == ["scyc", "other"]
    oracle.register(store, known, second, oracle.compared(known, []))
    assert store.manifest("tiny-oracle")["schedules"] == [["oracle", [second.id]]]
    assert store.manifest(f"tiny-oracle@{first.id}")["schedules"] == [["oracle", [first.id]]]
    assert set(store.ids()) == {first.id, second.id}


def test_an_oracles_own_preset_keeps_its_name() -> None:
    assert oracle.named(load("oracle-a")) == "oracle-a"
    assert oracle.named(load("digits")) == "digits-oracle"
