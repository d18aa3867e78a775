"""What may become part of a path: run ids and names, nothing else."""

import re

ID = re.compile(r"[0-9a-f]{12}")
NAME = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}")


def run_id(text: str) -> str:
    if not ID.fullmatch(text):
        raise ValueError(f"run id {text!r} is not 12 hexadecimal digits; `scyc ls` lists the ids")
    return text


def named(kind: str, name: str) -> str:
    """A name that is safe as a file name."""
    if not NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_', '-', '@', at most 100, not starting with a dot"
        raise ValueError(f"{kind} name {name!r} cannot be a file name; use {allowed}")
    return name
