"""Training the jobs of a store: checkpoints, records, signals, and what to do where memory ends."""

import platform
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from scyc import cycle
from scyc import stack as stacks
from scyc.config import ConfigError, digest
from scyc.data import Dataset
from scyc.footprint import room
from scyc.revision import revision
from scyc.run import Run
from scyc.stack import Record, Stack
from scyc.store import checkpoint
from scyc.store.lock import Hold
from scyc.store.runs import Store
from scyc.sweep import Job, Saved, complete, dataset_of, diverged, jobs, saved
from scyc.train.memory import out_of_memory as out_of_memory
from scyc.train.memory import released
from scyc.train.precision import declared, repeating
from scyc.train.single import abreast

KEEP = ("last", "all", "none")


@dataclass(frozen=True)
class Options:
    """How to train, which is no part of what is trained."""

    device: torch.device = torch.device("cpu")
    engine: str = "auto"
    width: int = 0  # runs in a stack at most; 0: all that stack
    checkpoint_every: float = 300.0  # seconds between checkpoints within a cycle
    keep: str = "last"  # whose weights stay: of the last cycle, of all, or none
    accept_environment: bool = False  # go on where torch or the device is another
    deterministic: bool = False  # the same bits every time, on a GPU too


class Interrupted(Exception):
    """The stack was saved after the step in hand."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"interrupted by signal {signal}")
        self.signal = signal


class Listener(Protocol):
    """Who wants to see progress."""

    def began(self, stack: Stack) -> None: ...
    def stepped(self, stack: Stack) -> None: ...
    def ended(self, stack: Stack, records: Mapping[str, Record]) -> None: ...
    def said(self, line: str) -> None: ...


class Measure(Listener, Protocol):
    """A listener that writes beside the records of every run; no run is done before that is."""

    def complete(self, id: str, run: Run) -> bool: ...
    def covers(self, id: str, run: Run, cycle: int, step: int) -> bool: ...


@dataclass
class Control:
    """What may stop a training: set by a signal handler, looked at after every step."""

    signal: int = 0
    listeners: list[Listener] = field(default_factory=list)


def environment(options: Options) -> dict[str, str]:
    """What can change the bits of a result besides its configuration."""
    device = options.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "torch": torch.__version__,
        "device": f"{device.type} {name}",
        "threads": str(torch.get_num_threads()),
        "deterministic": "on" if options.deterministic else "off",
    }


class Training:
    """Trains the jobs of one store; owns the queue, the clock of checkpoints and the words said."""

    def __init__(
        self,
        store: Store,
        found: Mapping[str, Dataset],
        options: Options,
        control: Control,
        measure: Measure | None = None,
    ) -> None:
        self.store, self.found, self.options, self.control, self.measure = store, found, options, control, measure
        self.saved = time.monotonic()
        self.too_large: list[str] = []

    def train(self, runs: Mapping[str, Run]) -> None:
        """Every run to its end; those that reached it before are left alone. Interrupted leaves a checkpoint."""
        self.store.clean()  # a killed process may have left half of a checkpoint, which can be large
        wanted = self.open(runs)
        if wanted:  # a finished experiment needs no owner, and no folder that can be written to
            with Hold(self.store.root, wanted), repeating(self.options.deterministic):
                self.work(runs)
        self.tidy()

    def open(self, runs: Mapping[str, Run]) -> dict[str, Run]:
        return {id: run for id, run in runs.items() if not self.done(id, run)}

    def done(self, id: str, run: Run) -> bool:
        return complete(self.store, id) and (self.measure is None or self.measure.complete(id, run))

    @property
    def listeners(self) -> list[Listener]:
        return [*([self.measure] if self.measure else []), *self.control.listeners]

    def work(self, runs: Mapping[str, Run]) -> None:
        """One job after the other; what another process ended before the runs were held is not begun again."""
        found = self.usable(saved(self.store), runs)
        for one in found:
            if one.fault:
                self.say(one.fault)
        frozen = {id: run for id, run in runs.items() if diverged(self.store, id)}
        queue = deque(jobs(found, self.open(runs), self.options.width, frozen))
        while queue:
            if self.control.signal:  # between two stacks there is nothing to save
                raise Interrupted(self.control.signal)
            queue.extendleft(reversed(self.attempted(queue.popleft())))

    def usable(self, found: list[Saved], runs: Mapping[str, Run]) -> list[Saved]:
        """Without checkpoints that are past what is still to be measured: those stacks begin again."""
        past = [one for one in found if not one.fault and not self.covers(one.head, runs)]
        for one in past:
            if runs.keys() >= set(one.head["members"]):
                self.store.drop_stack(one.stack)
        return [one for one in found if one not in past]

    def covers(self, head: Mapping[str, Any], runs: Mapping[str, Run]) -> bool:
        measure, known = self.measure, [id for id in head["members"] if id in runs]
        return measure is None or all(measure.covers(id, runs[id], head["cycle"], head["step"]) for id in known)

    def attempted(self, job: Job) -> list[Job]:
        try:
            return self.attempt(job)
        except (RuntimeError, MemoryError, OSError) as error:
            if not out_of_memory(error):
                raise
        released(self.options.device)  # only now: the error's traceback held the stack
        return self.smaller(job)

    def attempt(self, job: Job) -> list[Job]:
        """Train a job; the jobs it turns into instead where its network has to be trained one run at a time."""
        if parts := self.parts(job):
            return parts
        together = len(job.runs) > 1 and not job.source and not job.why_single
        if together and self.options.engine == "single":
            return job.parts(len(job.runs))
        stack = self.started(job)
        if together and stack.engine.name == "single":
            return self.apart(job, stack.why_single)
        stack.watched = self.measure is not None
        began = self.saved = time.monotonic()
        self.announce(stack, "resumed" if job.source else "started")
        with declared(stack.run.precision):
            for records in cycle.cycles(stack, self.pulse):
                self.save(stack)  # before the journals: what they then say can always be said again
                self.record(stack, records)
        for id in stack.ids:
            self.store.event(id, "finished", seconds=round(time.monotonic() - began, 3), runs=len(stack.ids))
        self.store.drop_stack(stack.name)
        return []

    def apart(self, job: Job, why: str) -> list[Job]:
        """One by one: as many runs side by side as the processor has cores."""
        size = min(abreast(self.options.device), len(job.runs))
        self.say(f"{f'{size} runs side by side' if size > 1 else 'one run at a time'}: {why}")
        return job.parts(-(-len(job.runs) // size), why_single=why)

    def parts(self, job: Job) -> list[Job]:
        """A new job of more runs than the memory has room for, in even parts; none where it fits."""
        run = next(iter(job.runs.values()))
        fitting = room(run, dataset_of(run, self.found), self.options.device)
        if job.source or self.options.width or not 0 < fitting < len(job.runs):
            return []
        parts = job.parts(-(-len(job.runs) // fitting))
        self.say(f"{len(job.runs)} runs in {len(parts)} stacks: the memory has room for {fitting} at a time")
        return parts

    def announce(self, stack: Stack, kind: str) -> None:
        """Note in every run where and with what its training begins or goes on."""
        facts = {"cycle": stack.cycle, "step": stack.step, "engine": stack.engine.name, "runs": len(stack.ids)}
        facts |= {"why_single": stack.why_single} if stack.why_single else {}
        code = revision()
        for id in stack.ids:
            self.store.event(id, kind, environment=environment(self.options), code=code, **facts)
        for listener in self.listeners:
            listener.began(stack)

    def started(self, job: Job) -> Stack:
        """The job's stack before its first step, or where its checkpoint left it."""
        run = next(iter(job.runs.values()))
        own = digest(list(job.runs))
        head: dict[str, Any] = {}
        if job.source or checkpoint.exists(self.store.stack_folder(own)):  # one that is damaged says so
            found = checkpoint.load(self.store.stack_folder(job.source or own), stack=job.source or own)
            head = found.head
            for words in found.rejected:
                self.note(job, "damaged checkpoint refused, going on from the one before", words)
            for changed in self.check_environment(head["environment"], environment(self.options)):
                self.note(job, "environment changed", changed)
            if self.options.engine not in ("auto", head["engine"]):
                self.say(f"its checkpoint was made by the {head['engine']} engine, which goes on with it")
        stack = stacks.start(
            list(job.runs),
            list(job.runs.values()),
            dataset_of(run, self.found),
            engine=head.get("engine", "single" if job.why_single else self.options.engine),
            device=self.options.device,
        )
        stack.why_single = stack.why_single or job.why_single
        if head:
            stacks.restore_(stack, head, found.tensors)
            self.repair(stack)
        return stack

    def note(self, job: Job, kind: str, words: str) -> None:
        self.say(f"{kind}: {words}")
        for id in job.runs:
            self.store.event(id, kind, what=words)

    def repair(self, stack: Stack) -> None:
        """Records that a journal lost, as where it was cut at the end of a line, are in the checkpoint too."""
        for id, history in zip(stack.ids, stack.history, strict=True):
            recorded = len(self.store.records(id))
            lost = [record for record in history[recorded:] if record["cycle"] < stack.cycle]
            for record in lost:
                self.store.append(id, record)
            if lost:
                self.store.event(id, "repair", file="records.jsonl", cycles=[record["cycle"] for record in lost])

    def check_environment(self, then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
        """What is another environment than the checkpoint's; refused unless asked for."""
        changed = [f"{key} {then[key]} is now {now.get(key)}" for key in then if then[key] != now.get(key)]
        if changed and not self.options.accept_environment:
            raise ConfigError(
                f"this checkpoint was made elsewhere: {', '.join(changed)}; results would mix two environments; "
                "go on all the same with --accept-environment"
            )
        return changed

    def pulse(self, stack: Stack) -> None:
        for listener in self.listeners:
            listener.stepped(stack)
        if self.control.signal:
            self.save(stack)
            for id in stack.ids:
                self.store.event(id, "interrupted", cycle=stack.cycle, step=stack.step, signal=self.control.signal)
            raise Interrupted(self.control.signal)
        if time.monotonic() - self.saved >= self.options.checkpoint_every:
            self.save(stack)

    def save(self, stack: Stack) -> None:
        head = {**stacks.head(stack), "environment": environment(self.options)}
        checkpoint.save(self.store.stack_folder(stack.name), head, stacks.tensors(stack))
        self.saved = time.monotonic()

    def record(self, stack: Stack, records: Mapping[str, Record]) -> None:
        """Weights first: a run whose last record is there has everything it should have."""
        for k, id in enumerate(stack.ids):
            if id in records and (
                self.options.keep == "all" or (self.options.keep == "last" and over(stack, records[id]))
            ):
                self.store.save_state(id, state_name(stack.cycle), cycle.run_state(stack, k))
        for id, record in records.items():
            self.store.append(id, record)
        for listener in self.listeners:
            listener.ended(stack, records)

    def smaller(self, job: Job) -> list[Job]:
        """A job that does not fit becomes two, each from the last checkpoint; a single run that does not is noted."""
        own = digest(list(job.runs))
        source = own if checkpoint.exists(self.store.stack_folder(own)) else job.source
        for id in job.runs:
            self.store.event(id, "out of memory", runs=len(job.runs))
        if len(job.runs) == 1:
            self.too_large += job.runs
            self.say(f"run {self.too_large[-1]} does not fit into memory even alone; the other runs go on")
            return []
        self.say(f"{len(job.runs)} runs do not fit into memory together: split in two, batch size unchanged")
        return job.parts(2, source)

    def tidy(self) -> None:
        """Drop checkpoints whose members are all recorded to the end."""
        present = set(self.store.ids())
        for one in saved(self.store):
            if not one.fault and all(id not in present or complete(self.store, id) for id in one.head["members"]):
                with suppress(OSError):  # a folder that cannot be written to keeps them, and nobody minds
                    self.store.drop_stack(one.stack)

    def say(self, line: str) -> None:
        for listener in self.listeners:
            listener.said(line)


def over(stack: Stack, record: Record) -> bool:
    return stack.last_cycle or "diverged" in record


def state_name(cycle: int) -> str:
    return f"cycle-{cycle:03}"
