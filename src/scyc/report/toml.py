"""Values as TOML spells them on one line: what a report prints can be pasted into a preset."""

import json
import re
from collections.abc import Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def inline(value: Any) -> str:
    """A string, number, list or table as an inline value."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {inline(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, str):
        return string(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def key(name: str) -> str:
    return name if BARE.fullmatch(name) else string(name)


def string(text: str) -> str:
    """JSON's escapes are TOML's, but for the one character that only TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
