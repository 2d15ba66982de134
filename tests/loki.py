"""A stand-in for Loki's query API, for tests that fetch log lines; or a front that a real Loki stands behind.

Building Loki takes a while (`make loki`), so what its API does is written down here: `start` included, `end`
not, at most `limit` lines of all streams together, in the order of `direction` (those of one instant in any),
a refusal above `max_entries_limit`, tenants, series. The fixture `either_loki` runs a test on both: with the
real one, this server only injects the faults that a test asks for, and hands everything else on.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

import httpx

from tests.loki_real import Labels, RealLoki

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
    behind: RealLoki | None = None
    owner: str = ""
    """The tenant in the real one."""

    def push(self, streams: Iterable[tuple[Labels, list[tuple[int, str]]]]) -> None:
        """Streams as (labels, [(ns, line)]); as in Loki, a line that is there already is there once."""
        if self.behind is not None:
            self.behind.push(self.owner, streams)
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
        self._serve(parts.path, parts.query)

    def do_POST(self) -> None:
        self._serve(
            urlsplit(self.path).path, self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        )

    def _serve(self, path: str, form: str) -> None:
        asked = {k: v[-1] for k, v in parse_qs(form).items()}
        loki = self.loki
        loki.asked.append((path, asked))
        if loki.tenant is not None and self.headers.get("x-scope-orgid") != loki.tenant:
            self.say(401, b"no org id")
        elif loki.authorization is not None and self.headers.get("authorization") != loki.authorization:
            self.say(401, b"who are you?")
        elif loki.fault is not None and loki.fault(self, path, asked):
            return
        elif loki.behind is not None:
            self._hand_on(loki.behind, path, form)
        elif path == "/loki/api/v1/query_range":
            self._query(asked)
        elif path == "/loki/api/v1/series":
            self._series(asked)
        else:
            self.say(404, b"404 page not found")

    def _hand_on(self, real: RealLoki, path: str, form: str) -> None:
        headers = {"X-Scope-OrgID": self.loki.owner}
        if self.command == "GET":
            answer = httpx.get(f"{real.url}{path}?{form}", headers=headers, timeout=60)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            answer = httpx.post(f"{real.url}{path}", content=form, headers=headers, timeout=60)
        self.say(answer.status_code, answer.content, answer.headers.get("content-type", ""))

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
            (at, crc32(line.encode()), key, line)  # lines of one instant come in no order of theirs
            for key, values in loki.streams.items()
            for at, line in values
            if start <= at < end and wanted(dict(key), line)
        )
        if asked.get("direction", "backward") == "backward":
            found.reverse()
        rows: dict[Any, list[list[str]]] = {}
        for at, _, key, line in found[:limit]:
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


real: RealLoki | None = None
"""What stands behind every stand-in that is started, while a test is run on the real one."""


@contextmanager
def running(loki: Loki | None = None, handler: type[Handler] = Handler) -> Iterator[Loki]:
    loki = loki or Loki()
    if real is not None:
        standard = Loki().limit
        limits = {} if loki.limit == standard else {"max_entries_limit_per_query": loki.limit}
        loki.behind, loki.owner = real, real.tenant(**limits)
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
