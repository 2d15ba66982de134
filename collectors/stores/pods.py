"""Logs of a job's pods from the Kubernetes API, of containers that run and of those before them.

The API keeps what the node keeps: the current and the previous container of each pod that still exists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.files import leading_time
from collectors.stores.loki_answers import Entry
from collectors.stores.slices import Span
from topics.kube import KubeJob
from topics.time import NS_PER_S

TIMEOUT_S: Final = (10.0, 60.0)
NOT_THERE: Final = (400, 404)
"""400: the container has not started, or there was none before it."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One container's log."""

    pod: str
    container: str
    previous: bool
    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{self.pod}/{self.container}" + (" (previous)" if self.previous else "")


def streams(things: Sequence[Mapping[str, Any]]) -> list[Stream]:
    """What there is to read of the pods of a list. Pods that got no node have written nothing."""
    found: list[Stream] = []
    for thing in things:
        meta, spec, status = thing["metadata"], thing.get("spec", {}), thing.get("status", {})
        node = spec.get("nodeName")
        if not node:
            continue
        labels = {"node": node, "pod": meta["name"], "namespace": meta["namespace"]}
        restarted = {s["name"] for s in status.get("containerStatuses") or () if s.get("restartCount", 0) > 0}
        for container in spec.get("containers") or ():
            name = container["name"]
            own = {**labels, "container": name}
            if name in restarted:
                found.append(Stream(meta["name"], name, True, own))
            found.append(Stream(meta["name"], name, False, own))
    return found


def read_lines(body: bytes, labels: Mapping[str, str], most_chars: int) -> Iterator[Entry]:
    """Lines as the API gives them with `timestamps`: `<RFC 3339> <line>`. Lines without one are left out."""
    for line in body.split(b"\n"):
        stamp, text = leading_time(line.decode("utf-8", "replace").rstrip("\r"))
        if stamp is not None:
            yield Entry(stamp, labels, text[:most_chars])


@dataclass(slots=True)
class PodFetch:
    """The logs of the pods of one job."""

    api: client.ApiClient
    job: KubeJob
    meter: Meter
    clock: Callable[[], int] = time.time_ns
    problems: list[str] = field(default_factory=list)

    async def pods(self) -> list[dict[str, Any]]:
        """The job's pods that exist; raises `StoreError`."""
        core = client.CoreV1Api(self.api)
        try:
            answer = await asyncio.to_thread(
                core.list_namespaced_pod,
                self.job.namespace,
                label_selector=self.job.selector,
                _request_timeout=TIMEOUT_S,
            )
        except (ApiException, HTTPError, OSError) as exc:
            raise StoreError(f"pods of {self.job.job_id}: {_first_line(exc)}") from exc
        self.meter.requests += 1
        found: list[dict[str, Any]] = self.api.sanitize_for_serialization(answer)["items"]
        return found

    async def read(self, stream: Stream, span: Span) -> list[Entry]:
        """Its lines in the span; raises `StoreError`, and `BoundReachedError` when enough has come."""
        self.meter.check()
        self.meter.requests += 1
        most = self.meter.bounds.max_answer_bytes
        try:
            body = await asyncio.to_thread(self._body, stream, span, most)
        except ApiException as exc:
            if exc.status in NOT_THERE and stream.previous:
                return []
            raise StoreError(f"{stream.name}: {exc.status} {exc.reason}", status=exc.status) from exc
        except (HTTPError, OSError) as exc:
            raise StoreError(f"{stream.name}: {_first_line(exc)}") from exc
        if len(body) >= most:
            self.problems.append(f"{stream.name}: more than {most:,} bytes; the last lines are not read")
        entries = list(read_lines(body, stream.labels, self.meter.bounds.max_line_chars))
        self.meter.take(size=len(body), lines=len(entries))
        return [e for e in entries if span.start <= e.time < span.end]

    def _body(self, stream: Stream, span: Span, most: int) -> bytes:
        core = client.CoreV1Api(self.api)
        answer = core.read_namespaced_pod_log(
            stream.pod,
            self.job.namespace,
            container=stream.container,
            previous=stream.previous,
            timestamps=True,
            since_seconds=max(1, (self.clock() - span.start) // NS_PER_S + 1),
            limit_bytes=most,
            _preload_content=False,
            _request_timeout=TIMEOUT_S,
        )
        try:
            body: bytes = answer.read()
        finally:
            answer.release_conn()
        return body


def _first_line(exc: Exception) -> str:
    return (str(exc) or type(exc).__name__).splitlines()[0]
