"""What the controller asks of the API server, through the official client, as plain JSON objects.

The client blocks, so each call runs in a thread. A conflict, a time-out or a 5xx is worth another try.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from controllers.actuator import ActuatorError

Object = dict[str, Any]
STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
AGAIN: Final = frozenset({408, 409, 429, 500, 502, 503, 504})


class RefusedError(Exception):
    """The API server says no, and will say so again; the text is its own."""


class KubeClient:
    """Raises `ActuatorError` where another try may help, `RefusedError` where not."""

    def __init__(
        self, api: client.ApiClient, timeout_s: float = 20.0, field_manager: str = "faultwire"
    ) -> None:
        self._core = client.CoreV1Api(api)
        self._timeout_s = timeout_s
        self._manager = field_manager

    @classmethod
    def connect(
        cls, kubeconfig: Path | None, timeout_s: float = 20.0, field_manager: str = "faultwire"
    ) -> KubeClient:
        """The named kubeconfig, else the pod's service account, else the user's own kubeconfig."""
        if kubeconfig is not None:
            return cls(config.new_client_from_config(str(kubeconfig)), timeout_s, field_manager)
        settings = client.Configuration()
        try:
            config.load_incluster_config(settings)
        except config.ConfigException:
            return cls(config.new_client_from_config(), timeout_s, field_manager)
        return cls(client.ApiClient(settings), timeout_s, field_manager)

    async def node(self, name: str) -> Object | None:
        return await self._ask(self._core.read_node, name)

    async def nodes(self) -> list[Object]:
        found = await self._ask(self._core.list_node)
        return list((found or {}).get("items", []))

    async def patch_node(self, name: str, body: Mapping[str, Any]) -> None:
        """A merge patch; with a `resourceVersion` in it, only onto exactly that version."""
        await self._ask(
            self._core.patch_node, name, dict(body), field_manager=self._manager, _content_type=MERGE
        )

    async def set_condition(self, name: str, condition: Mapping[str, Any]) -> None:
        body = {"status": {"conditions": [dict(condition)]}}
        await self._ask(
            self._core.patch_node_status, name, body, field_manager=self._manager, _content_type=STRATEGIC
        )

    async def pods(self, namespace: str, selector: str) -> list[Object]:
        found = await self._ask(self._core.list_namespaced_pod, namespace, label_selector=selector)
        return list((found or {}).get("items", []))

    async def evict(self, namespace: str, name: str, grace_s: int) -> None:
        """Through the eviction API, which a job's failure policy can tell from a failure. Gone is fine."""
        body = client.V1Eviction(
            metadata=client.V1ObjectMeta(name=name, namespace=namespace),
            delete_options=client.V1DeleteOptions(grace_period_seconds=grace_s),
        )
        await self._ask(self._core.create_namespaced_pod_eviction, name, namespace, body)

    async def _ask(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Object | None:
        """None for 404."""

        def ask() -> Object:
            answer = call(*arguments, _request_timeout=self._timeout_s, _preload_content=False, **options)
            if answer.status >= 400:
                raise ApiException(status=answer.status, reason=_message(answer.data))
            return dict(json.loads(answer.data))

        try:
            return await asyncio.to_thread(ask)
        except ApiException as exc:
            if exc.status == 404:
                return None
            text = f"{exc.status}: {exc.reason}"
            if exc.status in AGAIN:
                raise ActuatorError(f"API server: {text}") from exc
            raise RefusedError(text) from exc
        except (HTTPError, OSError) as exc:
            raise ActuatorError(f"API server: {type(exc).__name__}: {exc}") from exc


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return body[:200].decode("utf-8", "replace")
