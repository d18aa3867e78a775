"""An experiment in a store: who is unfinished, what stacks, and the training of each stack with its checkpoints."""

import platform
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from scyc import cycle
from scyc import stack as stacks
from scyc.config import ConfigError, digest, plain
from scyc.data import Dataset, read
from scyc.experiment import Experiment
from scyc.run import Run, identified, identity, stack_key
from scyc.stack import Record, Stack
from scyc.store import checkpoint
from scyc.store.lock import Hold
from scyc.store.runs import Store
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


def datasets(experiment: Experiment, roots: tuple[Path, ...], *, trust: bool = False) -> dict[str, Dataset]:
    """Every data set the runs use, read once, by its configuration."""
    sources = {digest(plain(run.data.source)): run.data.source for run in experiment.all}
    return {key: read(source.name, source.fields, roots, trust=trust) for key, source in sources.items()}


def dataset_of(run: Run, found: Mapping[str, Dataset]) -> Dataset:
    return found[digest(plain(run.data.source))]


def identities(experiment: Experiment, found: Mapping[str, Dataset]) -> dict[str, tuple[str, ...]]:
    """The run ids of every schedule, in the order of the seeds."""
    digests = {key: dataset.digest() for key, dataset in found.items()}
    return {
        label: tuple(identity(run, digests[digest(plain(run.data.source))]) for run in runs)
        for label, runs in experiment.runs.items()
    }


def complete(store: Store, id: str) -> bool:
    """Is this run recorded to its end: all its cycles, or the one in which it diverged?"""
    records = store.records(id)
    return bool(records) and (len(records) == store.config(id).get("cycles", Run.cycles) or "diverged" in records[-1])


def environment(device: torch.device) -> dict[str, str]:
    """What can change the bits of a result besides its configuration."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"torch": torch.__version__, "device": f"{device.type} {name}", "threads": str(torch.get_num_threads())}


@dataclass(frozen=True)
class Job:
    """Runs to train as one stack, and the checkpoint they go on from (empty: from the start)."""

    runs: Mapping[str, Run]
    source: str = ""

    def halves(self, source: str) -> list["Job"]:
        ids = list(self.runs)
        middle = (len(ids) + 1) // 2
        return [Job({id: self.runs[id] for id in part}, source) for part in (ids[:middle], ids[middle:])]


def register(
    store: Store, experiment: Experiment, ids: Mapping[str, tuple[str, ...]], found: Mapping[str, Dataset]
) -> None:
    """Make the runs and the manifest that finds them; an earlier manifest of this name stays as NAME@SETTINGS."""
    for label, runs in experiment.runs.items():
        for id, run in zip(ids[label], runs, strict=True):
            store.create(id, identified(run, dataset_of(run, found).digest()))
    manifest = {
        "doc": experiment.doc,
        "published": experiment.published,
        "settings": experiment.settings,
        "schedules": [[label, list(names)] for label, names in ids.items()],  # a list: their order is the user's
    }
    if experiment.name in store.experiments():
        former = store.manifest(experiment.name)
        if former["settings"] != experiment.settings:
            store.write_manifest(f"{experiment.name}@{former['settings']}", former)
        else:
            known = dict(former["schedules"])
            manifest["schedules"] = [
                [label, list(dict.fromkeys([*known.get(label, ()), *names]))] for label, names in ids.items()
            ]
    store.write_manifest(experiment.name, manifest)


def unfinished(store: Store, experiment: Experiment, ids: Mapping[str, tuple[str, ...]]) -> dict[str, Run]:
    """What is left to train: everything that is not recorded to its end."""
    pairs = {id: run for label in ids for id, run in zip(ids[label], experiment.runs[label], strict=True)}
    return {id: run for id, run in pairs.items() if not complete(store, id)}


def jobs(store: Store, wanted: Mapping[str, Run], width: int = 0) -> list[Job]:
    """Stacks to train: those with checkpoints first, as they were; the others grouped by what stacks."""
    left = dict(wanted)
    made = []
    for name, head in sorted(heads(store), key=lambda item: (-item[1]["cycle"], -item[1]["step"])):
        runs = {id: left.pop(id) for id in head["members"] if id in left}
        if runs:
            made.append(Job(runs, name))
    groups: dict[str, dict[str, Run]] = {}
    for id, run in left.items():
        groups.setdefault(stack_key(run), {})[id] = run
    for group in groups.values():
        names, size = list(group), width or len(group)
        made += [Job({id: group[id] for id in names[i : i + size]}) for i in range(0, len(names), size)]
    return made


def heads(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in store.stacks():
        yield name, checkpoint.head(store.stack_folder(name), stack=name)


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
