"""A store read in full: is everything in it what was written?"""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scyc.config import digest
from scyc.doctor.finding import Finding
from scyc.store import checkpoint, files, journal, lock
from scyc.store.runs import Store
from scyc.sweep import complete

WEIGHTS = re.compile(r"cycle-(\d{3,})\.safetensors")
NAMED = 3  # ids that one line names


def stored(store: Store) -> Iterator[Finding]:
    """What is damaged, what is left over, and who holds what; a line that counts stands at the end."""
    found = {"run": store.ids(), "checkpoint": store.stacks(), "experiment": store.experiments()}
    checks = {"run": run, "checkpoint": stack, "experiment": experiment}
    for kind, names in found.items():
        for name in names:
            yield from attempted(lambda: checks[kind](store, name))  # noqa: B023
    yield from left_over(store)
    for who, ids in lock.holders(store.root):
        yield Finding("note", f"{who} holds {counted(ids, 'run')}: {some(ids)}")
    yield Finding("ok", f"{store.root}: looked at " + ", ".join(counted(names, kind) for kind, names in found.items()))


def attempted(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds; what the store refuses to read is said in its own words, which name file and remedy."""
    try:
        yield from check()
    except FileNotFoundError:  # removed while we looked: what should be there and is not, the store says itself
        return
    except PermissionError as error:
        yield Finding("wrong", f"{error.filename}: cannot be read; look as its owner, or have it made readable")
    except (ValueError, OSError) as error:
        yield Finding("damaged", str(error))


def run(store: Store, id: str) -> Iterator[Finding]:
    folder = store.folder(id)
    yield from attempted(lambda: configuration(store, id))
    for path in sorted(folder.glob("*.jsonl")):
        yield from attempted(lambda: rows(store, id, path))  # noqa: B023
    for path in sorted(folder.iterdir()):
        if found := WEIGHTS.fullmatch(path.name):
            yield from attempted(lambda: weights(store, id, path, int(found[1])))  # noqa: B023


def configuration(store: Store, id: str) -> Iterator[Finding]:
    """A run's id is the digest of its configuration."""
    if (named := digest(store.config(id))) != id:
        path = store.folder(id) / "config.json"
        yield Finding("damaged", f"{path}: holds the configuration of run {named}; restore it or remove the run")


def rows(store: Store, id: str, path: Path) -> Iterator[Finding]:
    if journal.read(path)[1]:
        yield Finding("note", f"{path}: its last line was never finished; it is cut off when the run goes on")
    elif path.stem in ("records", "events"):
        getattr(store, path.stem)(id)
    else:
        store.beside(id, path.stem)


def weights(store: Store, id: str, path: Path, cycle: int) -> Iterator[Finding]:
    """Weights are what the record of their cycle says."""
    records = store.records(id, start="cycle")
    if cycle >= len(records):
        yield Finding("note", f"{path}: its cycle is not recorded yet; it is written again when the run goes on")
    elif (expected := records[cycle].get("state")) and (found := sha256(path)) != expected:
        fix = "restore it from a copy, or remove the run to compute it again"
        yield Finding("damaged", f"{path}: sha256 is {found[:12]}, its record says {expected[:12]}; {fix}")


def sha256(path: Path) -> str:
    found = hashlib.sha256()
    with files.opened(path) as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def stack(store: Store, name: str) -> Iterator[Finding]:
    """Both generations; where one is damaged, whether the other takes over."""
    whole: list[dict[str, Any]] = []
    refused: list[str] = []
    for path in reversed(checkpoint.generations(store.stack_folder(name))):
        try:
            whole.append(checkpoint.verified(path, name)[1])
        except FileNotFoundError:  # its owner has gone on meanwhile
            return
        except files.Integrity as error:
            refused.append(str(error))
    for words in refused:
        yield Finding("damaged", words + ("; the other generation serves" if whole else ""))
    if not whole:
        fix = f"remove {store.stack_folder(name)} to start again from what is recorded"
        yield Finding("damaged", f"{store.stack_folder(name)}: no usable checkpoint; {fix}")
        return
    present = set(store.ids())
    if all(id not in present or complete(store, id) for id in whole[0]["members"]):
        yield Finding("note", f"{store.stack_folder(name)}: all its runs are recorded; the next `scyc run` removes it")


def experiment(store: Store, name: str) -> Iterator[Finding]:
    present = set(store.ids())
    ids = [id for _, group in store.manifest(name)["schedules"] for id in group]
    if missing := [id for id in ids if id not in present]:
        fix = "train them again with `scyc run`, or forget it with `scyc rm`"
        yield Finding(
            "note", f"experiment {name}: {len(missing)} of its {len(ids)} runs are gone: {some(missing)}; {fix}"
        )


def left_over(store: Store) -> Iterator[Finding]:
    """What killed processes left half done."""
    paths = [path for folder in store.folders() for path in folder.iterdir() if path.name.endswith(".tmp")]
    found = [path for path in paths if files.left_over(path.name)]
    if found:
        size = sum(file.stat().st_size for path in found for file in (path, *path.rglob("*")) if file.is_file())
        what = f"{counted(found, 'leftover')} of killed processes, {size / 1e6:.1f} MB"
        yield Finding("note", f"{store.root}: {what}; the next `scyc run` there removes them")


def counted(things: list[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def some(ids: list[str]) -> str:
    return ", ".join(ids[:NAMED]) + (", ..." if len(ids) > NAMED else "")
