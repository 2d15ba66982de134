"""What each action means on Kubernetes, as steps that look before they act.

A node is taken out by cordon, a taint and a condition; the taint's value and an annotation are the mark by
which it is known to be ours. A job is restarted by evicting the pods that it had when that was decided: its
own controller makes new ones, and those are never touched.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from controllers.actuator import Done, StepResult, Stop, Trait, Wait
from controllers.kubernetes.client import KubeClient, Object, RefusedError
from controllers.kubernetes.settings import KubernetesSettings
from controllers.limits import Standing
from controllers.marks import is_ours, mark
from topics.control import Undertaking
from topics.derived import Action, ActionName
from topics.events import Event
from topics.kube import KubeJob, parse_job_id
from topics.time import NS_PER_S, format_rfc3339, parse_rfc3339

STEPS: Final[Mapping[ActionName, tuple[str, ...]]] = {
    "interrupt_and_restart": ("cordon", "evict", "verify"),
    "cordon": ("cordon",),
    "drain": ("cordon",),
    "retire": ("cordon",),
    "return_to_service": ("uncordon",),
}
OVER: Final = frozenset({"Succeeded", "Failed"})


class KubernetesActuator:
    """One cluster's nodes and pods."""

    name = "kubernetes"

    def __init__(self, kube: KubeClient, settings: KubernetesSettings, prefix: str = "faultwire") -> None:
        self._kube = kube
        self._settings = settings
        self._prefix = prefix
        self._reason = f"{prefix}.io/reason"
        self._since: dict[str, float] = {}

    def steps(self, event: Event[Action]) -> tuple[str, ...]:
        action = event.data
        if not action.nodes:
            return ()
        if action.action == "interrupt_and_restart" and parse_job_id(action.job_id or "") is None:
            return ()
        return STEPS.get(action.action, ())

    def traits(self, step: str) -> frozenset[Trait]:
        return frozenset({"finishing"}) if step == "verify" else frozenset()

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:
        perform: Callable[[Event[Action], Undertaking], Any] = getattr(self, f"_{step}")
        try:
            result: StepResult = await perform(event, undertaking)
        except RefusedError as exc:
            return Stop("failed", f"the API server refuses: {exc}")
        return result

    async def standing(self) -> Standing:
        nodes = await self._kube.nodes()
        return Standing(frozenset(_name(n) for n in nodes if self._is_ours(n)), len(nodes))

    async def close(self) -> None:
        """The client's connections end with it."""

    # -- nodes -----------------------------------------------------------------------------------------

    async def _cordon(self, event: Event[Action], undertaking: Undertaking) -> StepResult:
        """Out of service under our mark. Somebody else's cordon serves as well and is left as it is."""
        action = event.data
        if action.action == "interrupt_and_restart":
            job = parse_job_id(action.job_id or "")
            if job is None or not await self._old_pods(job, undertaking):
                return Stop("superseded", f"no pod of {action.job_id} runs")
        told = []
        for name in action.nodes:
            node = await self._kube.node(name)
            if node is None:
                return Stop("failed", f"no node {name}")
            if self._is_ours(node):
                told.append(f"{name} is cordoned by us")
            elif node.get("spec", {}).get("unschedulable"):
                told.append(f"{name} was cordoned already by somebody else")
            else:
                await self._mark(node, event)
                told.append(f"{name} is cordoned")
        return Done(", ".join(told))

    async def _uncordon(self, event: Event[Action], _: Undertaking) -> StepResult:
        """Back into service, where the mark is ours; everything that we set goes, in one patch."""
        told = []
        for name in event.data.nodes:
            node = await self._kube.node(name)
            if node is None:
                return Stop("failed", f"no node {name}")
            if self._is_ours(node):
                taints = [t for t in _taints(node) if t.get("key") != self._settings.taint]
                await self._kube.patch_node(
                    name,
                    {
                        "metadata": {**_version(node), "annotations": {self._reason: None}},
                        "spec": {"unschedulable": None, "taints": taints or None},
                    },
                )
                await self._condition(name, event, healthy=True, why="returned to service")
                told.append(f"{name} is back in service")
            elif node.get("spec", {}).get("unschedulable"):
                return Stop("superseded", f"{name} is cordoned by somebody else")
            else:
                told.append(f"{name} is in service")
        return Done(", ".join(told))

    async def _mark(self, node: Object, event: Event[Action]) -> None:
        """Mark, taint and cordon in one patch onto the version that was looked at; then the condition."""
        why = mark(self._prefix, event.id, event.data.reason)
        taint = {"key": self._settings.taint, "value": event.id[:8], "effect": "NoSchedule"}
        others = [t for t in _taints(node) if t.get("key") != self._settings.taint]
        await self._kube.patch_node(
            _name(node),
            {
                "metadata": {**_version(node), "annotations": {self._reason: why}},
                "spec": {"unschedulable": True, "taints": [*others, taint]},
            },
        )
        await self._condition(_name(node), event, healthy=False, why=why)

    async def _condition(self, name: str, event: Event[Action], *, healthy: bool, why: str) -> None:
        now = format_rfc3339(event.time)[: len("2026-01-01T00:00:00")] + "Z"
        words = [part.capitalize() for part in event.data.action.split("_")]
        await self._kube.set_condition(
            name,
            {
                "type": self._settings.condition,
                "status": "True" if healthy else "False",
                "reason": "".join(words),
                "message": why,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            },
        )

    def _is_ours(self, node: Object) -> bool:
        annotations = node.get("metadata", {}).get("annotations") or {}
        return is_ours(self._prefix, annotations.get(self._reason, "")) and any(
            t.get("key") == self._settings.taint for t in _taints(node)
        )

    # -- jobs ------------------------------------------------------------------------------------------

    async def _evict(self, event: Event[Action], undertaking: Undertaking) -> StepResult:
        """The pods that were there when it was decided, never the ones that replace them."""
        job = parse_job_id(event.data.job_id or "")
        if job is None:
            return Stop("failed", f"{event.data.job_id} is no job of Kubernetes")
        old = await self._old_pods(job, undertaking)
        for pod in old:
            if not pod["metadata"].get("deletionTimestamp"):
                await self._kube.evict(job.namespace, _name(pod), self._settings.grace_s)
        if old:
            return Wait(f"{len(old)} pods of {job.name} are ending", 0.5)
        return Done(f"the pods of {job.kind} {job.name} are evicted")

    async def _verify(self, event: Event[Action], undertaking: Undertaking) -> StepResult:
        """New pods run, elsewhere."""
        job = parse_job_id(event.data.job_id or "")
        if job is None:
            return Stop("failed", f"{event.data.job_id} is no job of Kubernetes")
        now = asyncio.get_running_loop().time()
        waited = now - self._since.setdefault(event.id, now)
        pods = [p for p in await self._kube.pods(job.namespace, job.selector) if not _is_old(p, undertaking)]
        live = [p for p in pods if p.get("status", {}).get("phase") not in OVER]
        where = {p.get("spec", {}).get("nodeName") for p in live}
        if again := where & set(event.data.nodes):
            return Stop("failed", f"{job.name} runs on {', '.join(sorted(map(str, again)))} again")
        if live and all(p.get("status", {}).get("phase") == "Running" for p in live):
            self._since.pop(event.id, None)
            return Done(f"{job.name} runs on {', '.join(sorted(map(str, where)))}")
        if waited > self._settings.verify_within_s:
            self._since.pop(event.id, None)
            return Done(f"{len(live)} new pods of {job.name} wait to run")
        return Wait(f"{job.name} does not run yet", 0.5)

    async def _old_pods(self, job: KubeJob, undertaking: Undertaking) -> list[Object]:
        pods = await self._kube.pods(job.namespace, job.selector)
        return [p for p in pods if _is_old(p, undertaking) and p.get("status", {}).get("phase") not in OVER]


def _is_old(pod: Object, undertaking: Undertaking) -> bool:
    """Created in an earlier second than that in which it was decided to act; the stamps are whole seconds."""
    created = parse_rfc3339(pod["metadata"]["creationTimestamp"])
    began = undertaking.began or 0
    return created < math.floor(began / NS_PER_S) * NS_PER_S


def _name(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def _version(thing: Object) -> Object:
    version = thing["metadata"].get("resourceVersion")
    return {} if version is None else {"resourceVersion": version}


def _taints(node: Object) -> list[Object]:
    return list(node.get("spec", {}).get("taints") or [])
