"""The schedule against the paper's figures, torch's own schedulers, and the corners where floats end."""

import copy
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import ROUND_DOWN, Decimal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim import SGD
from torch.optim.lr_scheduler import CyclicLR, LambdaLR, LinearLR, LRScheduler, MultiStepLR

from scyc import lr
from scyc.config import scaled
from scyc.paper import published

RESNET20 = lr.SCyc(3e-2, 4e-2, 1, 5)
VGG19 = lr.SCyc(4e-2, 6e-2, 1, 4)
RESNET50 = lr.SCyc(5e-2, 5e-2, 2, 5)
ADAM = lr.SCyc(3e-3, 4e-3, 1, 4)
RMSPROP = lr.SCyc(1e-3, 2e-3, 2, 5)
TABLES = {  # the oracle table's name in published.toml, the preset's peak of spec.md §5
    "resnet20-cifar10-global-gradient": RESNET20,
    "vgg19-cifar10-layer-gradient": VGG19,
    "resnet50-imagenet200-imp": RESNET50,
}
WARMUP = lr.Warmup(20_000, (20_000, 25_000))


def optimizer(rate: Any = 1.0, **groups: float) -> SGD:
    """An optimizer with one parameter group, and one more for each named rate."""
    more = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": value} for value in groups.values()]
    return SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate}, *more], lr=1.0)


def rates(schedulers: list[LRScheduler], steps: int) -> list[float]:
    """The rate the optimizer holds at each of `steps` steps; one optimizer.step() is enough for torch."""
    owner = schedulers[0].optimizer
    owner.step()
    seen = []
    for _ in range(steps):
        seen.append(float(owner.param_groups[0]["lr"]))
        for scheduler in schedulers:
            scheduler.step()
    return seen


def ours(schedule: lr.Schedule, steps: int, cycle: int = 0) -> list[float]:
    return rates([lr.ScheduleLR(optimizer(), schedule, cycle, 0.2)], steps)


def assert_equal(mine: list[float], theirs: list[float], peak: float) -> None:
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9 * peak)


# ---- peaks: the paper's figures


@pytest.mark.parametrize(
    ("peak", "row"),
    [
        (RESNET20, ".03 .03 .030039 .0321325 .047611 .0644614 .0689294 .0697749 .0699474 .0699867"),
        (VGG19, ".04 .04 .0402335 .0454601 .0671283 .0887147 .0967952 .0990591 .0997039 .0999011"),
        (RESNET50, ".05 .05 .05 .0500488 .0526656 .0720137 .0930767 .0986617 .0997186 .0999343"),
        (ADAM, ".003 .003 .00301556 .00336401 .00480855 .00624764 .00678634 .00693727 .00698026 .0069934"),
        (RMSPROP, ".001 .001 .001 .00100195 .00110662 .00188055 .00272307 .00294647 .00298874 .00299737"),
    ],
)
def test_peaks_of_the_specification(peak: lr.SCyc, row: str) -> None:
    assert [f"{peak(cycle, 0.2):.6g}" for cycle in range(10)] == [f"{float(typed):.6g}" for typed in row.split()]


@pytest.mark.parametrize("name", TABLES)
def test_printed_peaks_are_ours_truncated(name: str) -> None:
    oracle = published()[name]["oracle"]
    assert len(oracle["scyc"]) == len(oracle["cycle"]) == 7
    for cycle, printed in zip(oracle["cycle"], oracle["scyc"], strict=True):
        digits = Decimal(repr(printed))
        assert Decimal(repr(TABLES[name](cycle, 0.2))).quantize(digits, ROUND_DOWN) == digits, cycle


def test_published_names_every_table() -> None:
    tables = published()
    assert sorted(name for name, table in tables.items() if "oracle" in table) == sorted(TABLES)
    assert len([name for name, table in tables.items() if "accuracy" in table]) == 5
    assert tables["resnet20-cifar10-global-gradient"]["accuracy"]["scyc"]["mean"][-1] == 72.8


@pytest.mark.parametrize("beta", [0.5, 3.0, 4.0, 6.0, 50.0])
@pytest.mark.parametrize("cycle", [4, 7])
def test_half_of_the_rise_is_at_3_106_whatever_beta(beta: float, cycle: int) -> None:
    exact = math.log(2) / math.log(1.25)  # r = 1
    assert f"{exact:.3f}" == "3.106"
    assert lr.SCyc(0.03, 0.04, cycle - exact, beta)(cycle, 0.2) == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize("peak", [RESNET20, VGG19, RESNET50, ADAM, RMSPROP])
def test_from_cycle_9_the_peak_is_within_a_thousandth_of_its_end(peak: lr.SCyc) -> None:
    end = peak.eps + peak.delta
    assert peak(8, 0.2) < peak(9, 0.2) < end
    assert all(peak(cycle, 0.2) >= 0.999 * end for cycle in range(9, 200))


@pytest.mark.parametrize("cycle", [0, 1, 2])
def test_up_to_q_the_peak_is_eps_exactly(cycle: int) -> None:
    assert lr.SCyc(0.1, 0.7, 2, 5)(cycle, 0.3) == 0.1
    assert lr.SCyc(0.1, 0.7, 2.5, 5)(cycle, 0.3) == 0.1


def test_fractional_q_follows_the_formula() -> None:
    r = 0.8**-1.5 - 1
    assert lr.SCyc(0.03, 0.04, 2.5, 4)(4, 0.2) == pytest.approx(0.03 + 0.04 / (1 + r**-4), rel=1e-13)


@pytest.mark.parametrize(
    ("peak", "cycle", "amount", "expected"),
    [
        (lr.SCyc(0.1, 0.5, 0, 1000), 100_000, 0.999, 0.6),
        (lr.SCyc(0.1, 0.5, 0, 1000), 100_000, 1e-12, 0.1),
        (lr.SCyc(0.1, 0.5, 0, 1000), 1, 1e-300, 0.1),
        (lr.SCyc(0.1, 0.5, 0, 1e308), 1, 0.999, 0.6),
        (lr.SCyc(0.1, 0.5, 0, 1e308), 1, 1e-9, 0.1),
        (lr.SCyc(0.1, 0.5, 0, 5e-324), 1, 0.2, 0.35),  # x is zero: half of the rise
        (lr.SCyc(0.1, 0.5, 1 - 2**-53, 3), 1, 5e-324, 0.1),  # the rise itself underflows
        (lr.SCyc(0.1, 0.5, 0, 3), 10**15, 1 - 2**-53, 0.6),
        (lr.SCyc(0.1, 0.0, 0, 3), 9, 0.2, 0.1),
    ],
)
def test_no_corner_overflows(peak: lr.SCyc, cycle: int, amount: float, expected: float) -> None:
    assert peak(cycle, amount) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(
    eps=st.floats(1e-12, 1e6),
    delta=st.floats(0, 1e6),
    q=st.floats(0, 50),
    beta=st.floats(1e-3, 1e4),
    amount=st.floats(1e-9, 1 - 1e-9),
)
def test_scyc_never_falls_and_stays_in_its_range(
    eps: float, delta: float, q: float, beta: float, amount: float
) -> None:
    peaks = [lr.SCyc(eps, delta, q, beta)(cycle, amount) for cycle in [*range(100), 1_000, 100_000]]
    assert peaks == sorted(peaks)
    assert eps == peaks[0] <= peaks[-1] <= eps + delta


def test_a_fixed_peak_is_the_same_in_every_cycle() -> None:
    assert {lr.Fixed(8e-3)(cycle, 0.2) for cycle in range(25)} == {8e-3}


# ---- shapes: torch's own schedulers, step by step over the presets' cycles


@pytest.mark.parametrize(("steps", "peak", "low", "half"), [(63_000, 2.5e-2, 0.0, 8_000), (50_000, 0.4, 0.25, 7_001)])
def test_cyclical_is_torch_cycliclr(steps: int, peak: float, low: float, half: int) -> None:
    theirs = CyclicLR(optimizer(), base_lr=low * peak, max_lr=peak, step_size_up=half, cycle_momentum=False)
    mine = ours(lr.Schedule(lr.Fixed(peak), lr.Cyclical(half, low)), steps)
    assert_equal(mine, rates([theirs], steps), peak)


def test_cyclical_touches_both_ends_exactly() -> None:
    shape = lr.Cyclical(half=3, low=0.25)
    assert [shape(step) for step in (0, 3, 6, 9, 12)] == [0.25, 1, 0.25, 1, 0.25]
    assert shape(1) == shape(5) == pytest.approx(0.5)


def test_decay_is_torch_linearlr() -> None:
    theirs = LinearLR(optimizer(2e-2), start_factor=1, end_factor=0, total_iters=63_000)
    mine = ours(lr.Schedule(lr.Fixed(2e-2), lr.Decay(63_000)), 63_100)
    assert_equal(mine, rates([theirs], 63_100), 2e-2)
    assert mine[63_000:] == [0.0] * 100


@pytest.mark.parametrize(
    ("steps", "peak", "ramp", "drops"),
    [
        (63_000, 3e-2, 20_000, (20_000, 25_000)),
        (63_000, 1e-1, 10_000, (32_000, 48_000)),
        (70_000, 5e-2, 4_000, (23_000, 46_000, 62_000)),
        (300, 1e-1, 100, (50, 50, 60)),
        (300, 1e-1, 2, (0,)),
        (300, 1e-1, 100, ()),
    ],
)
def test_warmup_is_torch_linearlr_times_multisteplr(steps: int, peak: float, ramp: int, drops: tuple[int, ...]) -> None:
    # LinearLR has its first value at step 0 and its last at total_iters: 1/ramp at 0 and 1 at ramp - 1 is ours.
    owner = optimizer(peak)
    drop = MultiStepLR(owner, drops, gamma=0.1)
    theirs = rates([LinearLR(owner, start_factor=1 / ramp, total_iters=ramp - 1), drop], steps)
    assert_equal(ours(lr.Schedule(lr.Fixed(peak), lr.Warmup(ramp, drops)), steps), theirs, peak)


def test_constant_never_moves() -> None:
    assert {lr.Constant()(step) for step in range(1_000)} == {1.0}


def test_warmup_that_ends_where_it_drops_touches_the_peak_for_one_step() -> None:
    assert [step for step in range(63_000) if WARMUP(step) == 1] == [19_999]
    assert WARMUP(19_998) == pytest.approx(0.99995)
    assert WARMUP(20_000) == WARMUP(24_999) == 0.1
    assert WARMUP(25_000) == pytest.approx(0.01)


def test_step_counts_scale_and_nothing_else() -> None:
    assert scaled(lr.Cyclical(8_000, 0.25), 0.1) == lr.Cyclical(800, 0.25)
    assert scaled(lr.Decay(63_000), 0.1) == lr.Decay(6_300)
    assert scaled(WARMUP, 0.1) == lr.Warmup(2_000, (2_000, 2_500))
    assert scaled(RESNET20, 0.1) == RESNET20


# ---- schedule, table


def test_a_schedule_is_peak_times_shape() -> None:
    schedule = lr.Schedule(RESNET20, WARMUP)
    assert schedule.lr(cycle=4, step=19_999, amount=0.2) == pytest.approx(0.047611, abs=5e-8)
    assert schedule.lr(cycle=4, step=20_000, amount=0.2) == pytest.approx(0.0047611, abs=5e-9)


def test_table_holds_every_rate() -> None:
    schedule = lr.Schedule(VGG19, lr.Cyclical(7, 0.1))
    rows = lr.table(schedule, cycles=6, steps=30)
    assert rows.shape == (6, 30)
    assert rows.dtype == torch.float64
    assert rows.tolist() == [[schedule.lr(cycle, step, 0.2) for step in range(30)] for cycle in range(6)]
    assert not torch.equal(rows, lr.table(schedule, cycles=6, steps=30, amount=0.3))


def by_history(cycle: int, amount: float, history: lr.History = ()) -> float:
    return 0.1 + float(sum(row["accuracy"] for row in history))


def test_a_peak_may_ask_for_what_was_measured() -> None:
    schedule = lr.Schedule(by_history, lr.Constant())
    history = [{"accuracy": 0.5}]
    assert schedule.lr(1, 0, 0.2, history) == 0.6
    scheduler = lr.ScheduleLR(optimizer(), schedule, 1, 0.2, history)
    history.append({"accuracy": 9.0})  # a later row, while the cycle runs
    assert rates([scheduler], 3) == [0.6] * 3


# ---- ScheduleLR


@pytest.mark.parametrize("cycle", [0, 3, 9])
def test_stepping_gives_the_closed_form(cycle: int) -> None:
    schedule = lr.Schedule(RESNET20, lr.Warmup(5, (7, 9)))
    assert ours(schedule, 20, cycle) == [schedule.lr(cycle, step, 0.2) for step in range(20)]


def test_a_users_loop_updates_by_the_scheduled_rate() -> None:
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    owner = SGD([weight], lr=1.0)
    scheduler = lr.ScheduleLR(owner, lr.Schedule(lr.Fixed(0.5), lr.Decay(4)), cycle=0, amount=0.2)
    for _ in range(6):
        weight.grad = torch.ones_like(weight)
        owner.step()
        scheduler.step()
    assert weight.item() == -0.5 * (1 + 0.75 + 0.5 + 0.25)


def test_parameter_groups_keep_their_ratios() -> None:
    owner = optimizer(1.0, head=10.0, bias=0.5)
    scheduler = lr.ScheduleLR(owner, lr.Schedule(lr.Fixed(0.2), lr.Warmup(4)), 0, 0.2)
    assert scheduler.get_last_lr() == pytest.approx([0.05, 0.5, 0.025])
    owner.step()
    scheduler.step()
    assert [group["lr"] for group in owner.param_groups] == scheduler.get_last_lr() == pytest.approx([0.1, 1, 0.05])


def test_an_optimizer_kept_for_the_next_cycle_starts_from_its_own_rates() -> None:
    owner = optimizer(2.0)
    schedule = lr.Schedule(lr.Fixed(0.25), lr.Decay(4))
    assert [rates([lr.ScheduleLR(owner, schedule, m, 0.2)], 4) for m in (0, 1)] == [[0.5, 0.375, 0.25, 0.125]] * 2


def test_a_tensor_rate_stays_the_same_tensor() -> None:
    rate = torch.tensor(1.0, dtype=torch.float64)
    owner = optimizer(rate)
    scheduler = lr.ScheduleLR(owner, lr.Schedule(lr.Fixed(0.5), lr.Decay(4)), 0, 0.2)
    assert rates([scheduler], 4) == [0.5, 0.375, 0.25, 0.125]
    other = lr.ScheduleLR(owner, scheduler.schedule, 0, 0.2)
    other.load_state_dict(saved(scheduler.state_dict()))
    assert owner.param_groups[0]["lr"] is rate
    assert rate.item() == 0


def test_it_chains_with_torchs_schedulers() -> None:
    owner = optimizer()
    ours_first = lr.ScheduleLR(owner, lr.Schedule(lr.Fixed(0.5), lr.Constant()), 0, 0.2)
    assert rates([ours_first, MultiStepLR(owner, [2], gamma=0.1)], 3) == pytest.approx([0.5, 0.5, 0.05])


def test_it_is_a_torch_scheduler() -> None:
    with pytest.raises(TypeError, match="not an Optimizer"):
        lr.ScheduleLR(None, lr.Schedule(lr.Fixed(0.5), lr.Constant()), 0, 0.2)  # type: ignore[arg-type]
    scheduler = lr.ScheduleLR(optimizer(), lr.Schedule(lr.Fixed(0.5), lr.Constant()), 0, 0.2)
    assert isinstance(scheduler, LRScheduler)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()


# ---- ScheduleLR: resuming


def saved(state: dict[str, Any]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(state))
    return loaded


def test_state_holds_a_plain_description() -> None:
    state = saved(lr.ScheduleLR(optimizer(), lr.Schedule(RESNET20, WARMUP), cycle=4, amount=0.2).state_dict())
    assert state["schedule"] == {
        "name": "Schedule",
        "peak": {"name": "SCyc", "eps": 0.03, "delta": 0.04, "q": 1, "beta": 5},
        "shape": {"name": "Warmup", "ramp": 20_000, "drops": [20_000, 25_000]},
    }
    assert (state["cycle"], state["amount"]) == (4, 0.2)


SCHEDULES = [
    lr.Schedule(lr.Fixed(0.3), lr.Constant()),
    lr.Schedule(RESNET20, lr.Decay(9)),
    lr.Schedule(VGG19, lr.Cyclical(4, 0.2)),
    lr.Schedule(RMSPROP, lr.Warmup(5, (6, 8, 8))),
]


@pytest.mark.torture
def test_resumed_in_the_middle_is_uninterrupted_is_closed_form(
    size: Callable[[int, int], int], figure: Callable[[str], None]
) -> None:
    @settings(max_examples=size(60, 6_000))
    @given(
        schedule=st.sampled_from(SCHEDULES),
        cycle=st.integers(0, 12),
        amount=st.floats(0.01, 0.99),
        rate=st.sampled_from([1.0, 0.3]),
        done=st.integers(1, 12),
        carry=st.sampled_from([saved, through_json]),
        optimizer_first=st.booleans(),
    )
    def check(
        schedule: lr.Schedule,
        cycle: int,
        amount: float,
        rate: float,
        done: int,
        carry: Callable[[dict[str, Any]], dict[str, Any]],
        optimizer_first: bool,
    ) -> None:
        closed = [rate * schedule.lr(cycle, step, amount) for step in range(15)]
        scheduler = lr.ScheduleLR(optimizer(rate), schedule, cycle, amount)
        assert rates([scheduler], done) == closed[:done]
        states = scheduler.optimizer.state_dict(), carry(scheduler.state_dict())
        owner = optimizer(rate)
        if optimizer_first:
            owner.load_state_dict(states[0])
        resumed = lr.ScheduleLR(owner, schedule, cycle, amount)
        resumed.load_state_dict(states[1])
        if not optimizer_first:
            owner.load_state_dict(states[0])
        assert resumed.get_last_lr() == [closed[done]]
        assert rates([resumed], 15 - done) == closed[done:]

    check()
    figure(f"learning rate stepped, in closed form, resumed: {size(60, 6_000)} examples, no violation")


def test_scheduler_state_alone_brings_the_rate_back() -> None:
    scheduler = lr.ScheduleLR(optimizer(), SCHEDULES[1], 3, 0.2)
    rates([scheduler], 4)
    resumed = lr.ScheduleLR(optimizer(), SCHEDULES[1], 3, 0.2)
    resumed.load_state_dict(scheduler.state_dict())
    assert resumed.optimizer.param_groups[0]["lr"] == SCHEDULES[1].lr(3, 4, 0.2)


def test_last_epoch_starts_in_the_middle() -> None:
    owner = optimizer()
    rates([lr.ScheduleLR(owner, SCHEDULES[1], 3, 0.2)], 4)
    later = lr.ScheduleLR(owner, SCHEDULES[1], 3, 0.2, last_epoch=3)
    assert later.get_last_lr() == [SCHEDULES[1].lr(3, 4, 0.2)]


def test_a_deep_copy_goes_on_alone() -> None:
    scheduler = lr.ScheduleLR(optimizer(), SCHEDULES[2], 5, 0.2)
    rates([scheduler], 3)
    copied = copy.deepcopy(scheduler)
    assert copied.optimizer is not scheduler.optimizer
    assert rates([copied], 5) == rates([scheduler], 5) == [SCHEDULES[2].lr(5, step, 0.2) for step in range(3, 8)]


def test_restarted_it_is_the_scheduler_of_that_cycle() -> None:
    """With the same optimizer, whose groups keep their ratios; also what the peak makes of history."""
    scheduler = lr.ScheduleLR(optimizer(1.0, head=0.5), SCHEDULES[1], 0, 0.2)
    rates([scheduler], 7)
    scheduler.restart_(3)
    fresh = lr.ScheduleLR(optimizer(1.0, head=0.5), SCHEDULES[1], 3, 0.2)
    assert rates([scheduler], 5) == rates([fresh], 5)
    assert scheduler.state_dict() == fresh.state_dict()
    fresh.load_state_dict(through_json(scheduler.state_dict()))
    by = lr.ScheduleLR(optimizer(), lr.Schedule(by_history, lr.Constant()), 0, 0.2)
    by.restart_(1, [{"accuracy": 0.5}])
    assert by.peak == 0.6
    with pytest.raises(ValueError, match="cycle=-1 is not valid"):
        scheduler.restart_(-1)


def test_numpy_numbers_do_not_reach_the_state() -> None:
    schedule = lr.Schedule(lr.SCyc(*np.array([0.03, 0.04, 1, 5])), lr.Constant())
    state = saved(lr.ScheduleLR(optimizer(), schedule, 3, np.float64(0.2)).state_dict())
    lr.ScheduleLR(optimizer(), lr.Schedule(RESNET20, lr.Constant()), 3, 0.2).load_state_dict(state)


@dataclass(frozen=True)
class Listed:
    """A third party's peak, with a field that is no number."""

    rates: dict[int, float]

    def __call__(self, cycle: int, amount: float, history: lr.History = ()) -> float:
        return self.rates[cycle]


@pytest.mark.parametrize("peak", [by_history, Listed({0: 0.1, 1: 0.2})])
def test_other_peaks_resume_too(peak: lr.Peak) -> None:
    schedule = lr.Schedule(peak, lr.Decay(9))
    state = through_json(lr.ScheduleLR(optimizer(), schedule, 0, 0.2).state_dict())
    lr.ScheduleLR(optimizer(), schedule, 0, 0.2).load_state_dict(state)
    with pytest.raises(ValueError, match="state has schedule"):
        lr.ScheduleLR(optimizer(), SCHEDULES[0], 0, 0.2).load_state_dict(state)


# ---- errors

untyped: Any = lr  # called as by a user without a type checker


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lr.Decay(0), "Decay.steps=0 is not valid; use a whole number of steps, at least 1"),
        (lambda: untyped.Decay(2.5), "Decay.steps=2.5 is"),
        (lambda: untyped.Decay(True), "Decay.steps=True is"),
        (lambda: lr.Cyclical(-1), "Cyclical.half=-1 is not valid; use a whole number of steps, at least 1"),
        (lambda: lr.Cyclical(5, 1.0), "Cyclical.low=1.0 is not valid; use a share of the peak, 0 <= low < 1"),
        (lambda: lr.Cyclical(5, -0.1), "Cyclical.low=-0.1 is"),
        (lambda: lr.Cyclical(5, math.nan), "Cyclical.low=nan is"),
        (lambda: lr.Warmup(0), "Warmup.ramp=0 is not valid; use a whole number of steps, at least 1"),
        (lambda: lr.Warmup(5, (1, 2, 3, 4)), "Warmup.drops=(1, 2, 3, 4) is not valid; use a tuple of at most 3 steps"),
        (lambda: untyped.Warmup(5, [1]), "Warmup.drops=[1] is not valid; use a tuple of at most 3 steps, each a whole"),
        (lambda: untyped.Warmup(5, 7), "Warmup.drops=7 is"),
        (lambda: lr.Warmup(5, (-1,)), "Warmup.drops=(-1,) is"),
        (lambda: untyped.Warmup(5, (1.5,)), "Warmup.drops=(1.5,) is"),
        (lambda: lr.Warmup(5, (9, 7)), "Warmup.drops=(9, 7) is not valid; use steps that never decrease"),
        (lambda: lr.Fixed(0.0), "Fixed.lr=0.0 is not valid; use a finite number above 0"),
        (lambda: lr.Fixed(math.inf), "Fixed.lr=inf is"),
        (lambda: lr.Fixed(True), "Fixed.lr=True is"),
        (lambda: untyped.Fixed("0.1"), "Fixed.lr='0.1' is"),
        (lambda: lr.SCyc(0, 1, 1, 5), "SCyc.eps=0 is not valid; use a finite number above 0"),
        (lambda: lr.SCyc(math.nan, 1, 1, 5), "SCyc.eps=nan is"),
        (lambda: lr.SCyc(1, -0.1, 1, 5), "SCyc.delta=-0.1 is not valid; use a finite number, 0 or more"),
        (lambda: lr.SCyc(1, math.inf, 1, 5), "SCyc.delta=inf is"),
        (lambda: lr.SCyc(1, 1, -1, 5), "SCyc.q=-1 is not valid; use a finite number, 0 or more (suggested: 0 to 3)"),
        (lambda: lr.SCyc(1, 1, math.inf, 5), "SCyc.q=inf is"),
        (lambda: lr.SCyc(1, 1, 1, 0), "SCyc.beta=0 is not valid; use a number above 0 (suggested: 3 to 6)"),
        (lambda: lr.SCyc(1, 1, 1, math.nan), "SCyc.beta=nan is"),
        (lambda: RESNET20(0, 0.0), "amount=0.0 is not valid; use a share of the remaining weights, 0 < amount < 1"),
        (lambda: RESNET20(0, 1.0), "amount=1.0 is"),
        (lambda: RESNET20(5, math.nan), "amount=nan is"),
        (lambda: SCHEDULES[0].lr(-1, 0, 0.2), "cycle=-1 is not valid; use 0 (the dense network) or more"),
        (lambda: SCHEDULES[0].lr(0, -1, 0.2), "step=-1 is not valid; use 0 (the first of the cycle) or more"),
        (lambda: lr.table(SCHEDULES[0], 0, 5), "cycles=0 is not valid; use a whole number, at least 1"),
        (lambda: lr.table(SCHEDULES[0], 5, 0), "steps=0 is not valid; use a whole number, at least 1"),
        (lambda: lr.ScheduleLR(optimizer(), SCHEDULES[0], -1, 0.2), "cycle=-1 is not valid; use a whole number: 0"),
        (lambda: lr.ScheduleLR(optimizer(), SCHEDULES[1], 0, 1.2), "amount=1.2 is"),
    ],
)
def test_what_cannot_be_says_so_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert "; use " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schedule": lr.Schedule(RESNET20, lr.Decay(8))}, "state has schedule"),
        ({"schedule": lr.Schedule(VGG19, lr.Decay(9))}, "state has schedule"),
        ({"cycle": 4}, "state has cycle 3, this scheduler 4; build it with the state's"),
        ({"amount": 0.25}, "state has amount 0.2, this scheduler 0.25; build it with the state's"),
    ],
)
def test_the_state_of_another_schedule_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"schedule": SCHEDULES[1], "cycle": 3, "amount": 0.2}
    state = lr.ScheduleLR(optimizer(), **arguments).state_dict()
    other = lr.ScheduleLR(optimizer(), **arguments | change)
    before = other.state_dict()
    with pytest.raises(ValueError) as raised:
        other.load_state_dict(state)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert other.state_dict() == before


def test_the_state_of_another_history_is_refused() -> None:
    schedule = lr.Schedule(by_history, lr.Constant())
    state = lr.ScheduleLR(optimizer(), schedule, 1, 0.2, [{"accuracy": 0.5}]).state_dict()
    with pytest.raises(ValueError, match=r"state has peak 0\.6, this scheduler 0\.1; pass the same history"):
        lr.ScheduleLR(optimizer(), schedule, 1, 0.2).load_state_dict(state)


def test_the_state_of_other_parameter_groups_is_refused() -> None:
    state = lr.ScheduleLR(optimizer(1.0, head=2.0), SCHEDULES[0], 0, 0.2).state_dict()
    with pytest.raises(ValueError, match="state has 2 parameter groups, this optimizer 1"):
        lr.ScheduleLR(optimizer(), SCHEDULES[0], 0, 0.2).load_state_dict(state)


def test_the_state_of_torchs_scheduler_is_refused() -> None:
    with pytest.raises(ValueError, match="state has schedule None"):
        lr.ScheduleLR(optimizer(), SCHEDULES[0], 0, 0.2).load_state_dict(LambdaLR(optimizer(), float).state_dict())


def test_every_entry_has_a_line_for_the_list() -> None:
    shapes = ["constant", "cosine", "cyclical", "decay", "ft", "llr", "one-cycle", "slr", "warmup"]
    assert sorted(lr.SHAPES) == shapes
    assert sorted(lr.PEAKS) == ["allr", "density", "fixed", "linear", "reversed", "scyc", "step", "table"]
    for entry in [*lr.SHAPES.values(), *lr.PEAKS.values()]:
        assert len((entry.__doc__ or "").splitlines()) == 1
        assert all(part.name in (entry.__doc__ or "") for part in fields(entry))
