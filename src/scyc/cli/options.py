"""Options that several commands share, and what they mean."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import torch

    from scyc.experiment import Experiment

Preset = Annotated[
    str, typer.Argument(help="a preset (`scyc list presets`) or a TOML file", metavar="PRESET|FILE.toml")
]
Root = Annotated[Path, typer.Option(help="the folder of all runs", metavar="DIR")]
Data = Annotated[Path | None, typer.Option(help="a folder with data sets", metavar="DIR")]
Seeds = Annotated[str | None, typer.Option(help="a number (5), a range (0-4) or a list (0,3)", metavar="N|A-B")]
Cycles = Annotated[int | None, typer.Option(help="trainings of a run; one pruning less", min=1)]
Scale = Annotated[float | None, typer.Option(help="multiplies every step count")]
Set = Annotated[list[str] | None, typer.Option("--set", help="part.field=value", metavar="PART.FIELD=VALUE")]
Name = Annotated[str | None, typer.Option(help="the experiment's name; the preset's by default", metavar="EXPERIMENT")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Trust = Annotated[bool, typer.Option("--trust", help="import the code that package.module:name names")]
Format = Annotated[str, typer.Option("--format", help="table, md, latex, csv or json")]
Deterministic = Annotated[bool, typer.Option("--deterministic", help="the same bits every time, on a GPU too; slower")]
Engine = Annotated[str, typer.Option(help="auto, captured (CUDA graphs), stacked or single")]
Width = Annotated[int, typer.Option(help="runs in one stack at most (0: all that stack)", min=0)]
Keep = Annotated[str, typer.Option(help="whose weights stay: last, all or none")]


def loaded(
    preset: str,
    seeds: str | None,
    cycles: int | None,
    scale: float | None,
    set_: list[str] | None,
    name: str | None,
    trust: bool = False,
) -> "Experiment":
    from scyc.experiment import load
    from scyc.store.names import named

    short = [("cycles", cycles), ("scale", scale)]
    overrides = [f"{key}={value}" for key, value in short if value is not None] + (set_ or [])
    label = named("experiment", name) if name is not None else None
    return load(preset, seeds=seeds, overrides=overrides, label=label, trust=trust)


def chosen_format(name: str) -> Callable[[Any], str]:
    from scyc.registry import nearest
    from scyc.report.formats import FORMATS

    if name not in FORMATS:
        raise nearest("format", name, FORMATS)
    return FORMATS[name]


def device_named(name: str) -> "torch.device":
    import torch

    from scyc.registry import nearest

    if name not in ("auto", "cpu", "cuda"):
        raise nearest("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device cuda: this torch sees no GPU; use --device cpu, or install a torch with CUDA")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def engine_named(name: str) -> str:
    from scyc.registry import nearest
    from scyc.train import ENGINES

    if name not in ENGINES:
        raise nearest("engine", name, ENGINES)
    return name


def keeping(name: str) -> str:
    from scyc.registry import nearest
    from scyc.training import KEEP

    if name not in KEEP:
        raise nearest("--keep", name, KEEP)
    return name


def with_threads(threads: int) -> None:
    import torch

    from scyc.train.memory import keep_freed

    torch.set_num_threads(threads)
    keep_freed()
