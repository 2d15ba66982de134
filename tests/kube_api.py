"""The part of a Kubernetes API server that connector and controller talk to, over HTTP, in a thread.

Objects with resource versions, merge patches with preconditions, watches that resume and expire, evictions
that a disruption budget may refuse. It is no Kubernetes: no scheduler, no kubelet; tests play those.
"""

from __future__ import annotations

import copy
import json
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes import client

Object = dict[str, Any]


@dataclass
class Api:
    """The state, and what tests do with it. `kinds` maps a collection's path to its objects."""

    kinds: dict[str, dict[str, Object]] = field(default_factory=dict)
    log: dict[str, list[tuple[int, str, Object]]] = field(default_factory=dict)
    version: int = 100
    oldest: int = 0
    """Watches from before this version get 410 Gone."""
    budget: bool = True
    """Whether evictions are allowed now."""
    evicted: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    watchers: list[tuple[str, queue.Queue[tuple[int, str, Object] | None]]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, path: str, thing: Object) -> Object:
        """Create or replace `<namespace>/<name>` (or `<name>`) of a collection."""
        with self.lock:
            key = key_of(thing)
            new = key not in self.kinds.setdefault(path, {})
            self.version += 1
            thing = copy.deepcopy(thing)
            thing["metadata"]["resourceVersion"] = str(self.version)
            self.kinds[path][key] = thing
            self._tell(path, "ADDED" if new else "MODIFIED", thing)
            return thing

    def change(self, path: str, key: str, patch: Object) -> Object:
        with self.lock:
            return self.put(path, merged(self.kinds[path][key], patch))

    def remove(self, path: str, key: str) -> None:
        with self.lock:
            thing = self.kinds[path].pop(key)
            self.version += 1
            thing["metadata"]["resourceVersion"] = str(self.version)
            self._tell(path, "DELETED", thing)

    def expire(self) -> None:
        """Forget the history, as a server does after some minutes, and end every watch."""
        with self.lock:
            self.oldest = self.version + 1
            self.version += 1
            self.cut()

    def cut(self) -> None:
        """End every watch."""
        with self.lock:
            for _, watcher in self.watchers:
                watcher.put(None)
            self.watchers.clear()

    def _tell(self, path: str, kind: str, thing: Object) -> None:
        entry = (self.version, kind, copy.deepcopy(thing))
        self.log.setdefault(path, []).append(entry)
        for watched, watcher in self.watchers:
            if watched == path:
                watcher.put(entry)


def key_of(thing: Object) -> str:
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def merged(thing: Object, patch: Object) -> Object:
    """RFC 7386."""
    result = copy.deepcopy(thing)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name) or {}, value)
        else:
            result[name] = copy.deepcopy(value)
    return result


PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


def node(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": []}}


def pod(
    name: str,
    node_name: str | None = None,
    *,
    namespace: str = "train",
    phase: str = "Pending",
    uid: str | None = None,
    created: float | None = None,
    labels: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    status: Object | None = None,
) -> Object:
    created = time.time() - 60 if created is None else created
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))
    spec: Object = {
        "containers": [{"name": "main", "env": [{"name": k, "value": v} for k, v in (env or {}).items()]}]
    }
    if node_name is not None:
        spec["nodeName"] = node_name
    found: Object = {"phase": phase, **(status or {})}
    if node_name is not None:
        found.setdefault("startTime", stamp)
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}-{int(created)}",
            "creationTimestamp": stamp,
            "labels": labels
            or {"jobset.sigs.k8s.io/jobset-name": "llama", "batch.kubernetes.io/job-name": "llama-0"},
        },
        "spec": spec,
        "status": found,
    }


@contextmanager
def api_server() -> Iterator[tuple[Api, client.ApiClient]]:
    """The state, and an official client that talks to it over loopback."""
    api = Api({PODS: {}, NODES: {}})

    class Handler(_Handler):
        state = api

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    configuration = client.Configuration(host=f"http://127.0.0.1:{server.server_address[1]}")
    configuration.retries = False
    talker = client.ApiClient(configuration)
    try:
        yield api, talker
    finally:
        api.cut()
        talker.rest_client.pool_manager.clear()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Api
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        path, query = self._asked()
        collection, key = self._place(path)
        with self.state.lock:
            things = self.state.kinds.get(collection)
            if things is None:
                return self._answer(404, {"message": f"no {collection}"})
            if key:
                found = things.get(key)
                return self._answer(200, found) if found else self._answer(404, {"message": f"no {key}"})
            if query.get("watch") != "true":
                items = [t for t in things.values() if self._wanted(t, path, query)]
                return self._answer(
                    200, {"items": items, "metadata": {"resourceVersion": str(self.state.version)}}
                )
            since = int(query.get("resourceVersion", "0"))
            watcher: queue.Queue[tuple[int, str, Object] | None] = queue.Queue()
            gone = since < self.state.oldest
            if not gone:
                for entry in self.state.log.get(collection, []):
                    if entry[0] > since:
                        watcher.put(entry)
                self.state.watchers.append((collection, watcher))
        return self._stream(watcher, gone)

    def do_PATCH(self) -> None:
        path, _ = self._asked()
        body = self._body()
        status = path.endswith("/status")
        collection, key = self._place(path.removesuffix("/status"))
        with self.state.lock:
            found = self.state.kinds.get(collection, {}).get(key)
            if found is None:
                return self._answer(404, {"message": f"no {key}"})
            wanted = body.get("metadata", {}).pop("resourceVersion", None)
            if wanted is not None and wanted != found["metadata"]["resourceVersion"]:
                return self._answer(409, {"message": "the object has been modified"})
            if status:  # a strategic merge: conditions by their type
                new = {c["type"]: c for c in body["status"]["conditions"]}
                kept = [c for c in found["status"]["conditions"] if c["type"] not in new]
                body = {"status": {"conditions": [*kept, *new.values()]}}
            return self._answer(200, self.state.change(collection, key, body))

    def do_POST(self) -> None:
        path, _ = self._asked()
        body = self._body()
        if not path.endswith("/eviction"):
            return self._answer(404, {"message": f"no {path}"})
        collection, key = self._place(path.removesuffix("/eviction"))
        with self.state.lock:
            if key not in self.state.kinds[collection]:
                return self._answer(404, {"message": f"no {key}"})
            if not self.state.budget:
                return self._answer(429, {"message": "Cannot evict pod as it would violate the budget"})
            self.state.evicted.append(key)
            self.state.change(collection, key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        return self._answer(201, body)

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        self.state.requests.append((self.command, parts.path))
        return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}

    @staticmethod
    def _place(path: str) -> tuple[str, str]:
        """The collection and the key in it: `/api/v1/namespaces/x/pods/y` is `x/y` of `/api/v1/pods`."""
        words = path.strip("/").split("/")
        root = 2 if words[0] == "api" else 3
        rest = words[root:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        collection = "/" + "/".join([*words[:root], rest[0]])
        name = rest[1] if len(rest) > 1 else ""
        return collection, f"{namespace}/{name}" if namespace and name else name

    @staticmethod
    def _wanted(thing: Object, path: str, query: dict[str, str]) -> bool:
        labels = thing["metadata"].get("labels", {})
        selector = query.get("labelSelector")
        if selector and labels.get(selector.partition("=")[0]) != selector.partition("=")[2]:
            return False
        words = path.strip("/").split("/")
        return (
            "namespaces" not in words
            or thing["metadata"].get("namespace") == words[words.index("namespaces") + 1]
        )

    def _body(self) -> Object:
        return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, status: int, body: Object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, watcher: queue.Queue[tuple[int, str, Object] | None], gone: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if gone:
            self._chunk({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
        else:
            while (entry := watcher.get()) is not None:
                try:
                    self._chunk({"type": entry[1], "object": entry[2]})
                except OSError:
                    return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, body: Object) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
