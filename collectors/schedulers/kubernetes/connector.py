"""The connector's loop: pods tell who runs where, what owns them tells why they were taken away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes import client, config

from collectors.schedulers.kubernetes.attempts import PodTracker
from collectors.schedulers.kubernetes.owners import RESOURCES, Resource
from collectors.schedulers.kubernetes.reflector import PODS, Reflector, Thing
from collectors.schedulers.publisher import RawPublisher


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
    pods: Reflector = field(init=False)

    def __post_init__(self) -> None:
        self.pods = Reflector(self.api, PODS, self._pods_listed, self._pod_changed, self.selector)

    async def run(self) -> None:
        for event in await self.publisher.recall():
            self.tracker.book.restore(event)
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in (self.pods, *map(self._owners, RESOURCES)):
                    tasks.create_task(reflector.run())
        finally:
            await self.publisher.close()

    async def _pods_listed(self, things: list[Thing]) -> None:
        await self.publisher.publish(self.tracker.listed(things, self.clock()))

    async def _pod_changed(self, what: str, thing: Thing) -> None:
        tell = self.tracker.gone if what == "DELETED" else self.tracker.seen
        await self.publisher.publish(tell(thing, self.clock()))

    def _owners(self, resource: Resource) -> Reflector:
        async def listed(things: list[Thing]) -> None:
            for thing in things:
                await changed("MODIFIED", thing)

        async def changed(what: str, thing: Thing) -> None:
            now = self.clock()
            gone_at = now if what == "DELETED" else None
            await self.publisher.publish(self.tracker.owner_said(thing, resource, now, gone_at))

        return Reflector(self.api, resource.path, listed, changed, optional=True)
