"""The guides: every block of code runs, page by page; the built site has no dead link and asks no other host."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from scyc.cli import main

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1]
DOCS = HERE / "docs"
PAGES = sorted(path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
NEEDS = {"guides/lightning.md": ["lightning"], "guides/moving.md": ["lightning"]}
NEEDS |= {"guides/smaller.md": ["torch_pruning", "onnx", "onnxruntime"]}
NEEDS |= {"guides/transformers.md": ["transformers", "accelerate"], "guides/processes.md": ["accelerate"]}
BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"python", "console", "toml"}


@dataclass(frozen=True)
class Block:
    kind: str
    title: str  # the file it is, where it has one
    code: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = (DOCS / page).read_text()
    for found in BLOCK.finditer(text):
        yield Block(found[1], found[2] or "", found[3], text[: found.start()].count("\n") + 2)


def run(block: Block, page: Path, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    if block.title:
        Path(block.title).write_text(block.code)
    elif block.kind == "python":
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
    elif block.kind == "console":
        for line in block.code.splitlines():
            command(line, capsys)


def command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command as a user would type it, in this process: starting Python and torch takes longer than all of them."""
    words = shlex.split(line)
    assert words[:2] == ["$", "scyc"], line
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[1:])
        with pytest.raises(SystemExit) as ended:
            main()
    out, err = capsys.readouterr()
    assert not ended.value.code, (line, err)
    assert out.strip(), line


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=str)
def test_every_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, in one namespace, from an empty folder; what a page registers is forgotten after it."""
    from scyc import lr, prune
    from scyc.data import DATASETS
    from scyc.model import MODELS

    for library in NEEDS.get(str(page), []):
        pytest.importorskip(library)
    monkeypatch.syspath_prepend(tmp_path)  # where the user stands
    tables: list[Any] = [lr.PEAKS, lr.SHAPES, prune.SCORES, prune.SCOPES, prune.UNITS, DATASETS, MODELS]
    before = [dict(table) for table in tables]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": f"guide_{page.stem}"}
    monkeypatch.setitem(sys.modules, names["__name__"], ModuleType(names["__name__"]))  # dataclasses look there
    try:
        for block in blocks(page):
            assert block.kind in KINDS, f"{page}:{block.line}: a block that nobody runs"
            run(block, page, names, capsys)
    finally:
        for table, was in zip(tables, before, strict=True):
            table.clear()
            table.update(was)
        for block in blocks(page):
            sys.modules.pop(block.title.removesuffix(".py"), None)


def test_every_fence_is_a_block() -> None:
    for page in PAGES:
        fences = len(re.findall(r"^```", (DOCS / page).read_text(), re.MULTILINE))
        assert fences == 2 * len(list(blocks(page))), page


# The site


class Links(HTMLParser):
    """Where a page leads to, what it loads, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag != "a":
            self.loads += [found[name] for name in ("src", "href") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Links]:
    """The built pages by path; the build itself fails at any warning."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=HERE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {path.resolve(): Links(path.read_text()) for path in folder.rglob("*.html")}


def test_no_link_is_dead(site: dict[Path, Links]) -> None:
    count = 0
    for page, found in site.items():
        for link in found.links + found.loads:
            path, anchor = urldefrag(unquote(link))
            if "://" in path or path.startswith(("mailto:", "/")):  # "/": of the page for errors, from the root
                continue
            place = (page.parent / path).resolve() if path else page
            assert place.is_file(), f"{page.name}: {link}"
            assert not anchor or place.suffix != ".html" or anchor in site[place].anchors, f"{page.name}: {link}"
            count += 1
    assert count > 200
    assert len(site) >= len(PAGES)


def test_nothing_is_loaded_from_another_host(site: dict[Path, Links]) -> None:
    for page, found in site.items():
        assert not [link for link in found.loads if "//" in link], page.name


def test_the_reference_has_what_a_user_calls(site: dict[Path, Links]) -> None:
    import scyc

    reference = next(found for path, found in site.items() if path.name == "reference.html")
    short = {anchor.rpartition(".")[2] for anchor in reference.anchors}
    assert set(scyc.__all__) - {"lr", "mask", "prune"} <= short
    ours = ["scyc.lr.Schedule", "scyc.lr.ScheduleLR", "scyc.mask.ones_like", "scyc.mask.attach_", "scyc.prune.step"]
    assert set(ours) <= reference.anchors


def test_the_tables_of_fields_are_complete() -> None:
    from scyc import Cycle, Method, Record

    text = (DOCS / "reference.md").read_text()
    tables = [re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) for part in text.split("| field | meaning |")[1:]]
    assert tables == [[field.name for field in fields(kind)] for kind in (Method, Cycle, Record)]
