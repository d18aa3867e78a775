"""The store: one folder per run under a root that can be moved, and the questions one asks of many runs."""

import difflib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scyc.registry import nearest
from scyc.store import files, journal
from scyc.store.files import Integrity
from scyc.store.journal import canonical
from scyc.store.lock import Hold
from scyc.store.names import ID, NAME, named, run_id

if TYPE_CHECKING:  # torch takes seconds to import, and most questions need no tensors
    from torch import Tensor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Store:
    """Runs by id, experiments by name, checkpoints by stack; nothing in it knows where the root lies."""

    root: Path = Path("runs")

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))

    def folder(self, id: str) -> Path:
        """Where a run lies; a path is built from nothing but a valid id, and never leads out of the root."""
        return unlinked(self.root / run_id(id))

    def known(self, id: str) -> Path:
        path = self.folder(id)
        if not path.is_dir():
            raise self.unknown(id)
        return path

    def unknown(self, id: str) -> ValueError:
        """Thousands of ids would be no help, the nearest few are."""
        return nearest("run", id, difflib.get_close_matches(id, self.ids(), n=5, cutoff=0))

    def create(self, id: str, config: Mapping[str, Any]) -> None:
        """Make a run; one that exists must have the same configuration."""
        path = self.folder(id)
        if not path.is_dir():
            files.folder_(self.root)
            files.whole_folder_(path, "config.json", journal.seal({"config": config, "run": id}) + b"\n")
        if canonical(self.config(id)) != canonical(config):
            raise Integrity(f"{path}/config.json: holds another configuration than this run's; remove the run")

    def config(self, id: str) -> dict[str, Any]:
        return self._document(self.known(id) / "config.json", "run", id, "config")

    def records(self, id: str, start: str = "") -> list[dict[str, Any]]:
        """What was appended, in the order of the cycles; `start="cycle"` leaves out what is long, such as curves."""
        rows = self._rows(id, start)
        for row in rows:
            del row["run"]
        return rows

    def last(self, id: str) -> dict[str, Any]:
        """The last record alone, empty where there is none: of thousands of runs it is read in no time."""
        path = self.folder(id) / "records.jsonl"
        try:
            row = journal.last(path)
        except FileNotFoundError:
            self.known(id)
            return {}
        if row and (row.get("run") != id or type(row.get("cycle")) is not int):
            self._rows(id)  # says what is wrong
        return {name: row[name] for name in row if name != "run"}

    def append(self, id: str, record: Mapping[str, Any]) -> None:
        """Add the next cycle's record durably; one that is there already must be equal."""
        cycle, rows, row = record.get("cycle"), self._rows(id), signed(record, {"run": id})
        path = self.folder(id) / "records.jsonl"
        if type(cycle) is not int or not 0 <= cycle <= len(rows):
            raise ValueError(f"{path}: record of cycle {cycle!r} is out of order; the next one is {len(rows)}")
        if cycle == len(rows):
            self._append(id, path, row)
        elif canonical(rows[cycle]) != canonical(row):
            names = sorted({name for name, _ in fields(row) ^ fields(rows[cycle])})
            raise Integrity(
                f"{path}: cycle {cycle} holds other values of {', '.join(names)}; remove the run to redo it"
            )

    def beside(self, id: str, name: str) -> list[dict[str, Any]]:
        """Rows of a further journal of a run, without what the store adds."""
        return [
            {field: row[field] for field in row if field != "run"} for row in self._journal(self._beside(id, name), id)
        ]

    def append_beside(self, id: str, name: str, row: Mapping[str, Any], key: Sequence[str]) -> None:
        """Add a row to it durably, once: one with the same values of `key` that is there already must be equal."""
        path, place = self._beside(id, name), {field: row[field] for field in key}
        same = [other for other in self.beside(id, name) if {field: other.get(field) for field in key} == place]
        if not same:
            self._append(id, path, signed(row, {"run": id}))
        elif canonical(same[0]) != canonical(row):
            names = sorted({field for field, _ in fields(row) ^ fields(same[0])})
            where = ", ".join(f"{field} {value}" for field, value in place.items())
            raise Integrity(f"{path}: {where} holds other values of {', '.join(names)}; remove the file to redo it")

    def event(self, id: str, kind: str, **facts: Any) -> None:
        """Note what the configuration does not determine; the order of lines counts, the clock is only shown."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append(id, self.known(id) / "events.jsonl", signed(facts, {"kind": kind, "run": id, "time": time}))

    def events(self, id: str) -> list[dict[str, Any]]:
        path = self.known(id) / "events.jsonl"
        rows = self._journal(path, id)
        if not all("kind" in row for row in rows):
            raise Integrity(f"{path}: expected events, found other lines; put the right file here or remove the run")
        return rows

    def save_state(self, id: str, name: str, tensors: Mapping[str, "Tensor"]) -> str:
        from scyc.store import weights

        return weights.save_tensors(self._state(id, name), tensors, {"run": id})

    def load_state(self, id: str, name: str, sha256: str) -> dict[str, "Tensor"]:
        from scyc.store import weights

        path = self._state(id, name)
        if not path.exists():
            raise Integrity(f"{path}: is missing; restore it from a copy or remove the run to compute it again")
        return weights.load_tensors(path, sha256)

    def states(self, id: str) -> list[str]:
        """The names of the weights that a run keeps."""
        return sorted(path.stem for path in self.known(id).glob("*.safetensors") if NAME.fullmatch(path.stem))

    def ids(self) -> list[str]:
        if not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if ID.fullmatch(entry.name) and entry.is_dir())

    def find(self, prefix: str) -> str:
        """The one run whose id starts so."""
        ids = self.ids()
        found = [id for id in ids if id.startswith(prefix)]
        if len(found) > 1:
            raise ValueError(f"run {prefix!r} is ambiguous: {', '.join(found[:5])}; type more digits")
        if not found:
            raise self.unknown(prefix)
        return found[0]

    def remove(self, id: str) -> None:
        """Delete a run that nobody works on."""
        path = self.known(id)
        with Hold(self.root, [id]):
            files.remove_folder_(path)

    def rows(self, ids: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """All records of many runs, each with its `run`."""
        return [row for id in (self.ids() if ids is None else ids) for row in self._rows(id)]

    def write_manifest(self, name: str, manifest: Mapping[str, Any]) -> None:
        path = self._manifest(name)
        files.folder_(path.parent)
        files.clean_(self.root)
        files.write(path, journal.seal({"experiment": name, "manifest": manifest}) + b"\n")

    def manifest(self, name: str) -> dict[str, Any]:
        path = self._manifest(name)
        if not path.exists():
            raise nearest("experiment", name, self.experiments())
        return self._document(path, "experiment", name, "manifest")

    def experiments(self) -> list[str]:
        return sorted(path.stem for path in (self.root / ".experiments").glob("*.json") if NAME.fullmatch(path.stem))

    def remove_manifest(self, name: str) -> None:
        """Forget an experiment; its runs stay."""
        self.manifest(name)  # unknown names say the nearest known one
        os.unlink(self._manifest(name))

    def stack_folder(self, stack: str) -> Path:
        return unlinked(self.root / ".stacks" / named("stack", stack))

    def stacks(self) -> list[str]:
        """Stacks that have checkpoints."""
        folders = (self.root / ".stacks").glob("*")
        return sorted(path.name for path in folders if NAME.fullmatch(path.name) and any(path.glob("*.ckpt")))

    def drop_stack(self, stack: str) -> None:
        files.remove_folder_(self.stack_folder(stack))

    def clean(self) -> list[str]:
        """Remove what killed processes left half done anywhere in the store; the paths removed."""
        removed: list[str] = []
        for folder in self.folders():
            with suppress(OSError):  # another process may drop it now, or it cannot be read
                removed += [str(folder / name) for name in files.clean_(folder)]
        return removed

    def folders(self) -> list[Path]:
        """Every folder that the store writes into, in the order in which to look at them."""
        hidden = [self.root / name for name in (".experiments", ".stacks", ".holders")]
        stacks = (path for path in (self.root / ".stacks").glob("*") if NAME.fullmatch(path.name))
        found = [self.root, *hidden, *(self.root / id for id in self.ids()), *sorted(stacks)]
        return [path for path in found if path.is_dir() and not path.is_symlink()]

    def _manifest(self, name: str) -> Path:
        return self.root / ".experiments" / f"{named('experiment', name)}.json"

    def _state(self, id: str, name: str) -> Path:
        return self.known(id) / f"{named('state', name)}.safetensors"

    def _beside(self, id: str, name: str) -> Path:
        if named("journal", name) in ("records", "events"):
            raise ValueError(f"journal {name!r} is the store's own; choose another name")
        return self.known(id) / f"{name}.jsonl"

    def _rows(self, id: str, start: str = "") -> list[dict[str, Any]]:
        path = self.folder(id) / "records.jsonl"
        rows = self._journal(path, id, start)
        if [row.get("cycle") for row in rows] != list(range(len(rows))):
            raise Integrity(f"{path}: expected cycles 0 to {len(rows) - 1} in order; restore it or remove the run")
        return rows

    def _journal(self, path: Path, id: str, start: str = "") -> list[dict[str, Any]]:
        try:
            rows, torn = journal.read(path, start)
        except FileNotFoundError:  # nothing was recorded yet, if there is such a run
            self.known(id)
            return []
        if torn:
            log.warning("%s: its last line was never finished and is left out", path)
        if any(row.get("run") != id for row in rows):
            raise Integrity(f"{path}: holds lines of another run than {id}; put the right file here or remove the run")
        return rows

    def _append(self, id: str, path: Path, row: Mapping[str, Any]) -> None:
        if torn := journal.append_(path, [row]):
            self.event(id, "repair", file=path.name, bytes=torn)

    def _document(self, path: Path, key: str, name: str, field: str) -> dict[str, Any]:
        """The content of a sealed file that says itself whose it is."""
        try:
            rows, torn = journal.read(path)
        except FileNotFoundError:
            raise Integrity(f"{path}: is missing; restore it from a copy or remove its folder") from None
        if torn or len(rows) != 1 or rows[0].get(key) != name or not isinstance(rows[0].get(field), dict):
            raise Integrity(f"{path}: expected the {field} of {key} {name}; restore it from a copy or remove it")
        return rows[0][field]  # type: ignore[no-any-return]


def fields(row: Mapping[str, Any]) -> set[tuple[str, bytes]]:
    return {(name, canonical(row[name])) for name in row}


def signed(row: Mapping[str, Any], signature: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the fields that the store itself adds to a line."""
    if taken := sorted(row.keys() & signature.keys()):
        raise ValueError(f"field {taken[0]!r} is the store's own; give {row[taken[0]]!r} another name")
    return {**row, **signature}


def unlinked(path: Path) -> Path:
    """A link could lead out of the root."""
    if path.is_symlink():
        raise Integrity(f"{path}: expected a folder, found a link; put the folder itself here")
    return path
