"""Which code this is: the version, and the commit where it runs from a checkout."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def revision(folder: Path = FOLDER) -> str:
    """`0.1.0, commit 1a2b3c4d5e6f with changes`, as much of it as is known."""
    try:
        known = version("scyc")
    except PackageNotFoundError:
        known = "unknown version"
    commit = git(folder, "rev-parse", "--short=12", "HEAD") if git(folder, "ls-files", "config.py") else ""
    if not commit:
        return known
    changed = " with changes" if git(folder, "status", "--porcelain", "--", ".") else ""
    return f"{known}, commit {commit}{changed}"


def git(folder: Path, *words: str) -> str:
    """What git says; nothing where there is no git, or no repository that holds this folder."""
    try:
        said = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
