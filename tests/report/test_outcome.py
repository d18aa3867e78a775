"""The verdict in a sentence, from accuracies typed by hand."""

from pathlib import Path

import pytest

from experiments import TWO, Accuracies, stored
from scyc.report.analysis import analysed
from scyc.report.leaders import marks
from scyc.report.outcome import outcome
from scyc.report.rows import collect

NAN = float("nan")


def sentence(folder: Path, accuracies: Accuracies) -> str:
    return outcome(analysed(collect(stored(folder, accuracies), "e")))


def test_a_win_in_every_pruned_cycle_names_the_largest_with_n_and_p(tmp_path: Path) -> None:
    """Differences of 10, 11, 12 points and of 5, 6, 7: t = 11 / (1 / √3) = 19.05, p = 0.0027; 10.39, p = 0.0091."""
    low = dict.fromkeys(range(3), (0.5, 0.5, 0.5))
    ours = {seed: (0.5, 0.60 + seed / 100, 0.55 + seed / 100) for seed in range(3)}
    assert sentence(tmp_path, {"low": low, "scyc": ours}) == (
        "scyc beats the best benchmark at 2 of 2 pruned densities, by up to 11.00 points against low at 50.00 % of the "
        "weights (n = 3, paired t-test, Holm p = 0.005)"
    )


def test_a_loss_is_a_loss(tmp_path: Path) -> None:
    low = {seed: (0.5, 0.60 + seed / 100) for seed in range(3)}
    ours = dict.fromkeys(range(3), (0.5, 0.5))
    assert sentence(tmp_path, {"low": low, "scyc": ours}).startswith(
        "scyc loses to the best benchmark at 1 of 1 pruned density, by 11.00 points against low at 50.00 %"
    )


def test_what_is_open_says_the_clearest_difference(tmp_path: Path) -> None:
    """Differences of 10 and 10 points have no p; of -5 and 1 they have one: t = -2 / (4.243 / √2), p = 0.63."""
    assert sentence(tmp_path, TWO) == (
        "scyc and the best benchmark cannot be told apart at any of 2 pruned densities: the clearest difference is "
        "-2.00 points against low at 25.00 % of the weights (n = 2, paired t-test, Holm p = 0.626)"
    )


def test_one_seed_tests_nothing(tmp_path: Path) -> None:
    said = sentence(tmp_path, {"low": {0: (0.5, 0.4, 0.4)}, "scyc": {0: (0.5, 0.5, 0.3)}})
    assert said.startswith("scyc is ahead of the best benchmark at 1 of 2 pruned densities, untested: at most ")


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ({"a": {0: (0.5, 0.4)}, "b": {0: (0.4, 0.3)}}, "a has the highest mean test accuracy at 2 of 2 densities"),
        ({"a": {0: (0.5, 0.25)}}, "a: test accuracy 50.0 % at 100.00 % of the weights (n = 1) and 25.0 % at 50.00 %"),
        ({"a": {0: (0.5,)}, "scyc": {0: (0.6,)}}, "scyc has the highest mean test accuracy at the only density"),
        ({"a": {0: (None,)}}, "nothing is recorded to its end yet"),
        ({"a": {0: ()}}, "nothing is recorded to its end yet"),
    ],
)
def test_where_nothing_stands_against_it(tmp_path: Path, accuracies: Accuracies, expected: str) -> None:
    assert sentence(tmp_path, accuracies).startswith(expected)


@pytest.mark.parametrize(
    ("means", "noise", "expected"),
    [
        ({"a": 0.90, "b": 0.89, "c": 0.70}, 0.02, {"a": "best", "b": "tie"}),
        ({"a": 0.90, "b": 0.89}, NAN, {"a": "best"}),
        ({"a": 0.90, "b": 0.90}, 0.0, {"a": "best", "b": "best"}),
        ({"a": 0.90}, 0.1, {}),
    ],
)
def test_the_best_and_what_noise_explains(means: dict[str, float], noise: float, expected: dict[str, str]) -> None:
    assert marks(means, noise) == expected
