import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tiny_files import BINARY_FILES, IDX_FILES, forms, gzipped, idx_set, known, tar_gz, tiny_imagenet, write

from scyc.data import DataError
from scyc.data.cifar import find, read_cifar
from scyc.data.fetch import fetch
from scyc.data.idx import read_idx
from scyc.data.inventory import Published, check_cifar, check_idx, check_tiny, place_idx
from scyc.data.sources import Remote, Source, unpack_cifar, unpack_tiny
from scyc.data.tiny_imagenet import Extent, find_tiny, read_tiny

FORMS = forms()
EXTENT = Extent(classes=2, train=2, test=3, size=8)
GREY = gzipped(IDX_FILES)
TAR = tar_gz("bin", BINARY_FILES)
FIRST = next(iter(GREY))


@dataclass
class Site:
    """A real server on this machine: its files, and what it does wrong."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)  # after so many bytes each of the next answers breaks off
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # file and range of every request
    url: str = ""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, site)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_port}"
        yield site
        server.shutdown()
        thread.join()


def answer(request: BaseHTTPRequestHandler, site: Site) -> None:
    name, asked = request.path.removeprefix("/"), request.headers["Range"]
    site.asked.append((name, asked))
    content = site.files.get(name)
    start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and site.ranges else 0
    if content is None or start >= len(content):
        request.send_error(404 if content is None else 416)
        return
    request.send_response(206 if start else 200)
    if start:
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(content) - start))
    request.end_headers()
    request.wfile.write(content[start:][: site.breaks.pop(0) if site.breaks else None])


def remote(site: Site, name: str, content: bytes) -> Remote:
    site.files[name] = content
    return Remote(f"{site.url}/{name}", known(content).size, known(content).md5)


def grey(site: Site) -> dict[str, Source]:
    published = Published(partial(place_idx, idx_set()), partial(check_idx, idx_set()))
    return {"grey": Source("tiny", tuple(remote(site, *file) for file in GREY.items()), published)}


def colour(site: Site, content: bytes = TAR) -> dict[str, Source]:
    published = Published(lambda root: find(root, FORMS)[0], partial(check_cifar, FORMS))
    return {"colour": Source("bin", (remote(site, "bin.tar.gz", content),), published, partial(unpack_cifar, FORMS[0]))}


def written(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_a_set_of_files_is_put_in_its_folder_once(site: Site, tmp_path: Path) -> None:
    sources, steps = grey(site), []
    place = fetch("grey", tmp_path / "new", lambda *step: steps.append(step), sources)
    assert place == tmp_path / "new/tiny"
    assert written(place) == set(GREY)
    assert read_idx(tmp_path / "new", idx_set()).train.labels.tolist() == [0, 1, 2, 1]
    assert steps == [(name, len(content), len(content)) for name, content in GREY.items()]
    assert fetch("grey", tmp_path / "new", sources=sources) == place
    assert site.asked == [(name, None) for name in GREY]


def test_a_set_that_lies_there_unpacked_is_not_got_again(site: Site, tmp_path: Path) -> None:
    write(tmp_path / "tiny", IDX_FILES)
    assert fetch("grey", tmp_path, sources=grey(site)) == tmp_path / "tiny"
    assert site.asked == []


def test_a_damaged_file_is_replaced_and_the_others_are_kept(site: Site, tmp_path: Path) -> None:
    write(tmp_path / "tiny", GREY | {FIRST: b"damaged"})
    fetch("grey", tmp_path, sources=grey(site))
    assert (tmp_path / "tiny" / FIRST).read_bytes() == GREY[FIRST]
    assert site.asked == [(FIRST, None)]


def test_an_interrupted_transfer_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    site.breaks = [100, 50]
    fetch("colour", tmp_path, sources=colour(site))
    assert site.asked == [("bin.tar.gz", None), ("bin.tar.gz", "bytes=100-"), ("bin.tar.gz", "bytes=150-")]
    assert read_cifar(tmp_path, FORMS).train.labels.tolist() == [6, 9, 0, 4]


def test_a_transfer_that_gets_nowhere_is_one_line_and_is_resumed_by_the_next_call(site: Site, tmp_path: Path) -> None:
    sources, site.breaks = colour(site), [100, 0]
    with pytest.raises(DataError) as error:
        fetch("colour", tmp_path, sources=sources)
    line = f"100 of {len(TAR)} bytes are in {tmp_path / 'bin.tar.gz.part'}, run again to go on"
    assert str(error.value) == f"{site.url}/bin.tar.gz: the transfer broke off; {line}"
    assert written(tmp_path) == {"bin.tar.gz.part"}
    site.asked.clear()
    assert fetch("colour", tmp_path, sources=sources) == tmp_path / "bin"
    assert site.asked == [("bin.tar.gz", "bytes=100-")]


def test_a_server_without_ranges_starts_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "bin.tar.gz.part").write_bytes(TAR[:100])
    site.ranges = False
    fetch("colour", tmp_path, sources=colour(site))
    assert read_cifar(tmp_path, FORMS).train.labels.tolist() == [6, 9, 0, 4]


def test_an_archive_is_unpacked_and_removed(site: Site, tmp_path: Path) -> None:
    sources = colour(site)
    assert fetch("colour", tmp_path, sources=sources) == tmp_path / "bin"
    assert written(tmp_path) == {f"bin/{name}" for name in BINARY_FILES}
    fetch("colour", tmp_path, sources=sources)
    assert len(site.asked) == 1


def test_a_corrupted_file_is_refused_and_removed(site: Site, tmp_path: Path) -> None:
    sources = colour(site)
    site.files["bin.tar.gz"] = TAR[:50] + bytes((TAR[50] ^ 1,)) + TAR[51:]
    found, expected = known(site.files["bin.tar.gz"]).md5, known(TAR).md5
    with pytest.raises(DataError, match=f"bin.tar.gz: md5 {found}, expected {expected}; it was removed, run again"):
        fetch("colour", tmp_path, sources=sources)
    assert written(tmp_path) == set()


@pytest.mark.parametrize("left", [b"x" * 100, b"x" * len(TAR), b"x" * (len(TAR) + 1)])
def test_a_remainder_of_another_file_is_refused_and_then_replaced(site: Site, tmp_path: Path, left: bytes) -> None:
    sources = colour(site)
    (tmp_path / "bin.tar.gz.part").write_bytes(left)
    with pytest.raises(DataError, match=r"expected \w+; it was removed"):
        fetch("colour", tmp_path, sources=sources)
    assert written(tmp_path) == set()
    assert fetch("colour", tmp_path, sources=sources) == tmp_path / "bin"


def test_a_file_longer_than_published_is_cut_off(site: Site, tmp_path: Path) -> None:
    sources = colour(site)
    (tmp_path / "bin.tar.gz.part").write_bytes(TAR[:100])
    site.files["bin.tar.gz"] = TAR + bytes(10_000_000)
    with pytest.raises(DataError, match=f"longer than the {len(TAR)} bytes that were published"):
        fetch("colour", tmp_path, sources=sources)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*")) == 0


def test_a_file_shorter_than_what_is_left_of_it_starts_again(site: Site, tmp_path: Path) -> None:
    sources = colour(site)
    (tmp_path / "bin.tar.gz.part").write_bytes(b"x" * 100)
    site.files["bin.tar.gz"] = TAR[:60]
    with pytest.raises(DataError, match="HTTP Error 416"):
        fetch("colour", tmp_path, sources=sources)
    site.files["bin.tar.gz"] = TAR
    assert fetch("colour", tmp_path, sources=sources) == tmp_path / "bin"


def test_a_missing_page_and_a_missing_server_are_one_line(site: Site, tmp_path: Path) -> None:
    sources = colour(site)
    site.files.clear()
    with pytest.raises(DataError, match="HTTP Error 404: Not Found; 0 of"):
        fetch("colour", tmp_path, sources=sources)
    gone = Remote("http://127.0.0.1:1/bin.tar.gz", 10, "0" * 32)
    with pytest.raises(DataError, match="Connection refused") as error:
        fetch(
            "colour", tmp_path, sources={"colour": Source("bin", (gone,), *list(vars(sources["colour"]).values())[2:])}
        )
    assert "\n" not in str(error.value)


def test_a_damaged_folder_is_not_written_over(site: Site, tmp_path: Path) -> None:
    write(tmp_path / "bin", BINARY_FILES | {"test_batch.bin": b"short"})
    line = "bin is there, but .*test_batch.bin is truncated.*; remove it and run `scyc data get colour` again"
    with pytest.raises(DataError, match=line):
        fetch("colour", tmp_path, sources=colour(site))
    (tmp_path / "bin/test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"bin is there, but .*test_batch\.bin is missing"):
        fetch("colour", tmp_path, sources=colour(site))
    assert site.asked == []


def test_an_archive_without_the_published_files_leaves_no_folder(site: Site, tmp_path: Path) -> None:
    wrong = tar_gz("bin", BINARY_FILES | {"test_batch.bin": bytes(6146)})
    with pytest.raises(DataError, match=r"bin/test_batch\.bin is not the published file"):
        fetch("colour", tmp_path, sources=colour(site, wrong))
    assert not (tmp_path / "bin").exists()


def test_a_folder_that_cannot_be_unpacked_into_is_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "bin.part").write_text("a file where a folder would have to be made")
    with pytest.raises(DataError, match=r"bin\.part cannot be written: .*File exists"):
        fetch("colour", tmp_path, sources=colour(site))
    assert written(tmp_path) == {"bin.part", "bin.tar.gz"}


def test_a_zip_of_pictures_is_unpacked(site: Site, tmp_path: Path) -> None:
    packed = io.BytesIO()
    origin = tiny_imagenet(tmp_path / "origin")
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(origin.rglob("*.*")):
            archive.write(file, file.relative_to(origin.parent))
        archive.writestr("tiny-imagenet-200/../../evil.txt", "out of the folder")
    published = Published(find_tiny, partial(check_tiny, EXTENT))
    files = (remote(site, "tiny.zip", packed.getvalue()),)
    place = fetch("own", tmp_path / "new", sources={"own": Source("tiny-imagenet-200", files, published, unpack_tiny)})
    assert written(tmp_path / "new") == {f"tiny-imagenet-200/{name}" for name in written(origin)}
    assert read_tiny(place, EXTENT, ()).digest() == read_tiny(origin, EXTENT, ()).digest()


@pytest.mark.parametrize("name", ["digits", "npz", "cifar"])
def test_what_is_on_no_page_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"data set '{name}' is not one to get; those that are: fashion-mnist, mnist"):
        fetch(name, tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder would have to be made")
    with pytest.raises(DataError, match="Not a directory"):
        fetch("colour", tmp_path / "file/data", sources=colour(site))
