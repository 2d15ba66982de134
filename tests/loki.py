"""A stand-in for Loki's query API, after its HTTP API documentation, for tests that fetch log lines.

Grafana's Loki comes in no package that this project builds on (Debian's `loki` is another program), so what
its API promises is written down here: `start` included, `end` not, at most `limit` lines of all streams
together, in the order of `direction`, a refusal above `max_entries_limit`, tenants, series. With
FAULTWIRE_LOKI=http://host:port the tests that need no faults use that Loki instead.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

Labels = Mapping[str, str]
Fault = Callable[["Handler", str, dict[str, str]], bool]
"""Answers a request in its own way; True when it did."""

_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|=|!=)\s*("(?:[^"\\]|\\.)*"|`[^`]*`)\s*(,|\})')
_FILTER = re.compile(r'\s*(\|=|!=|\|~|!~)\s*("(?:[^"\\]|\\.)*"|`[^`]*`)')


@dataclass
class Loki:
    """What is kept, what was asked, and how it fails."""

    limit: int = 5000
    tenant: str | None = None
    authorization: str | None = None
    fault: Fault | None = None
    streams: dict[tuple[tuple[str, str], ...], list[tuple[int, str]]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    real: bool = False

    def push(self, streams: Iterable[tuple[Labels, list[tuple[int, str]]]]) -> None:
        """Streams as (labels, [(ns, line)]); as in Loki, a line that is there already is there once."""
        if self.real:
            _push(self.url, streams)
            return
        for labels, values in streams:
            kept = self.streams.setdefault(tuple(sorted(labels.items())), [])
            kept += [v for v in values if v not in set(kept)] if kept else values
            kept.sort(key=lambda v: v[0])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    loki: Loki

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._serve(parts.path, {k: v[-1] for k, v in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self._serve(urlsplit(self.path).path, {k: v[-1] for k, v in parse_qs(body).items()})

    def _serve(self, path: str, asked: dict[str, str]) -> None:
        loki = self.loki
        loki.asked.append((path, asked))
        if loki.tenant is not None and self.headers.get("x-scope-orgid") != loki.tenant:
            self.say(401, b"no org id")
        elif loki.authorization is not None and self.headers.get("authorization") != loki.authorization:
            self.say(401, b"who are you?")
        elif loki.fault is not None and loki.fault(self, path, asked):
            return
        elif path == "/loki/api/v1/query_range":
            self._query(asked)
        elif path == "/loki/api/v1/series":
            self._series(asked)
        else:
            self.say(404, b"404 page not found")

    def _query(self, asked: dict[str, str]) -> None:
        loki = self.loki
        limit = int(asked.get("limit", 100))
        if limit > loki.limit:
            text = f"max entries limit per query exceeded, limit > max_entries_limit ({limit} > {loki.limit})"
            self.say(400, text.encode())
            return
        try:
            wanted = selector(asked["query"])
        except ValueError as exc:
            self.say(400, f"parse error : {exc}".encode())
            return
        start, end = int(asked["start"]), int(asked["end"])
        found = sorted(
            (at, key, line)
            for key, values in loki.streams.items()
            for at, line in values
            if start <= at < end and wanted(dict(key), line)
        )
        if asked.get("direction", "backward") == "backward":
            found.reverse()
        rows: dict[Any, list[list[str]]] = {}
        for at, key, line in found[:limit]:
            rows.setdefault(key, []).append([str(at), line])
        result = [{"stream": dict(key), "values": values} for key, values in rows.items()]
        self.say_json({"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}})

    def _series(self, asked: dict[str, str]) -> None:
        wanted = selector(asked["match[]"])
        start, end = int(asked["start"]), int(asked["end"])
        found = [
            dict(key)
            for key, values in self.loki.streams.items()
            if wanted(dict(key), None) and any(start <= at < end for at, _ in values)
        ]
        self.say_json({"status": "success", "data": found})

    def say_json(self, document: Any) -> None:
        self.say(200, json.dumps(document).encode(), "application/json")

    def say(self, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def cut(self, promised: int, body: bytes) -> None:
        """Less than was promised, then nothing."""
        self.send_response(200)
        self.send_header("content-length", str(promised))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True


def selector(query: str) -> Callable[[Labels, str | None], bool]:
    """The stream selector and the line filters of a LogQL query; raises `ValueError` for anything else."""
    if not query.startswith("{"):
        raise ValueError("unexpected character")
    tests: list[tuple[str, str, str]] = []
    at = 1
    while True:
        found = _MATCHER.match(query, at)
        if not found:
            raise ValueError(f"no matcher at {at}: {query!r}")
        tests.append((found[1], found[2], _text(found[3])))
        at = found.end()
        if found[4] == "}":
            break
    filters: list[tuple[str, str]] = []
    while query[at:].strip():
        found = _FILTER.match(query, at)
        if not found:
            raise ValueError(f"no filter at {at}: {query!r}")
        filters.append((found[1], _text(found[2])))
        at = found.end()

    def wanted(labels: Labels, line: str | None) -> bool:
        return all(_fits(labels.get(name, ""), how, what) for name, how, what in tests) and (
            line is None or all(_has(line, how, what) for how, what in filters)
        )

    return wanted


def _text(quoted: str) -> str:
    return quoted[1:-1] if quoted[0] == "`" else str(json.loads(quoted))


def _fits(value: str, how: str, what: str) -> bool:
    same = value == what if how in ("=", "!=") else re.fullmatch(what, value) is not None
    return same != how.startswith("!")


def _has(line: str, how: str, what: str) -> bool:
    there = what in line if how in ("|=", "!=") else re.search(what, line) is not None
    return there != how.startswith("!")


@contextmanager
def running(loki: Loki | None = None, handler: type[Handler] = Handler) -> Iterator[Loki]:
    """The stand-in, or the Loki that FAULTWIRE_LOKI names where the test asks for nothing special."""
    real = os.environ.get("FAULTWIRE_LOKI")
    if real and loki is None:
        yield Loki(url=real, real=True)
        return
    loki = loki or Loki()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), {"loki": loki}))
    server.daemon_threads = True
    loki.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield loki
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def _push(url: str, streams: Iterable[tuple[Labels, list[tuple[int, str]]]]) -> None:
    rows = [
        {"stream": dict(labels), "values": [[str(at), line] for at, line in values]}
        for labels, values in streams
        if values
    ]
    for i in range(0, len(rows), 100):
        answer = httpx.post(f"{url}/loki/api/v1/push", json={"streams": rows[i : i + 100]}, timeout=30)
        assert answer.status_code == 204, answer.text
