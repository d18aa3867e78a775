"""Files made to do harm: no code in them runs, nothing is written outside the folder, and each is one line."""

import ast
import csv
import hashlib
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import scyc
from command import TINY, command
from scyc.store import checkpoint, weights
from scyc.store.runs import Store

SOURCE = Path(scyc.__file__).parent
pytestmark = pytest.mark.torture


class Attack:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """inner/ is where the commands run; whatever else appears beside it was written outside."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/tiny.toml").write_text(TINY)
    return tmp_path / "inner"


def foreign(mark: Path, form: str) -> bytes:
    """A .pt file as torch writes it, its older form, a pickle alone, and a pickle in an .npz."""
    out = io.BytesIO()
    if form == "npz":
        np.savez(out, images=np.array([Attack(mark)]), labels=np.array([Attack(mark)]))
    elif form == "pickle":
        pickle.dump(Attack(mark), out)
    else:
        torch.save({"images": Attack(mark)}, out, _use_new_zipfile_serialization=form == "pt")
    return out.getvalue()


FORMS = ["pt", "old pt", "pickle", "npz"]


@pytest.mark.parametrize("form", FORMS)
def test_the_attack_is_a_real_one(tmp_path: Path, form: str) -> None:
    mark, content = tmp_path / "ran", io.BytesIO(foreign(tmp_path / "ran", form))
    if form == "npz":
        np.load(content, allow_pickle=True)["images"]
    elif form == "pickle":
        pickle.load(content)
    else:
        torch.load(content, weights_only=False)
    assert mark.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", ["npz", "safetensors", "folder"])
def test_a_foreign_file_as_data_runs_nothing(folder: Path, form: str, reader: str) -> None:
    mark = folder.parent / "ran"
    path = folder / "own/class/a.png" if reader == "folder" else folder / "own"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(foreign(mark, form))
    (folder / "own").is_dir() and (folder / "own/other").mkdir()
    said = command(folder, ["run", "tiny.toml", "--set", f"data={{name='{reader}', path='own'}}"])
    assert (said.code, len(said.err.splitlines()), said.out) == (4, 1, ""), said.err
    assert not mark.exists()


@pytest.mark.parametrize("form", ["pt", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMS[1:])])
def test_a_foreign_file_in_the_store_runs_nothing(folder: Path, form: str) -> None:
    mark = folder.parent / "ran"
    assert command(folder, ["run", "tiny.toml", "--quiet"]).code == 0
    store = Store(folder / "runs")
    id, content = store.ids()[0], foreign(mark, form)
    head = {"stack": "stack", "members": [id]}
    saved = checkpoint.save(store.stack_folder("stack"), head, {"a": torch.zeros(1)})
    sha256 = hashlib.sha256(content).hexdigest()
    for path in (saved, *sorted((store.root / id).iterdir()), store.root / ".experiments/tiny.json"):
        kept = path.read_bytes()
        path.write_bytes(content)
        for words in (["run", "tiny.toml", "--quiet"], ["report", "tiny"], ["show", id], ["ls", "--runs"]):
            said = command(folder, words)
            assert said.code in (0, 4), said.err
            assert "Traceback" not in said.err
        with pytest.raises(ValueError, match="expected"):
            weights.load_tensors(path, sha256)  # even where the hash is right
        path.write_bytes(kept)
    assert not mark.exists()


@pytest.mark.parametrize("words", [["run"], ["plan"], ["lr"], ["run", "--dry-run"], ["oracle"], ["tune"]], ids=" ".join)
def test_code_that_a_file_names_is_not_imported_without_trust(folder: Path, words: list[str]) -> None:
    mark = folder.parent / "ran"
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(mark)!r})\nnet = print\n")
    (folder / "evil.toml").write_text(TINY.replace('"mlp", widths = [6]', '"evil:net"'))
    said = command(folder, [words[0], "evil.toml", *words[1:]])
    assert (said.code, said.out) == (2, "")
    assert "is code outside scyc; to import and run it, add --trust" in said.err
    assert not mark.exists()


# Archives and packed files

TREE = "tiny-imagenet-200/train/n1/images"
ESCAPES = ["../../out.JPEG", "/tmp/scyc-out.JPEG", f"{TREE}/../../../../../out.JPEG", "..\\out.JPEG", "C:\\out.JPEG"]


@pytest.mark.parametrize("name", ESCAPES)
def test_no_name_in_an_archive_leads_out(folder: Path, name: str) -> None:
    import re

    from scyc.data import DataError
    from scyc.data.archive import members, unzip

    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr(name, b"1")
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        for kind in (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    before = sorted(folder.parent.rglob("*"))
    unzip(folder / "a.zip", folder / "out", re.compile(r"tiny-imagenet-200/(?:\w+/)*\w+\.JPEG"), limit=10)
    with pytest.raises(DataError, match="lacks"):
        list(members(folder / "a.tar.gz", {"cifar/data_batch_1": 1}))
    assert sorted(folder.parent.rglob("*")) == before
    assert not Path("/tmp/scyc-out.JPEG").exists()


def npz_bomb(path: Path, claimed: int, real: int) -> None:
    """An array of zeros that unpacks to more than a thousand times its size; its header may claim more still."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (claimed, 32, 32)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(real * 1024 // 2**20):
                member.write(bytes(2**20))
        labels = io.BytesIO()
        np.save(labels, np.arange(2))
        archive.writestr("labels.npy", labels.getvalue())


@pytest.mark.parametrize(
    ("claimed", "real", "said"),
    [
        (2**40, 2**10, "should unpack to"),
        pytest.param(2**20 + 2**12, 2**20 + 2**12, "unpacks from", marks=pytest.mark.slow),
    ],
)
def test_an_npz_bomb_is_not_unpacked(folder: Path, claimed: int, real: int, said: str) -> None:
    npz_bomb(folder / "own.npz", claimed, real)
    assert (folder / "own.npz").stat().st_size < 2_000_000
    found = command(
        folder, ["run", "tiny.toml", "--set", "data={name='npz', path='own.npz'}"], lambda: limit_memory(600)
    )
    assert (found.code, len(found.err.splitlines())) == (4, 1), found.err
    assert said in found.err


def limit_memory(megabytes: int) -> None:
    """So much more than the process has: who unpacks a bomb is out of memory."""
    import resource

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def test_a_picture_bomb_is_not_decoded(folder: Path) -> None:
    size = struct.pack(">II", 60_000, 60_000)
    rows = zlib.compress(bytes(10**6))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    for name in ("one", "two"):
        (folder / f"own/{name}").mkdir(parents=True)
        (folder / f"own/{name}/a.png").write_bytes(png)
    words = ["run", "tiny.toml", "--set", "data={name='folder', path='own', size=8}"]
    said = command(folder, words, lambda: limit_memory(600))
    assert (said.code, len(said.err.splitlines())) == (4, 1), said.err
    assert "own/one/a.png is no picture" in said.err


def test_a_gzip_bomb_in_the_place_of_a_known_file_is_not_unpacked(folder: Path) -> None:
    import gzip

    bomb = gzip.compress(bytes(10**6)) * 3000  # three billion zeros
    (folder / "data/fashion-mnist").mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (folder / f"data/fashion-mnist/{name}-ubyte.gz").write_bytes(bomb)
    words = ["run", "tiny.toml", "--set", "data=fashion-mnist", "--data", "data"]
    said = command(folder, words, lambda: limit_memory(600))
    assert (said.code, len(said.err.splitlines())) == (4, 1), said.err
    assert "not the published file: more than" in said.err


# Names

NAMES = ["../../x", "/tmp/x", "..", ".x", "a/b", "a\\b", "<b>x</b>", "a b", "x\n", "ä", "", "x" * 101]
COMMANDS = {
    "run": ["run", "tiny.toml", "--name"],
    "oracle": ["oracle", "tiny.toml", "--name"],
    "tune": ["tune", "tiny.toml", "--name"],
    "distribution": ["distribution", "tiny.toml", "--name"],
    "report": ["report"],
    "ls": ["ls"],
    "show": ["show"],
    "diff": ["diff", "00"],
    "rm": ["rm", "--yes"],
    "oracle of the store": ["oracle", "--stored"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_name_leads_out_of_the_folder(folder: Path, words: list[str]) -> None:
    (folder.parent / "x").mkdir()  # what ../../x would reach from runs/.experiments
    before = sorted(folder.parent.rglob("*"))
    for name in NAMES:
        if words == ["ls"] and not name:  # lists what there is
            continue
        said = command(folder, [*words, name])
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1), (name, said)
        assert said.err.strip().isprintable()
    assert [path for path in sorted(folder.parent.rglob("*")) if path not in before] == []


def test_a_file_whose_name_is_no_name_of_an_experiment_makes_nothing(folder: Path) -> None:
    (folder / "<b>.toml").write_text(TINY)
    said = command(folder, ["run", "<b>.toml", "--quiet"])
    assert said.code == 2
    assert "experiment name '<b>' cannot be a file name" in said.err
    assert not (folder / "runs").exists()


LABELS = [
    "<script>alert(1)</script>",
    "![x](http://x.org/t.png)",
    "[a](javascript:alert(1))",
    "a|b & 50 % _ ^ ~ \\end{table}",
]


@pytest.mark.parametrize("words", [["run"], ["distribution", "--batches", "1"]], ids=["run", "distribution"])
def test_labels_stay_words_in_every_text_format(folder: Path, words: list[str]) -> None:
    one = TINY[TINY.index("[schedules.low]") :]
    schedules = [one.replace("[schedules.low]", f"[schedules.{json.dumps(label)}]") for label in LABELS]
    (folder / "own.toml").write_text(TINY.replace(one, "\n".join(schedules)))
    texts = {}
    for form in ("table", "md", "latex", "csv", "json"):
        said = command(folder, [words[0], "own.toml", *words[1:], "--quiet", "--format", form])
        assert said.code == 0, said.err
        texts[form] = said.out
    assert "<script" not in texts["md"]
    assert "&lt;script>" in texts["md"]
    assert "](" not in texts["md"]
    assert "\\end{table}\\end" not in texts["latex"]
    assert texts["latex"].count("\\begin{table}") == texts["latex"].count("\\end{table}")
    assert "\\textbackslash{}end\\{table\\}" in texts["latex"]
    json.loads(texts["json"])
    rows = list(csv.reader(io.StringIO(texts["csv"])))
    assert len({len(row) for row in rows}) == 1
    assert any(LABELS[3] in row for row in rows)


# The source

UNPICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
ONLY_IN = {"pickle": {"data/pickled.py"}, "importlib": {"registry.py", "__init__.py"}}


def calls(tree: ast.AST) -> list[tuple[str, set[str]]]:
    """Every call: its dotted name, and its keywords as written."""
    return [
        (ast.unparse(node.func), {ast.unparse(word) for word in node.keywords})
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def imports(tree: ast.AST) -> set[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {
        name.split(".")[0] for name in names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    }


def test_the_source_neither_writes_nor_believes_pickles() -> None:
    seen = 0
    for path in SOURCE.rglob("*.py"):
        tree, place = ast.parse(path.read_text()), str(path.relative_to(SOURCE))
        for module in imports(tree) & UNPICKLES:
            assert place in ONLY_IN.get(module, ()), f"{place} imports {module}"
        for name, words in calls(tree):
            seen += 1
            if name in ("torch.load", "load_checkpoint"):
                assert "weights_only=True" in words, f"{place}: {name}"
            assert name != "torch.save" or place == "export.py", place  # tensors alone, and only where asked for
            assert not name.startswith(("pickle.load", "pickle.dump", "pickle.Pickler")), place
            if name in ("np.load", "numpy.load", "npy.read_array", "np.lib.format.read_array"):
                assert "allow_pickle=False" in words, f"{place}: {name}"
            assert "allow_pickle=True" not in words, place
            assert name not in ("eval", "exec", "compile", "__import__"), place
            if name in ("importlib.import_module", "runpy.run_path", "runpy.run_module"):
                assert place in ONLY_IN["importlib"], f"{place}: {name}"
    assert seen > 1000
