"""The one-call form: the loop of the design, for every rewind; saved anywhere, it goes on with the same bits."""

import copy
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import scyc
from examples import digit_images
from scyc import draw, lr, mask, prune
from scyc.iteratively import Cycles

SCHEDULE = lr.Schedule(peak=lr.SCyc(eps=0.05, delta=0.05, q=0, beta=3), shape=lr.Warmup(ramp=3, drops=(5,)))
STEPS = 6


def fresh_net() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 10)
    )


def start() -> nn.Module:
    torch.manual_seed(1)
    return fresh_net()


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, weight_decay=1e-2)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled by torch's own stream."""
    images, labels = digit_images().train.images[:96].float() / 16, digit_images().train.labels[:96]
    return iter(DataLoader(TensorDataset(images, labels), 16, shuffle=True))


def steps(net: nn.Module, optimizer: torch.optim.Optimizer, scheduler: lr.ScheduleLR) -> None:
    net.train()
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()
        scheduler.step()


def train(cycle: scyc.Cycle) -> None:
    optimizer = sgd(cycle.net)
    assert_zero(cycle)  # as it is given
    steps(cycle.net, optimizer, cycle.attach_(optimizer))
    assert_zero(cycle)


def assert_zero(cycle: scyc.Cycle) -> None:
    for name, kept in cycle.masks.items():
        assert not cycle.net.get_parameter(name)[~kept].any()


@torch.no_grad()
def accuracy(net: nn.Module) -> dict[str, Any]:
    images, labels = digit_images().train.images[96:160].float() / 16, digit_images().train.labels[96:160]
    return {"accuracy": (net.eval()(images).argmax(1) == labels).float().mean()}


def gradients(net: nn.Module) -> dict[str, Tensor]:
    images, labels = digit_images().train.images[:64].float() / 16, digit_images().train.labels[:64]
    return prune.gradients(net, zip(images.split(16), labels.split(16), strict=True), cross_entropy)


def bits(net: nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in net.state_dict().items()}


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


REWINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "init": {"rewind": "init"},
    "step": {"rewind": {"name": "step", "k": 4}},
    "reinit": {"rewind": "reinit", "fresh": fresh_net, "seed": 3},
    "gradient": {"score": "gradient", "scope": "layer", "grads": gradients},
    "random": {"score": "random", "seed": 5},
}


def pruning(net: nn.Module, **choices: Any) -> Cycles:
    given: dict[str, Any] = {"train": train, "evaluate": accuracy, "schedule": SCHEDULE, "cycles": 4, "amount": 0.3}
    return scyc.prune_iteratively(net, **given | choices)


def by_hand(net: nn.Module, case: str) -> tuple[list[mask.Masks], list[float]]:
    """The loop of the design, the rewinds written out."""
    masks, initial, kept = mask.ones_like(net), copy.deepcopy(net.state_dict()), {}
    made, measured = [], []
    for cycle in range(4):
        if cycle:
            score, scope = {"gradient": ("gradient", "layer"), "random": ("random", "global")}.get(
                case, ("magnitude", "global")
            )
            grads = gradients(net) if case == "gradient" else None
            rng = draw.generator("score", 5, cycle) if case == "random" else None
            masks = prune.step(net, masks, amount=0.3, score=score, scope=scope, grads=grads, rng=rng)
            if case == "init":
                net.load_state_dict(initial)
            elif case == "step":
                net.load_state_dict(kept)
            elif case == "reinit":
                with draw.seeded("reinit", 3, cycle):
                    net.load_state_dict(fresh_net().state_dict())
        optimizer = sgd(net)
        scheduler = lr.ScheduleLR(optimizer, SCHEDULE, cycle, 0.3)
        mask.attach_(optimizer, net, masks)
        taken = iter(range(1, STEPS + 1))
        if cycle == 0:

            def keep(*_: Any, taken: Iterator[int] = taken) -> None:
                if next(taken) == 4:
                    kept.update(copy.deepcopy(net.state_dict()))

            optimizer.register_step_post_hook(keep)
        steps(net, optimizer, scheduler)
        made.append(masks)
        measured.append(float(accuracy(net)["accuracy"]))
    return made, measured


@pytest.mark.parametrize("case", REWINDS)
def test_it_is_the_loop_of_the_design(case: str) -> None:
    nets = [start(), start()]
    torch.manual_seed(2)
    masks, measured = by_hand(nets[0], case)
    torch.manual_seed(2)
    records = list(pruning(nets[1], **REWINDS[case]))
    assert bits(nets[1]) == bits(nets[0])
    for record, expected in zip(records, masks, strict=True):
        assert all(torch.equal(record.masks[name], m) for name, m in expected.items())
    assert [float(record.outcome["accuracy"]) for record in records] == measured
    assert [record.cycle for record in records] == [0, 1, 2, 3]
    assert [record.steps for record in records] == [STEPS] * 4
    assert [record.peak for record in records] == [SCHEDULE.peak(cycle, 0.3) for cycle in range(4)]
    if REWINDS[case].get("scope") is None:  # of 1480 weights, each time round(0.3 x what is left) fewer
        assert [record.density for record in records] == [1.0, 1036 / 1480, 725 / 1480, 507 / 1480]


@pytest.mark.parametrize("case", REWINDS)
@pytest.mark.parametrize("after", [1, 2, 3])
def test_saved_between_cycles_it_goes_on_with_the_same_bits(case: str, after: int) -> None:
    whole, half, other = start(), start(), fresh_net()
    torch.manual_seed(2)
    expected = list(pruning(whole, **REWINDS[case]))
    torch.manual_seed(2)
    first = pruning(half, **REWINDS[case])
    records = list(islice(first, after))
    state = through_a_file(first.state_dict())
    torch.manual_seed(77)  # what the new process happens to have
    again = pruning(other, **REWINDS[case])
    again.load_state_dict(state)
    records += list(again)
    assert bits(other) == bits(whole)
    assert [(r.cycle, r.density, r.outcome) for r in records] == [(r.cycle, r.density, r.outcome) for r in expected]
    assert again.pruner.history[-1]["accuracy"] == float(expected[-1].outcome["accuracy"])


@pytest.mark.parametrize("stop", [2, STEPS + 4])
def test_saved_within_a_cycle_it_goes_on_with_the_same_bits(stop: int) -> None:
    """What the user's training must save of its own is its optimizer, its scheduler and its place in the data."""
    saved: dict[str, Any] = {}
    stopping = [False]
    images, labels = digit_images().train.images[:96].float() / 16, digit_images().train.labels[:96]
    rows = list(zip(images.split(16), labels.split(16), strict=True))

    def resumable(cycle: scyc.Cycle) -> None:
        optimizer = sgd(cycle.net)
        scheduler = cycle.attach_(optimizer)
        if cycle.step:
            optimizer.load_state_dict(saved["optimizer"])
            scheduler.load_state_dict(saved["scheduler"])
        for step, (x, y) in list(enumerate(rows))[cycle.step :]:
            optimizer.zero_grad()
            cross_entropy(cycle.net.train()(x), y).backward()
            optimizer.step()
            scheduler.step()
            if stopping[0] and STEPS * cycle.number + step + 1 == stop:
                parts = {"optimizer": optimizer, "scheduler": scheduler, "cycles": first}
                saved.update(through_a_file({name: part.state_dict() for name, part in parts.items()}))
                raise KeyboardInterrupt

    whole, half, other = start(), start(), fresh_net()
    torch.manual_seed(2)
    list(pruning(whole, train=resumable, rewind="init"))
    torch.manual_seed(2)
    stopping[0], first = True, pruning(half, train=resumable, rewind="init")
    with pytest.raises(KeyboardInterrupt):
        list(first)
    assert saved["cycles"]["pruner"]["step"] == stop % STEPS
    torch.manual_seed(77)
    stopping[0], again = False, pruning(other, train=resumable, rewind="init")
    again.load_state_dict(saved["cycles"])
    list(again)
    assert bits(other) == bits(whole)


def test_a_training_that_failed_may_be_asked_again() -> None:
    fails = iter([True, False, False])

    def train_once_more(cycle: scyc.Cycle) -> None:
        train(cycle)
        if next(fails):
            raise KeyboardInterrupt

    cycles = pruning(start(), train=train_once_more, cycles=2)
    with pytest.raises(KeyboardInterrupt):
        next(cycles)
    assert [(record.cycle, record.steps) for record in cycles] == [(0, 2 * STEPS), (1, STEPS)]


# What the training may do


def group_rates(net: nn.Module) -> list[list[float]]:
    seen: list[list[float]] = []

    def grouped(cycle: scyc.Cycle) -> None:
        layers = [layer for layer in cycle.net if isinstance(layer, nn.Linear)]  # type: ignore[attr-defined]
        groups = [{"params": layers[0].parameters(), "lr": 1.0}, {"params": layers[1].parameters(), "lr": 0.25}]
        optimizer = torch.optim.Adam(groups)
        scheduler = cycle.attach_(optimizer)
        optimizer.register_step_pre_hook(lambda *_: seen.append([group["lr"] for group in optimizer.param_groups]))
        steps(cycle.net, optimizer, scheduler)

    list(pruning(net, train=grouped, cycles=2))
    return seen


def test_groups_keep_their_ratios() -> None:
    peaks = [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(2) for step in range(STEPS)]
    assert group_rates(start()) == [[peak, peak / 4] for peak in peaks]  # exact: a quarter is a power of two


def test_accumulation_clipping_and_bf16_with_a_scaler_that_leaves_steps_out() -> None:
    """Left-out steps are none: they count neither for the rewind nor for the schedule."""
    rates: list[float] = []
    left_out = 0

    def scaled(cycle: scyc.Cycle) -> None:
        nonlocal left_out
        optimizer = sgd(cycle.net)
        scheduler = cycle.attach_(optimizer)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=100)
        pairs = [pair for _ in range(12) for pair in zip(*[batches()] * 2, strict=True)]
        while cycle.pruner.step < STEPS:
            for x, y in pairs.pop():
                with torch.autocast("cpu", torch.bfloat16):
                    loss = cross_entropy(cycle.net(x), y, reduction="sum") / 2
                scaler.scale(loss.float()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(cycle.net.parameters(), 0.5)
            before, rate = scaler.get_scale(), optimizer.param_groups[0]["lr"]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if scaler.get_scale() < before:
                left_out += 1
            else:
                rates.append(rate)
                scheduler.step()
            assert_zero(cycle)

    net = start()
    cycles = pruning(net, train=scaled, cycles=3, rewind={"name": "step", "k": 2})
    assert [record.steps for record in cycles] == [STEPS] * 3
    assert left_out > 0
    assert rates == [SCHEDULE.lr(cycle, step, 0.3) for cycle in range(3) for step in range(STEPS)]


def test_peaks_see_what_was_evaluated() -> None:
    def by_accuracy(cycle: int, amount: float, history: lr.History = ()) -> float:
        return 0.1 + (history[-1]["accuracy"] if history else 0.0)

    records = list(pruning(start(), schedule=lr.Schedule(by_accuracy, lr.Constant()), cycles=3))
    accuracies = [float(record.outcome["accuracy"]) for record in records]
    assert [record.peak for record in records] == [0.1, 0.1 + accuracies[0], 0.1 + accuracies[1]]


def test_records_say_what_the_pruning_before_took_and_peaks_see_it() -> None:
    """The norm of what went over that of what was left, both as one vector."""
    seen: list[lr.History] = []

    def looks(cycle: int, amount: float, history: lr.History = ()) -> float:
        seen.append(history)
        return 0.1 + (history[-1]["next"]["pruned_norm"] if history else 0.0)

    before: dict[int, Tensor] = {}
    after: dict[int, Tensor] = {}

    def noted(cycle: scyc.Cycle) -> None:
        own = torch.cat([cycle.masks[name].flatten() for name in cycle.masks])
        after[cycle.number] = own
        train(cycle)
        before[cycle.number] = torch.cat([cycle.net.get_parameter(name).detach().flatten() for name in cycle.masks])

    cycles = pruning(start(), train=noted, schedule=lr.Schedule(looks, lr.Constant()), cycles=3)
    records = [next(cycles), next(cycles)]
    again = pruning(start(), train=noted, schedule=lr.Schedule(looks, lr.Constant()), cycles=3)
    again.load_state_dict(through_a_file(cycles.state_dict()))
    assert again.pruner.peak == cycles.pruner.peak == 0.1 + (records[1].pruned_norm or 0.0) > 0.1
    records.append(next(again))
    assert (records[0].pruned_share, records[0].pruned_norm) == (None, None)
    for m in (1, 2):
        old, kept = before[m - 1], after[m]
        share = 1 - int(kept.sum()) / int(after[m - 1].sum())
        assert records[m].pruned_share == pytest.approx(share, abs=1e-12)
        assert records[m].pruned_norm == pytest.approx(float(old[~kept].norm() / old.norm()), rel=1e-5)
    last = seen[-1][-1]
    assert last["next"] == {"pruned_share": records[2].pruned_share, "pruned_norm": records[2].pruned_norm}
    assert last["pruned_norm"] == records[1].pruned_norm


def test_where_chooses_and_densities_are_of_the_chosen_and_of_all() -> None:
    records = list(pruning(start(), where=lambda name, _: name.startswith("5"), cycles=2))
    assert [record.layers for record in records] == [{"5.weight": 1.0}, {"5.weight": 140 / 200}]
    assert [record.density_all for record in records] == [1.0, 1420 / 1480]


def test_filters_go_with_what_the_network_couples_to_them() -> None:
    def convolutions() -> nn.Module:
        torch.manual_seed(1)
        body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        body.prune_coupled = {"0.weight": ("0.bias", "1.weight", "1.bias")}  # type: ignore[assignment]
        return nn.Sequential(nn.Unflatten(-1, (8, 8)), body, nn.Flatten(), nn.Linear(512, 10))

    def shaped(cycle: scyc.Cycle) -> None:
        optimizer = sgd(cycle.net)
        scheduler = cycle.attach_(optimizer)
        for x, y in batches():
            optimizer.zero_grad()
            cross_entropy(cycle.net(x.flatten(1).unsqueeze(1)), y).backward()
            optimizer.step()
            scheduler.step()

    net = convolutions()
    record = list(pruning(net, train=shaped, evaluate=None, unit="filter", amount=0.5, cycles=2))[-1]
    gone = ~record.masks["1.0.bias"]
    assert gone.sum() == 4
    for name in ("1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"):
        assert not net.get_parameter(name)[gone].any()
        assert net.get_parameter(name)[~gone].any()


def test_the_guard_is_reported() -> None:
    records = list(pruning(start(), scope="layer", amount=0.99, cycles=2))
    assert [record.guarded for record in records] == [False, False]  # 1267 of 1280 and 198 of 200
    records = list(pruning(start(), scope="layer", amount=0.999, cycles=2))  # 1279 and 200: one of them stays
    assert [record.guarded for record in records] == [False, True]


# Errors


def forgets_to_attach(cycle: scyc.Cycle) -> None:
    sgd(cycle.net).step()


def attaches_twice(cycle: scyc.Cycle) -> None:
    for _ in range(2):
        cycle.attach_(sgd(cycle.net))


def never_steps_the_scheduler(cycle: scyc.Cycle) -> None:
    optimizer = sgd(cycle.net)
    cycle.attach_(optimizer)
    for _ in range(3):
        optimizer.step()


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"train": forgets_to_attach}, "train attached no optimizer in cycle 0; call cycle.attach_(optimizer)"),
        ({"train": attaches_twice}, "cycle 0 has its optimizer already; attach one"),
        ({"train": never_steps_the_scheduler}, "the learning rate of cycle 0 stood still; call scheduler.step()"),
        ({"evaluate": lambda net: object()}, "an evaluation returned a object; return numbers"),
        ({"rewind": {"name": "step", "k": 99}}, "rewind to step 99: cycle 0 had 6 steps; use a smaller k"),
        ({"rewind": "reinit", "fresh": lambda: nn.Linear(2, 2)}, "not the same network: only one of the two has "),
        ({"rewind": "initial"}, "did you mean 'init'"),
        ({"rewind": {"name": "step"}}, "k: this key is required"),
        ({"scope": "layers"}, "did you mean 'layer'"),
        ({"cycles": 0}, "cycles = 0; use a whole number of trainings"),
        ({"amount": 0.0}, "amount = 0.0: must lie between 0 and 1"),
        ({"amount": "0.2"}, "amount = '0.2': must lie between 0 and 1"),
        ({"where": lambda name, _: False}, "`where` chooses none of 1.weight, 5.weight"),
        ({"unit": "filter"}, "unit 'filter' finds nothing to prune"),
        ({"score": "gradient"}, "score 'gradient' needs grads="),
        ({"rewind": "reinit"}, "rewind 'reinit' needs fresh="),
    ],
)
def test_what_cannot_be_is_said_in_a_line(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as error:
        list(pruning(start(), **choices))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"amount": 0.4}, "state has method"),
        ({"rewind": "init"}, "state has method"),
        ({"schedule": lr.Schedule(lr.Fixed(0.1), lr.Constant())}, "state has schedule"),
    ],
)
def test_the_state_of_another_is_refused(choices: dict[str, Any], said: str) -> None:
    first = pruning(start())
    next(first)
    with pytest.raises(ValueError, match=said) as error:
        pruning(start(), **choices).load_state_dict(first.state_dict())
    assert "\n" not in str(error.value)


def test_more_cycles_may_follow_a_saved_state() -> None:
    first = pruning(start(), cycles=2)
    assert len(list(first)) == 2
    more = pruning(start(), cycles=3)
    more.load_state_dict(first.state_dict())
    assert [record.cycle for record in more] == [2]


def test_after_the_last_cycle_the_optimizer_is_free() -> None:
    kept: list[torch.optim.Optimizer] = []

    def remembering(cycle: scyc.Cycle) -> None:
        optimizer = sgd(cycle.net)
        kept.append(optimizer)
        steps(cycle.net, optimizer, cycle.attach_(optimizer))

    list(pruning(start(), train=remembering, cycles=2))
    assert [len(optimizer._optimizer_step_post_hooks) for optimizer in kept] == [0, 0]
