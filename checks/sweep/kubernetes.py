"""Borrows idle nodes from Kubernetes: a NoSchedule taint whose value names the owner.

A taint does not end by itself: one that was left behind goes when the same owner starts again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from checks.sweep.loans import Loan, LoanError
from checks.sweep.settings import KubernetesLoan
from checks.sweep.topology import Topology, from_labels

Object = dict[str, Any]
MERGE: Final = "application/merge-patch+json"
TRIES: Final = 5
"""A node that others change at the same moment is read again."""


class KubernetesLender:
    """Needs to list nodes and pods, and to patch nodes."""

    name = "kubernetes"

    def __init__(
        self,
        api: client.ApiClient,
        settings: KubernetesLoan,
        owner: str,
        allowed: Sequence[str] | None = None,
    ) -> None:
        self._core = client.CoreV1Api(api)
        self._settings = settings
        self._owner = owner
        self._allowed = None if allowed is None else set(allowed)

    @classmethod
    def connect(
        cls,
        kubeconfig: Path | None,
        settings: KubernetesLoan,
        owner: str,
        allowed: Sequence[str] | None = None,
    ) -> KubernetesLender:
        """The named kubeconfig, else the pod's service account, else the user's own. Raises `LoanError`."""
        try:
            if kubeconfig is not None:
                return cls(config.new_client_from_config(str(kubeconfig)), settings, owner, allowed)
            told = client.Configuration()
            try:
                config.load_incluster_config(told)
            except config.ConfigException:
                return cls(config.new_client_from_config(), settings, owner, allowed)
            return cls(client.ApiClient(told), settings, owner, allowed)
        except (config.ConfigException, OSError) as exc:
            raise LoanError(f"no way to an API server: {exc}") from exc

    async def idle(self) -> list[str]:
        used = await self._used()
        return [
            name
            for name, node in sorted((await self._nodes()).items())
            if name not in used
            and ready(node)
            and not self._taints(node, ours=None)
            and (self._allowed is None or name in self._allowed)
        ]

    async def topology(self) -> Topology | None:
        nodes = await self._nodes()
        return from_labels({name: node["metadata"].get("labels") or {} for name, node in nodes.items()})

    async def take(self, nodes: Sequence[str], limit_s: float) -> Loan:
        """Taints first, and then looks who came in between: those nodes go back at once."""
        del limit_s  # a taint has no end
        try:
            taken = [name for name in nodes if await self._set_taint(name, wanted=True)]
            used = await self._used()
        except LoanError:
            await self.leftovers()
            raise
        for name in [name for name in taken if name in used]:
            await self._set_taint(name, wanted=False)
        kept = tuple(name for name in taken if name not in used)
        if not kept:
            raise LoanError("no node is idle any more")
        return Loan(kept)

    async def wanted(self, loan: Loan) -> str | None:
        """A pod that asks for GPUs can't be scheduled; or one came in spite of the taint."""
        for pod in await self._pods():
            name = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
            if not self._asks(pod):
                continue
            node = pod.get("spec", {}).get("nodeName")
            if node in loan.nodes and pod.get("status", {}).get("phase") in {"Pending", "Running", None}:
                return f"pod {name} was put on {node}"
            if node is None and unschedulable(pod):
                return f"pod {name} waits for a node"
        return None

    async def give_back(self, loan: Loan) -> None:
        for name in loan.nodes:
            await self._set_taint(name, wanted=False)

    async def leftovers(self) -> list[str]:
        nodes = await self._nodes(everywhere=True)
        left = [name for name, node in sorted(nodes.items()) if self._taints(node, ours=True)]
        for name in left:
            await self._set_taint(name, wanted=False)
        return [f"taint of {name}" for name in left]

    # -- inside ------------------------------------------------------------------------------------------

    def _taints(self, node: Object, ours: bool | None) -> list[Object]:
        """Taints of our key: of this owner, of others, or (None) of anybody."""
        found = [t for t in node.get("spec", {}).get("taints") or () if t.get("key") == self._settings.taint]
        return found if ours is None else [t for t in found if (t.get("value") == self._owner) == ours]

    async def _set_taint(self, name: str, *, wanted: bool) -> bool:
        """Whether it is as wanted now; another owner's taint is left alone."""
        for _ in range(TRIES):
            node = await self._ask(self._core.read_node, name)
            if node is None:
                return not wanted
            if self._taints(node, ours=False) and wanted:
                return False
            if bool(self._taints(node, ours=True)) == wanted:
                return True
            taints = [
                t for t in node.get("spec", {}).get("taints") or () if t not in self._taints(node, ours=True)
            ]
            if wanted:
                taints.append({"key": self._settings.taint, "value": self._owner, "effect": "NoSchedule"})
            body = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": taints},
            }
            if await self._patch(name, body):
                return True
        raise LoanError(f"{name} changes faster than it can be marked")

    async def _patch(self, name: str, body: Mapping[str, Any]) -> bool:
        """False when somebody changed the node since it was read."""
        try:
            await self._ask(
                self._core.patch_node, name, dict(body), field_manager="faultwire-sweep", _content_type=MERGE
            )
        except _ConflictError:
            return False
        return True

    async def _nodes(self, *, everywhere: bool = False) -> dict[str, Object]:
        options = {} if everywhere else {"label_selector": self._settings.selector}
        found = await self._ask(self._core.list_node, **options)
        return {node["metadata"]["name"]: node for node in (found or {}).get("items", [])}

    async def _pods(self) -> list[Object]:
        found = await self._ask(self._core.list_pod_for_all_namespaces)
        return list((found or {}).get("items", []))

    async def _used(self) -> set[str]:
        over = {"Succeeded", "Failed"}
        return {
            pod["spec"]["nodeName"]
            for pod in await self._pods()
            if pod.get("spec", {}).get("nodeName")
            and pod.get("status", {}).get("phase") not in over
            and self._asks(pod)
        }

    def _asks(self, pod: Object) -> bool:
        containers = pod.get("spec", {}).get("containers") or ()
        wants = (
            (c.get("resources") or {}).get(sort) or {} for c in containers for sort in ("requests", "limits")
        )
        return any(str(want.get(self._settings.resource, "0")) != "0" for want in wants)

    async def _ask(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Object | None:
        """Plain JSON objects; None for 404."""

        def ask() -> Object:
            answer = call(
                *arguments,
                _request_timeout=self._settings.request_timeout_s,
                _preload_content=False,
                **options,
            )
            if answer.status >= 400:
                raise ApiException(status=answer.status, reason=str(answer.data[:200]))
            return dict(json.loads(answer.data))

        try:
            return await asyncio.to_thread(ask)
        except ApiException as exc:
            if exc.status == 404:
                return None
            if exc.status == 409:
                raise _ConflictError(str(exc.reason)) from exc
            raise LoanError(f"API server: {exc.status}: {exc.reason}") from exc
        except (HTTPError, OSError) as exc:
            raise LoanError(f"API server: {type(exc).__name__}: {exc}") from exc


class _ConflictError(LoanError):
    """Somebody changed the object since it was read."""


def ready(node: Object) -> bool:
    """In service: ready, not cordoned, and without a taint that keeps work away."""
    spec = node.get("spec", {})
    if spec.get("unschedulable") or any(
        t.get("effect") != "PreferNoSchedule" for t in spec.get("taints") or ()
    ):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def unschedulable(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in conditions
    )
