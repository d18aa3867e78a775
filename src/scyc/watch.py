"""A page on this machine alone that follows a running experiment, and is its report when that is done."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scyc import progress
from scyc.pace import shown
from scyc.report.page import html
from scyc.report.rows import cycles_of
from scyc.store.runs import Store

HOST = "127.0.0.1"
PORT = 8765  # where it is free; any other else
POLL = 0.5  # seconds between looks at the store
GRACE = 10.0  # seconds for an open page to fetch the end
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Watch:
    """What is known of one experiment now; the page is made again only where the store has more."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        self.lock = threading.Lock()
        self.made: tuple[int, str] = (-1, "")
        self.last_seen = threading.Event()  # somebody has the page of the end
        self.state()  # an unknown name says so before anything is served

        if {"oracle", "tune"} & {*store.manifest(name)}:
            raise ValueError(f"{name!r} is a search; `scyc watch` follows what `scyc run` trains")

    def state(self) -> dict[str, Any]:
        """In numbers and words."""
        ids = dict.fromkeys(id for _, group in self.store.manifest(self.name)["schedules"] for id in group)
        present = [id for id in ids if id in {*self.store.ids()}]
        records = {id: self.store.records(id) for id in present}
        cycles = {id: cycles_of(self.store.config(id)) for id in present}
        lost = [id for id in present if records[id] and "diverged" in records[id][-1]]
        ended = [id for id in present if id in lost or len(records[id]) == cycles[id]]
        recorded, total = sum(map(len, records.values())), sum(cycles.values())
        news = {} if len(ended) == len(ids) else progress.read(self.store, self.name)
        return {
            "done": len(ended) == len(ids),
            "records": recorded,
            "share": 1.0 if len(ended) == len(ids) else max(recorded / max(1, total), news.get("done", 0.0)),
            "words": words(news, len(ids), len(ended), len(lost)),
        }

    def page(self) -> str:
        with self.lock:
            state = self.state()
            if self.made[0] != state["records"]:
                self.made = (state["records"], html(self.store, [self.name], live=state))
        if state["done"]:
            self.last_seen.set()
        return self.made[1]


def words(news: dict[str, Any], runs: int, ended: int, lost: int) -> list[str]:
    """Short facts, one beside the other."""
    said = [f"{ended} of {runs} runs finished", *([f"{lost} diverged"] if lost else [])]
    if ended == runs:
        return ["done", *said]
    if not news:
        return ["nobody is training it now", *said]
    if news["age"] > progress.STALE:
        return [f"no news for {shown(news['age'])}", *said]
    low, high = news["lowest"], news["highest"]
    rates = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    said = [f"cycle {news['cycle'] + 1} of {news['cycles']}", f"step {news['step']:,} of {news['steps']:,}", *said]
    said += [f"learning rate {rates}"]
    said += [] if news["best"] is None else [f"best validation accuracy {100 * news['best']:.1f} %"]
    return [f"{shown(news['left'])} left", *said]


def handler(watch: Watch) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Two addresses, for this machine's browsers alone: a foreign name that leads here is refused."""

        def do_GET(self) -> None:
            answers: dict[str, tuple[str, Callable[[], str]]] = {
                "/": ("text/html; charset=utf-8", watch.page),
                "/state": ("application/json", lambda: json.dumps(watch.state())),
            }
            if self.headers.get("Host", "") not in allowed(self.server.server_port):  # type: ignore[attr-defined]
                self.answer(403, "text/plain", "this page is for this machine alone\n")
            elif self.path not in answers:
                self.answer(404, "text/plain", "no such page\n")
            else:
                kind, make = answers[self.path]
                self.answer(200, kind, make())

        def answer(self, code: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(code)
            for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nobody wants a line per look."""

    return Handler


def allowed(port: int) -> tuple[str, ...]:
    return (f"{HOST}:{port}", f"localhost:{port}")


class Server(ThreadingHTTPServer):
    daemon_threads = True


def served(watch: Watch, port: int) -> Server:
    """Listening on the loopback address alone; on the port asked for, or on the usual one, or on any."""
    for choice in (port,) if port else (PORT, 0):
        try:
            return Server((HOST, choice), handler(watch))
        except OSError as error:
            if choice != PORT or port:
                raise OSError(f"port {choice} of {HOST}: {error.strerror}; choose another with --port") from error
    raise AssertionError


def follow(watch: Watch, server: Server) -> None:
    """Until the experiment is done, and whoever looks at it has seen the end."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        while not watch.state()["done"]:
            time.sleep(POLL)
        watch.last_seen.wait(GRACE)
        time.sleep(POLL)  # for the answer to leave
    finally:
        server.shutdown()
        server.server_close()
