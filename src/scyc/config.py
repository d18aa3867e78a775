"""TOML and dotted overrides in, frozen values out; a value's name is the hash of what differs from its defaults."""

import dataclasses
import hashlib
import inspect
import json
import math
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo, create_model

from scyc.registry import Kind, clipped, nearest

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used: one line with the key's path, the value and the fix."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(printable(f"{path}: {what}" if path else what))
        self.what, self.path = what, path


def printable(text: str) -> str:
    """On one line whatever keys and values hold: TOML allows keys with line breaks."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@dataclass(frozen=True)
class StepCount:
    """Marks a field that counts steps, so that `scale` multiplies it."""


Steps = Annotated[int, StepCount()]


@dataclass(frozen=True)
class Part:
    """A registered entry with the fields that differ from its defaults; `make` calls it."""

    name: str
    fields: Mapping[str, Any]
    entry: Callable[..., Any] = field(compare=False, repr=False)
    kind: Kind = field(compare=False, repr=False)

    def make(self, *arguments: Any) -> Any:
        return self.entry(*arguments, **self.fields)

    def __hash__(self) -> int:
        return hash((self.name, json.dumps(self.fields, sort_keys=True)))


def parameters(entry: Callable[..., Any], arguments: int) -> dict[str, inspect.Parameter]:
    """The fields of an entry: what its signature takes after the positional arguments."""
    return dict(list(inspect.signature(entry).parameters.items())[arguments:])


def annotations(entry: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(entry, include_extras=True)


@cache
def schema(entry: Callable[..., Any], arguments: int) -> type[BaseModel]:
    """The signature is the schema: a pydantic model made from it."""
    hints = annotations(entry)
    taken = {
        name: (hints.get(name, Any), ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in parameters(entry, arguments).items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    return create_model(entry.__name__, __config__=STRICT, **taken)  # type: ignore[call-overload, no-any-return]


def part(kind: Kind, value: Any, *, trust: bool = False) -> Part:
    """`"mlp"` or `{"name": "mlp", "bn": true}` as a Part; every field is checked against the entry's signature."""
    if isinstance(value, Part):
        return value
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ConfigError(
            f"{shown(value)} names no {kind.name}; write a name, or a table with name = one of {kind.names()}"
        )
    entry = kind.find(given["name"], trust=trust)
    model = schema(entry, kind.arguments)
    checked = checked_by(
        model.model_validate, {k: v for k, v in given.items() if k != "name"}, list(model.model_fields)
    )
    fields = {
        name: getattr(checked, name)
        for name, info in model.model_fields.items()
        if info.is_required() or getattr(checked, name) != info.default
    }
    made = Part(given["name"], fields, entry, kind)
    if not kind.arguments:
        made.make()  # a frozen value says itself what its ranges are
    return made


def chosen(kind: Kind) -> PlainValidator:
    """The validator of a dataclass field that holds a Part of this kind."""

    def choose(value: Any, info: ValidationInfo) -> Part:
        return part(kind, value, trust=bool(info.context and info.context.get("trust")))

    return PlainValidator(choose)


def tuples(value: Any) -> Any:
    """TOML and JSON have lists where frozen values hold tuples."""
    if isinstance(value, Mapping):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


def checked_by(validate: Callable[[Any], T], value: Any, known: Sequence[str]) -> T:
    """`validate(value)`, with pydantic's report as one line: the path, what is wrong, the nearest known key."""
    try:
        return validate(tuples(value))
    except ValidationError as report:
        errors = report.errors(include_url=False)
    error = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])  # a typo explains what is missing
    inner = error.get("ctx", {}).get("error")
    path = [clipped(str(place)) for place in error["loc"]]
    if isinstance(inner, ConfigError):
        raise ConfigError(inner.what, ".".join([*path, *filter(None, [inner.path])]))
    if error["type"] == "extra_forbidden":
        raise ConfigError(str(nearest("key", path[-1], known)), ".".join(path))
    what = "this key is required" if error["type"] == "missing" else error["msg"].removeprefix("Value error, ")
    got = "" if error["type"] in ("value_error", "missing") else f", got {shown(error['input'])}"
    raise ConfigError(what + got, ".".join(path))


def shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python spells no whole number of more than 4300 digits
        text = f"{type(value).__name__} of a size that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."


def validated(cls: type[T], value: Mapping[str, Any], *, trust: bool = False) -> T:
    """A frozen dataclass from plain values."""
    model = schema(cls, 0)  # type: ignore[arg-type]
    known = list(model.model_fields)
    checked = checked_by(lambda plain: model.model_validate(plain, context={"trust": trust}), value, known)
    return cls(**{name: getattr(checked, name) for name in known})


def nested(cls: type[T]) -> PlainValidator:
    """The validator of a dataclass field that holds another frozen dataclass."""

    def build(value: Any, info: ValidationInfo) -> T:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ConfigError(f"{shown(value)} is no table of {cls.__name__.lower()}'s fields")
        return validated(cls, value, trust=bool(info.context and info.context.get("trust")))

    return PlainValidator(build)


def plain(value: Any) -> Any:
    """The JSON form of a value with everything that equals its default left out."""
    if isinstance(value, Part):
        return {"name": value.name, **{k: plain(v) for k, v in value.fields.items()}}
    if dataclasses.is_dataclass(value):
        kept = {
            f.name: plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.default is dataclasses.MISSING or getattr(value, f.name) != f.default
        }
        source = kept.pop("source", {})  # a data set's own fields stand beside how it is used
        return {**source, **kept}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """12 hex digits that name a plain value."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def scaled(value: T, factor: float) -> T:
    """The same value with every step count multiplied, rounded, at least 1; nothing else changes."""
    if isinstance(value, Part):
        hints = annotations(value.entry)
        fields = {name: multiplied(item, hints.get(name), factor) for name, item in value.fields.items()}
        return dataclasses.replace(value, fields=fields)
    assert dataclasses.is_dataclass(value)
    assert not isinstance(value, type)
    hints = annotations(type(value))
    changed = {f.name: multiplied(getattr(value, f.name), hints[f.name], factor) for f in dataclasses.fields(value)}
    return dataclasses.replace(value, **changed)


def multiplied(value: Any, hint: Any, factor: float) -> Any:
    if isinstance(value, Part) or dataclasses.is_dataclass(value):
        return scaled(value, factor)
    if isinstance(value, tuple) and StepCount() in marks(typing.get_args(hint)[0] if typing.get_args(hint) else None):
        return tuple(max(1, round(item * factor)) for item in value)
    if isinstance(value, int) and value and StepCount() in marks(hint):
        return max(1, round(value * factor))
    return value


def marks(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def read(path: Path) -> dict[str, Any]:
    """A TOML or JSON file as a dictionary, its faults as one line."""
    parse = json_table if path.suffix.lower() == ".json" else tomllib.loads
    try:
        return parse(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (ValueError, OSError) as error:  # ValueError: what the parsers and the decoder raise
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{path}: nested too deep; no key needs more than four parts") from None


def json_table(text: str) -> dict[str, Any]:
    """JSON as strict as TOML: a table, no key twice, no NaN."""
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refused)
    if not isinstance(value, dict):
        raise ConfigError(f"holds {shown(value)}, expected a table: {{...}}")
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ConfigError(
            f"key {clipped(next(key for key in keys if keys.count(key) > 1))!r} stands twice in one table"
        )
    return found


def refused(name: str) -> Any:
    raise ConfigError(f"{name} is not a finite number")


def override(config: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """`config` with `part.field=value` applied; the value is read as TOML, and as a string where it is none."""
    path, equals, text = assignment.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {shown(assignment)}: write part.field=value, as in --set pruning.amount=0.3")
    return assigned(config, keys, toml_value(text.strip()), path)


def toml_value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{text}: not a finite number")
    return value


def assigned(config: Mapping[str, Any], keys: list[str], value: Any, path: str) -> dict[str, Any]:
    key, rest = keys[0], keys[1:]
    if not rest:
        return {**config, key: value}
    inner = config.get(key, {})
    inner = {"name": inner} if isinstance(inner, str) else inner
    if not isinstance(inner, Mapping):
        raise ConfigError(f"--set {path}: {key} is {shown(inner)} and has no fields")
    return {**config, key: assigned(inner, rest, value, path)}
