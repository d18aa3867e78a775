"""The page that follows: for this machine alone, and true to the store."""

import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from experiments import TWO, record, stored
from scyc import watch
from scyc.store.runs import Store


@pytest.fixture(autouse=True)
def _no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scyc.report.page.document.vega", lambda: "/* vega */")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[watch.Server]:
    made = watch.served(watch.Watch(stored(tmp_path, TWO), "e"), 0)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def asked(server: watch.Server, path: str, host: str | None = None, method: str = "GET") -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_port}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_listens_on_the_loopback_address_alone(server: watch.Server) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""]
)
def test_a_foreign_host_is_refused(server: watch.Server, host: str) -> None:
    answer, body = asked(server, "/state", host.format(port=server.server_port) or " ")
    assert answer.status == 403
    assert b"runs" not in body


def test_the_page_and_the_state_are_served_and_nothing_else(server: watch.Server) -> None:
    answer, body = asked(server, "/")
    assert (answer.status, b"85.0" in body) == (200, True)
    assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
    answer, body = asked(server, "/state", f"localhost:{server.server_port}")
    assert json.loads(body) == {"done": True, "records": 12, "share": 1.0, "words": ["done", "4 of 4 runs finished"]}
    assert asked(server, "/../config.json")[0].status == 404
    assert asked(server, "/", method="POST")[0].status == 501


def test_it_says_what_runs_and_what_diverged(tmp_path: Path) -> None:
    store = stored(tmp_path, {"low": {0: (0.5, None), 1: (0.5,)}, "scyc": {0: (0.5, 0.4, 0.3), 1: ()}})
    found = watch.Watch(store, "e").state()
    assert found["words"] == ["nobody is training it now", "2 of 4 runs finished", "1 diverged"]
    assert (found["done"], found["records"], found["share"]) == (False, 6, 0.5)


def test_news_in_words() -> None:
    news = {"cycle": 2, "cycles": 18, "step": 1200, "steps": 4000, "lowest": 0.01, "highest": 0.1, "best": 0.975}
    news |= {"left": 75.0, "age": 0.5, "done": 0.25}
    assert watch.words(news, 30, 0, 1) == [
        *("0:01:15 left", "cycle 3 of 18", "step 1,200 of 4,000", "0 of 30 runs finished", "1 diverged"),
        *("learning rate 0.01 to 0.1", "best validation accuracy 97.5 %"),
    ]
    assert watch.words({**news, "age": 100.0}, 30, 0, 0)[0] == "no news for 0:01:40"


def test_the_page_is_made_again_only_where_the_store_has_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path, {"low": {0: (0.5,)}})
    followed = watch.Watch(store, "e")
    made: list[int] = []
    monkeypatch.setattr(watch, "html", lambda *_, live: made.append(live["records"]) or "page")
    followed.page()
    followed.page()
    store.append(store.manifest("e")["schedules"][0][1][0], record(1, 0.4))
    followed.page()
    assert made == [1, 2]


def test_following_ends_when_the_experiment_does(tmp_path: Path) -> None:
    followed = watch.Watch(stored(tmp_path, TWO), "e")
    server = watch.served(followed, 0)
    followed.last_seen.set()
    watch.follow(followed, server)
    with pytest.raises(OSError):
        HTTPConnection("127.0.0.1", server.server_port, timeout=2).request("GET", "/")


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="choose another with --port"):
            watch.served(watch.Watch(stored(tmp_path, TWO), "e"), taken.getsockname()[1])


def test_unknown_names_and_searches_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, TWO)
    with pytest.raises(ValueError, match="did you mean 'e'"):
        watch.Watch(store, "ee")
    store.write_manifest("s", {**store.manifest("e"), "oracle": {}})
    with pytest.raises(ValueError, match="is a search"):
        watch.Watch(Store(tmp_path), "s")
