"""One collection of the API, kept current: list all of it, then watch from there; expired, list again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.watch.watch import iter_resp_lines
from urllib3.exceptions import HTTPError

log = logging.getLogger(__name__)

PODS: Final = "/api/v1/pods"
GONE: Final = 410
PAGE: Final = 500
WATCH_S: Final = 300
"""A watch is renewed after so long, from where it was; servers end them after five to ten minutes anyway."""
BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
ABSENT_S: Final = 300.0
"""How often a collection that the server does not know, or does not show us, is asked for again."""

Thing = dict[str, Any]


@dataclass(slots=True)
class Reflector:
    """Runs until cancelled: `listed` with everything, then `changed` with (event type, object)."""

    api: client.ApiClient
    path: str
    listed: Callable[[list[Thing]], Awaitable[None]]
    changed: Callable[[str, Thing], Awaitable[None]]
    selector: str | None = None
    optional: bool = False
    """A kind that not every cluster has (404), or that we may not be allowed to see (403)."""
    lists: int = 0
    """How often everything was listed anew."""

    async def run(self) -> None:
        failures = 0
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                    failures = 0
                version = await self._watch(version)
            except ApiException as exc:
                if exc.status == GONE:
                    log.info("the watch of %s has expired: listing anew", self.path)
                    version = None
                elif self.optional and exc.status in {403, 404}:
                    await self._absent(exc)
                    version = None
                else:
                    failures = await self._pause(failures, exc)
            except (HTTPError, OSError) as exc:
                failures = await self._pause(failures, exc)

    async def _pause(self, failures: int, exc: Exception) -> int:
        pause = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
        log.warning(
            "the API server could not be asked for %s, again in %.1f s: %s",
            self.path, pause, str(exc).split("\n", 1)[0],
        )  # fmt: skip
        await asyncio.sleep(pause)
        return failures + 1

    async def _absent(self, exc: ApiException) -> None:
        denied = "not allowed: apply deploy/kubernetes/connector-rbac.yaml"
        why = denied if exc.status == 403 else "the server has no such kind"
        log.info("%s is not watched (%s)", self.path, why)
        await asyncio.sleep(ABSENT_S)

    async def _list(self) -> str:
        """Everything, in pages; returns the version to watch from."""
        things: list[Thing] = []
        token: str | None = None
        while True:
            page = await asyncio.to_thread(self._page, {"limit": PAGE, "_continue": token})
            things += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                break
        self.lists += 1
        await self.listed(things)
        return str(page["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        """Until the server ends it; returns the version to go on from. Raises `ApiException` with 410."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1000)
        options = {
            "watch": True, "resource_version": version,
            "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S,
        }  # fmt: skip
        answer = await asyncio.to_thread(self._open, options)

        def read() -> None:
            """In a thread: the official client blocks."""
            try:
                for line in iter_resp_lines(answer):
                    asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            finally:
                asyncio.run_coroutine_threadsafe(lines.put(None), loop).result()

        reader = asyncio.create_task(asyncio.to_thread(read))
        try:
            while (line := await lines.get()) is not None:
                if line:
                    version = await self._take(json.loads(line), version)
            await reader
        finally:
            with contextlib.suppress(OSError, RuntimeError):  # already at its end
                answer.shutdown()  # wakes the thread, wherever it waits
            while not reader.done():  # and lets it get rid of what it has read
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(lines.get(), 0.1)
            reader.exception()  # a cut connection: seen, and of no interest any more
            answer.release_conn()
        return version

    async def _take(self, event: Mapping[str, Any], version: str) -> str:
        thing = event["object"]
        if event["type"] == "ERROR":
            raise ApiException(
                status=thing.get("code"), reason=f"{thing.get('reason')}: {thing.get('message')}"
            )
        if event["type"] != "BOOKMARK":
            await self.changed(event["type"], thing)
        return str(thing["metadata"].get("resourceVersion", version))

    def _page(self, options: Mapping[str, Any]) -> Thing:
        return dict(json.loads(self._open(options).data))

    def _open(self, options: Mapping[str, Any]) -> Any:
        """One request; the answer is not read yet. Raises `ApiException` for a status from 400 on."""
        asked = {"label_selector": self.selector, **options}
        answer = self._call()(
            _preload_content=False,
            _request_timeout=(30.0, WATCH_S + 30.0),
            **{name: value for name, value in asked.items() if value is not None},
        )
        if answer.status >= 400:
            raise ApiException(status=answer.status, reason=answer.data[:200].decode("utf-8", "replace"))
        return answer

    def _call(self) -> Callable[..., Any]:
        """The client's own call for the path: pods, or any collection of an API group."""
        if self.path == PODS:
            return client.CoreV1Api(self.api).list_pod_for_all_namespaces  # type: ignore[no-any-return]
        _, _, group, version, plural = self.path.split("/")
        return partial(client.CustomObjectsApi(self.api).list_cluster_custom_object, group, version, plural)
