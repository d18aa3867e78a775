"""The folders data sets are looked for in."""

from collections.abc import Mapping
from pathlib import Path


def home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def roots(data: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where data sets may lie, first to last: what was asked for, $SCYC_DATA, here, the user's cache, the system's."""
    asked = [data] if data is not None else []
    named = [Path(environ["SCYC_DATA"])] if environ.get("SCYC_DATA") else []
    usual = [Path("data"), home(environ) / ".cache/scyc/data", Path("/usr/share/datasets")]
    return tuple(dict.fromkeys(folder.expanduser() for folder in (*asked, *named, *usual)))
