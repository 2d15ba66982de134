"""The connector's loop: list all pods, then watch from there; after an expired watch, list again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.watch.watch import iter_resp_lines
from urllib3.exceptions import HTTPError

from collectors.schedulers.kubernetes.attempts import PodTracker
from collectors.schedulers.publisher import RawPublisher

log = logging.getLogger(__name__)

GONE: Final = 410
PAGE: Final = 500
WATCH_S: Final = 300
"""A watch is renewed after so long, from where it was; servers end them after five to ten minutes anyway."""
BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


def connect(kubeconfig: Path | None) -> client.ApiClient:
    """The named kubeconfig, else the pod's service account, else the user's own kubeconfig."""
    if kubeconfig is not None:
        return config.new_client_from_config(str(kubeconfig))
    settings = client.Configuration()
    try:
        config.load_incluster_config(settings)
    except config.ConfigException:
        return config.new_client_from_config()
    return client.ApiClient(settings)


@dataclass(slots=True)
class KubernetesConnector:
    """Runs until cancelled. `selector` narrows the pods that are asked for."""

    api: client.ApiClient
    tracker: PodTracker
    publisher: RawPublisher
    selector: str | None = None
    clock: Callable[[], int] = time.time_ns
    lists: int = 0
    """How often everything was listed anew."""

    async def run(self) -> None:
        for event in await self.publisher.recall():
            self.tracker.book.restore(event)
        failures = 0
        version: str | None = None
        try:
            while True:
                try:
                    if version is None:
                        version = await self._list()
                        failures = 0
                    version = await self._watch(version)
                except ApiException as exc:
                    if exc.status == GONE:
                        log.info("the watch has expired: listing anew")
                        version = None
                        continue
                    failures = await self._pause(failures, exc)
                except (HTTPError, OSError) as exc:
                    failures = await self._pause(failures, exc)
        finally:
            await self.publisher.close()

    async def _pause(self, failures: int, exc: Exception) -> int:
        pause = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
        log.warning(
            "the API server could not be asked, again in %.1f s: %s", pause, str(exc).split("\n", 1)[0]
        )
        await asyncio.sleep(pause)
        return failures + 1

    async def _list(self) -> str:
        """Everything, in pages; returns the version to watch from."""
        core = client.CoreV1Api(self.api)
        things: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            options = {"limit": PAGE, "_continue": token, "label_selector": self.selector}
            asked = {name: value for name, value in options.items() if value is not None}
            page = await asyncio.to_thread(_page, core, asked)
            things += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                break
        self.lists += 1
        await self.publisher.publish(self.tracker.listed(things, self.clock()))
        return str(page["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        """Until the server ends it; returns the version to go on from. Raises `ApiException` with 410."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1000)
        options = {"resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S}
        if self.selector is not None:
            options["label_selector"] = self.selector
        answer = await asyncio.to_thread(_open, client.CoreV1Api(self.api), {**options, "watch": True})

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

    async def _take(self, event: dict[str, Any], version: str) -> str:
        thing = event["object"]
        if event["type"] == "ERROR":
            raise ApiException(
                status=thing.get("code"), reason=f"{thing.get('reason')}: {thing.get('message')}"
            )
        now = self.clock()
        if event["type"] == "DELETED":
            await self.publisher.publish(self.tracker.gone(thing, now))
        elif event["type"] in {"ADDED", "MODIFIED"}:
            await self.publisher.publish(self.tracker.seen(thing, now))
        return str(thing["metadata"].get("resourceVersion", version))


def _open(core: client.CoreV1Api, options: dict[str, Any]) -> Any:
    answer = core.list_pod_for_all_namespaces(
        _preload_content=False, _request_timeout=(30.0, WATCH_S + 30.0), **options
    )
    if answer.status >= 400:
        raise ApiException(status=answer.status, reason=answer.data[:200].decode("utf-8", "replace"))
    return answer


def _page(core: client.CoreV1Api, options: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(_open(core, options).data))
