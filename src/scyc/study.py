"""A study: a run-like folder in the store for a procedure that trains several stacks, and goes on where it was."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from torch import Tensor

from scyc.revision import revision
from scyc.stack import Stack
from scyc.store import checkpoint
from scyc.store.runs import Store
from scyc.training import Control, Interrupted, Options, Training, environment

Contents = Callable[[], tuple[dict[str, Any], dict[str, Tensor]]]  # all that a checkpoint must hold: head, tensors


class Study:
    """Checkpoints of one procedure: by the clock, on signals, and whenever it says so; and the seconds it took."""

    def __init__(self, store: Store, id: str, options: Options, control: Control, contents: Contents) -> None:
        self.store, self.id, self.options, self.control, self.contents = store, id, options, control, contents
        self.before, self.began = 0.0, time.monotonic()  # seconds of earlier processes, and when this one began
        self.saved = self.began

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """What the last checkpoint holds; None where there is none."""
        folder, here = self.store.stack_folder(self.id), environment(self.options)
        self.began = self.saved = time.monotonic()
        if not checkpoint.exists(folder):
            self.event("started", environment=here, code=revision())
            return None
        found = checkpoint.load(folder, stack=self.id)
        for words in found.rejected:
            self.note("damaged checkpoint refused, going on from the one before", words)
        trainer = Training(self.store, {}, self.options, self.control)
        for changed in trainer.check_environment(found.head["environment"], here):
            self.note("environment changed", changed)
        self.before = found.head["seconds"]
        self.event("resumed", environment=here, code=revision(), cycle=found.head["cycle"], step=found.head["step"])
        return found.head, found.tensors

    def save(self) -> None:
        """A head like that of any stack, so that nobody takes the checkpoint of a study that goes on for a stray."""
        head, tensors = self.contents()
        own = {"stack": self.id, "members": [self.id], "seconds": round(self.seconds, 3)}
        folder = self.store.stack_folder(self.id)
        checkpoint.save(folder, {**head, **own, "environment": environment(self.options)}, tensors)
        self.saved = time.monotonic()

    def pulse(self, stack: Stack) -> None:
        """After every step: progress, signals, and a checkpoint when the time has come."""
        for listener in self.control.listeners:
            listener.stepped(stack)
        if self.control.signal:
            self.save()
            self.interrupted(stack.cycle, stack.step)
        if time.monotonic() - self.saved >= self.options.checkpoint_every:
            self.save()

    def interrupted(self, cycle: int, step: int) -> NoReturn:
        self.event("interrupted", cycle=cycle, step=step, signal=self.control.signal)
        raise Interrupted(self.control.signal)

    def note(self, kind: str, words: str) -> None:
        self.say(f"{kind}: {words}")
        self.event(kind, what=words)

    def event(self, kind: str, **facts: Any) -> None:
        self.store.event(self.id, kind, **facts)

    def say(self, line: str) -> None:
        for listener in self.control.listeners:
            listener.said(line)


def grouped(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """`a/b/c` as ["a"]["b/c"]."""
    groups: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        group, _, name = path.partition("/")
        groups.setdefault(group, {})[name] = tensor
    return groups


def prefixed(group: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{group}/{name}": tensor for name, tensor in tensors.items()}


def write_manifest(store: Store, name: str, manifest: Mapping[str, Any]) -> None:
    """What finds studies by name; an earlier manifest of this name and of other settings stays as NAME@SETTINGS."""
    former = store.manifest(name) if name in store.experiments() else {}
    if former and former["settings"] != manifest["settings"]:
        store.write_manifest(f"{name}@{former['settings']}", former)
    if former != manifest:  # a finished study can be asked for again in a folder that is read-only
        store.write_manifest(name, manifest)
