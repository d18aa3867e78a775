"""Training the jobs of a store: checkpoints, records, signals, and what to do where memory ends."""

import platform
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from scyc import cycle
from scyc import stack as stacks
from scyc.config import ConfigError, digest
from scyc.data import Dataset
from scyc.run import Run
from scyc.stack import Record, Stack
from scyc.store import checkpoint
from scyc.store.lock import Hold
from scyc.store.runs import Store
from scyc.sweep import Job, complete, dataset_of, heads, jobs
from scyc.train.precision import declared

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


@dataclass
class Control:
    """What may stop a training: set by a signal handler, looked at after every step."""

    signal: int = 0
    listeners: list[Listener] = field(default_factory=list)


def environment(device: torch.device) -> dict[str, str]:
    """What can change the bits of a result besides its configuration."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"torch": torch.__version__, "device": f"{device.type} {name}", "threads": str(torch.get_num_threads())}


class Training:
    """Trains the jobs of one store; owns the queue, the clock of checkpoints and the words said."""

    def __init__(self, store: Store, found: Mapping[str, Dataset], options: Options, control: Control) -> None:
        self.store, self.found, self.options, self.control = store, found, options, control
        self.saved = time.monotonic()
        self.too_large: list[str] = []

    def train(self, wanted: Mapping[str, Run]) -> None:
        """Every wanted run to its end. Interrupted leaves a checkpoint of the stack in hand."""
        with Hold(self.store.root, wanted):
            queue = deque(jobs(self.store, wanted, self.options.width))
            while queue:
                job = queue.popleft()
                try:
                    queue.extendleft(reversed(self.attempt(job)))
                except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                    if not out_of_memory(error):
                        raise
                    queue.extendleft(reversed(self.smaller(job)))
            self.clear()

    def attempt(self, job: Job) -> list[Job]:
        """Train a job; the jobs it turns into instead where its network has to be trained one run at a time."""
        stack = self.started(job)
        if stack.engine.name == "single" and len(job.runs) > 1 and not job.source:
            self.say(f"one run at a time: {stack.why_single or 'as asked'}")
            return [Job({id: run}) for id, run in job.runs.items()]
        began = self.saved = time.monotonic()
        facts = {"cycle": stack.cycle, "step": stack.step, "engine": stack.engine.name, "runs": len(stack.ids)}
        here = environment(self.options.device)
        for id in stack.ids:
            why = {"why_single": stack.why_single} if stack.why_single else {}
            self.store.event(id, "resumed" if job.source else "started", environment=here, **facts, **why)
        for listener in self.control.listeners:
            listener.began(stack)
        with declared(stack.run.precision):
            for records in cycle.cycles(stack, self.pulse):
                self.save(stack)  # before the journals: what they then say can always be said again
                self.record(stack, records)
        for id in stack.ids:
            self.store.event(id, "finished", seconds=round(time.monotonic() - began, 3), runs=len(stack.ids))
        self.store.drop_stack(stack.name)
        return []

    def started(self, job: Job) -> Stack:
        here = environment(self.options.device)
        run = next(iter(job.runs.values()))
        head: dict[str, Any] = {}
        if job.source:
            found = checkpoint.load(self.store.stack_folder(job.source), stack=job.source)
            head = found.head
            for words in found.rejected:
                self.say(f"damaged checkpoint refused, going on from the one before: {words}")
            self.check_environment(head["environment"], here)
        engine = head.get("engine", self.options.engine)
        stack = stacks.start(
            list(job.runs),
            list(job.runs.values()),
            dataset_of(run, self.found),
            engine=engine,
            device=self.options.device,
        )
        if head:
            stacks.restore_(stack, head, found.tensors)
        return stack

    def check_environment(self, then: Mapping[str, str], now: Mapping[str, str]) -> None:
        changed = [f"{key} {then[key]} is now {now[key]}" for key in then if then[key] != now.get(key)]
        if changed and not self.options.accept_environment:
            raise ConfigError(
                f"this checkpoint was made elsewhere: {', '.join(changed)}; results would mix two environments; "
                "go on all the same with --accept-environment"
            )

    def pulse(self, stack: Stack) -> None:
        for listener in self.control.listeners:
            listener.stepped(stack)
        if self.control.signal:
            self.save(stack)
            for id in stack.ids:
                self.store.event(id, "interrupted", cycle=stack.cycle, step=stack.step, signal=self.control.signal)
            raise Interrupted(self.control.signal)
        if time.monotonic() - self.saved >= self.options.checkpoint_every:
            self.save(stack)

    def save(self, stack: Stack) -> None:
        head = {**stacks.head(stack), "environment": environment(self.options.device)}
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
        for listener in self.control.listeners:
            listener.ended(stack, records)

    def smaller(self, job: Job) -> list[Job]:
        """A job that does not fit becomes two, each from the last checkpoint; a single run that does not is noted."""
        own = digest(list(job.runs))
        source = own if checkpoint.exists(self.store.stack_folder(own)) else job.source
        if len(job.runs) == 1:
            id = next(iter(job.runs))
            self.store.event(id, "out of memory", runs=1)
            self.too_large.append(id)
            self.say(f"run {id} does not fit into memory even alone; the other runs go on")
            return []
        for id in job.runs:
            self.store.event(id, "out of memory", runs=len(job.runs))
        self.say(f"{len(job.runs)} runs do not fit into memory together: split in two, batch size unchanged")
        return job.halves(source)

    def clear(self) -> None:
        """Drop checkpoints whose members are all recorded to the end."""
        for name, head in heads(self.store):
            present = set(self.store.ids())
            if all(id not in present or complete(self.store, id) for id in head["members"]):
                self.store.drop_stack(name)

    def say(self, line: str) -> None:
        for listener in self.control.listeners:
            listener.said(line)


def over(stack: Stack, record: Record) -> bool:
    return stack.last_cycle or "diverged" in record


def state_name(cycle: int) -> str:
    return f"cycle-{cycle:03}"


def out_of_memory(error: Exception) -> bool:
    words = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(w in str(error).lower() for w in words)
