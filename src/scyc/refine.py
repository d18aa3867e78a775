"""S-Cyc's q and beta by optuna: whole schedules trained side by side, judged by validation accuracy alone.

What is asked depends on nothing but the tunings before it: after any kill the same ones are asked again. They are
asked four at a time, and told together.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from scyc import cycle
from scyc import stack as stacks
from scyc.config import Part, digest, part
from scyc.data import Dataset
from scyc.question import Outcome, mean, standing, validated
from scyc.run import PEAK, Run, identified
from scyc.stack import Record, Stack
from scyc.store.lock import Hold
from scyc.store.runs import Store
from scyc.study import Study, grouped, prefixed
from scyc.suggest import BETA, TOGETHER, Q, Tuning, asked_, best_of, dropped_, opened, running, tunings
from scyc.sweep import complete
from scyc.train.memory import out_of_memory, released
from scyc.train.precision import declared, repeating
from scyc.training import Control, Options


class Refinement:
    """The tunings of one pair (eps, delta); durable like a run."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[Run],  # one per seed; their peak does not count
        eps: float,
        delta: float,
        trials: int,
        dataset: Dataset,
        options: Options,
        control: Control,
    ) -> None:
        self.store, self.runs, self.eps, self.delta, self.trials = store, tuple(runs), eps, delta, trials
        self.dataset, self.options = dataset, options
        searched = {"name": "refine", "eps": eps, "delta": delta, "q": list(Q), "beta": list(BETA), "trials": trials}
        seeds = [run.seed for run in runs]
        self.config = identified(runs[0], dataset.digest()) | {"peak": searched, "seed": seeds}
        self.id = digest(self.config)
        self.study = Study(store, self.id, options, control, self.contents)
        self.width = options.width
        self.numbers: list[int] = []  # of the tunings in hand
        self.stack: Stack | None = None
        self.seen: list[Record] = []  # per ended cycle of the stack
        self.values: list[float] = []

    def run(self) -> list[Tuning]:
        """Every tuning, in the order of asking."""
        self.store.create(self.id, self.config)
        path = self.store.folder(self.id) / "optuna.sqlite3"
        with (
            Hold(self.store.root, [self.id]),
            repeating(self.options.deterministic),
            declared(self.runs[0].precision),
            opened(path, self.id) as found,
        ):
            if not complete(self.store, self.id):
                self.resume_(found)
                while self.ask_(found):
                    self.train_(found)
                self.record_(found)
            self.store.drop_stack(self.id)
            return tunings(found)

    def resume_(self, found: Any) -> None:
        """Where the checkpoint left it: with a stack in training, or with values not all told yet."""
        saved = self.study.load()
        dropped_(found)
        if not saved:
            return
        head, groups = saved[0], grouped(saved[1])
        self.numbers, self.width, self.seen, self.values = (head[n] for n in ("numbers", "width", "seen", "values"))
        if self.values:
            self.tell_(found)
            return
        self.stack = self.started(found, head["stack_head"]["engine"])
        stacks.restore_(self.stack, head["stack_head"], groups["stack"])

    def contents(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        assert self.stack is not None
        head = {
            "cycle": self.stack.cycle,
            "step": self.stack.step,
            "numbers": self.numbers,
            "width": self.width,
            "seen": self.seen,
            "values": self.values,
            "stack_head": stacks.head(self.stack),
        }
        return head, prefixed("stack", stacks.tensors(self.stack))

    def ask_(self, found: Any) -> list[int]:
        """The tunings to train next; new ones are asked where all before them are told."""
        asked_(found, self.trials)
        wide = max(1, self.width // len(self.runs)) if self.width else TOGETHER
        self.numbers = self.numbers if self.stack else running(found)[:wide]
        return self.numbers

    def started(self, found: Any, engine: str) -> Stack:
        """Rows: tuning x seed."""
        params = {trial.number: trial.params for trial in found.trials}
        rows = [(number, run) for number in self.numbers for run in self.runs]
        return stacks.start(
            [f"tuning {number}/{run.seed}" for number, run in rows],
            [replace(run, peak=self.peak(**params[number])) for number, run in rows],
            self.dataset,
            engine=engine,
            device=self.options.device,
        )

    def peak(self, q: float, beta: float) -> Part:
        return part(PEAK, {"name": "scyc", "eps": self.eps, "delta": self.delta, "q": q, "beta": beta})

    def train_(self, found: Any) -> None:
        """The tunings in hand to their end, or fewer of them where they do not fit into memory together."""
        if self.fit_(found):
            self.tell_(found)
            return
        released(self.options.device)  # only now: the error's traceback held the stack
        self.width = (len(self.numbers) + 1) // 2 * len(self.runs)
        self.study.say(f"too many runs for the memory: {self.width} at a time from here")

    def fit_(self, found: Any) -> bool:
        try:
            self.train_all_(self.stack or self.started(found, self.options.engine))
        except (RuntimeError, MemoryError, OSError) as error:
            if not out_of_memory(error) or len(self.numbers) == 1:
                raise
            self.stack, self.seen = None, []
            return False
        return True

    def train_all_(self, stack: Stack) -> None:
        self.stack = stack
        for listener in self.study.control.listeners:
            listener.began(stack)
        while len(self.seen) <= stack.cycle:
            cycle.train_(stack, self.study.pulse)
            self.seen = [*self.seen, {**standing(stack), "outcomes": validated(stack)}]
            if not stack.last_cycle and stack.engine.finite.any():
                cycle.advance_(stack)
        self.values = [self.value(k) for k in range(len(self.numbers))]
        self.study.save()

    def value(self, k: int) -> float:
        """Mean validation accuracy over seeds and pruned cycles; where a run had diverged, nothing was right."""
        rows = [outcome for record in self.seen[1:] for outcome in self.of(record, k)]
        right = sum(float(row.get("validation_accuracy", 0.0)) for row in rows)
        return right / ((self.runs[0].cycles - 1) * len(self.runs))

    def of(self, record: Record, k: int) -> list[Outcome]:
        """The k-th tuning's outcomes, one per seed."""
        outcomes: list[Outcome] = record["outcomes"][k * len(self.runs) : (k + 1) * len(self.runs)]
        return outcomes

    def tell_(self, found: Any) -> None:
        """Each with its cycles; those told before the process died are not told again."""
        for k, (number, value) in enumerate(zip(self.numbers, self.values, strict=True)):
            if number in running(found):
                found.set_user_attr(
                    f"cycles-{number}", [{**record, "outcomes": self.of(record, k)} for record in self.seen]
                )
                found.tell(number, value)
        self.stack, self.seen, self.values = None, [], []
        self.study.event("told", tunings=self.numbers, seconds=round(self.study.seconds, 3))
        told = [tuning for tuning in tunings(found) if not math.isnan(tuning.accuracy)]
        best = best_of(told)
        words = f"{len(told)}/{self.trials} tunings  best q {best.q:g}, beta {best.beta:g}"
        self.study.say(f"{words}: validation accuracy {100 * best.accuracy:.2f} %")

    def record_(self, found: Any) -> None:
        """The best tuning's cycles, up to the first in which a seed diverged."""
        best = best_of(tunings(found))
        peak = self.peak(best.q, best.beta).make()
        for number, row in enumerate(found.user_attrs[f"cycles-{best.number}"]):
            outcomes = row.pop("outcomes")
            record = {"cycle": number, **row, "peak": peak(number, self.runs[0].pruning.amount)}
            lost = [outcome["diverged"] for outcome in outcomes if "diverged" in outcome]
            each = [outcome.get("validation_accuracy") for outcome in outcomes]
            reached = {"diverged": max(lost)} if lost else {"validation_accuracy": mean(outcomes)}
            self.store.append(self.id, {**record, "each_validation_accuracy": each, **reached})
            if lost:
                return
