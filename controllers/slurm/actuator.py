"""What each action means on Slurm, as steps that look before they act."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

from controllers.actuator import ActuatorError, Done, StepResult, Stop, Trait, Wait
from controllers.checks import CheckReporter
from controllers.limits import Standing
from controllers.marks import is_ours, mark
from controllers.programs import run
from controllers.slurm.client import Node, QueuedJob, RefusedError, SlurmClient
from controllers.slurm.settings import SlurmSettings
from topics.control import Undertaking
from topics.derived import Action, ActionName
from topics.events import Event

STEPS: Final[Mapping[ActionName, tuple[str, ...]]] = {
    "interrupt_and_restart": ("drain", "checkpoint", "requeue", "release", "verify"),
    "cordon": ("drain",),
    "drain": ("drain",),
    "retire": ("drain",),
    "reboot_node": ("drain", "empty", "reboot", "back"),
    "reset_gpu": ("drain", "empty", "reset"),
    "run_checks": ("checks",),
    "return_to_service": ("resume",),
}
TRAITS: Final[Mapping[str, frozenset[Trait]]] = {
    "checkpoint": frozenset({"once"}),
    "release": frozenset({"finishing"}),
    "verify": frozenset({"finishing"}),
    "empty": frozenset({"patient"}),
    "reset": frozenset({"once"}),
    "back": frozenset({"finishing", "patient"}),
}
RUNS: Final = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"})
DIED: Final = frozenset({"FAILED", "NODE_FAIL"})
HELD: Final = frozenset({"JobHeldUser", "JobHeldAdmin"})

_CHECKPOINT = re.compile(r"\bFAULTWIRE_CHECKPOINT=(?:SIG)?(USR1|USR2|TERM|INT|HUP|CONT)(?:@(\d{1,4}))?")


class SlurmActuator:
    """One cluster's nodes and jobs."""

    name = "slurm"

    def __init__(
        self,
        client: SlurmClient,
        settings: SlurmSettings,
        prefix: str = "faultwire",
        reporter: CheckReporter | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._prefix = prefix
        self._reporter = reporter
        self._since: dict[tuple[str, str, int], float] = {}
        """When something was first seen: (action id, what, attempt) -> time of the loop."""

    def steps(self, event: Event[Action]) -> tuple[str, ...]:
        action = event.data
        if not action.nodes or (action.action == "interrupt_and_restart" and not _is_job(action)):
            return ()
        if action.action == "reset_gpu" and not self._settings.reset_command:
            return ()
        if action.action == "run_checks" and not (self._settings.check_command and self._reporter):
            return ()
        return STEPS[action.action]

    def traits(self, step: str) -> frozenset[Trait]:
        return TRAITS.get(step, frozenset())

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:
        perform: Callable[[Event[Action], Undertaking], Any] = getattr(self, f"_{step}")
        try:
            result: StepResult = await perform(event, undertaking)
        except RefusedError as exc:
            return Stop("failed", f"Slurm refuses: {exc}")
        return result

    async def standing(self) -> Standing:
        nodes = await self._client.nodes()
        ours = {n.name for n in nodes.values() if n.out and is_ours(self._prefix, n.reason)}
        return Standing(frozenset(ours), len(nodes))

    async def close(self) -> None:
        if self._reporter is not None:
            await self._reporter.close()

    # -- nodes -----------------------------------------------------------------------------------------

    async def _drain(self, event: Event[Action], _: Undertaking) -> StepResult:
        """Out of service under our mark. Somebody else's drain serves as well and is left as it is."""
        action = event.data
        if action.action == "interrupt_and_restart" and (gone := await self._gone(action)) is not None:
            return gone
        told = []
        nodes = await self._known(action.nodes)
        for node in nodes.values():
            if not node.out:
                await self._client.drain(node.name, mark(self._prefix, event.id, action.reason))
                told.append(f"{node.name} is drained")
            elif is_ours(self._prefix, node.reason):
                told.append(f"{node.name} is drained by us")
            else:
                told.append(f"{node.name} was out of service already ({node.reason or 'no reason given'})")
        return Done(", ".join(told))

    async def _empty(self, event: Event[Action], _: Undertaking) -> StepResult:
        busy = [node.name for node in (await self._known(event.data.nodes)).values() if node.busy]
        return Wait(f"{', '.join(busy)} still runs jobs", 1.0) if busy else Done("no job runs there")

    async def _reboot(self, event: Event[Action], undertaking: Undertaking) -> StepResult:
        told = []
        for node in (await self._known(event.data.nodes)).values():
            if not is_ours(self._prefix, node.reason):
                return Stop("superseded", f"{node.name} is out of service for somebody else: {node.reason}")
            if await self._came_up_since(node.name, undertaking):
                told.append(f"{node.name} has rebooted")
            elif node.rebooting:
                told.append(f"the reboot of {node.name} is on its way")
            else:
                await self._client.reboot(node.name, mark(self._prefix, event.id, event.data.reason))
                told.append(f"{node.name} reboots")
        return Done(", ".join(told))

    async def _back(self, event: Event[Action], undertaking: Undertaking) -> StepResult:
        """Up again, still drained, and the mark without what the reboot wrote into it."""
        for node in (await self._known(event.data.nodes)).values():
            if node.rebooting or not await self._came_up_since(node.name, undertaking):
                return Wait(f"{node.name} is not back from its reboot", 1.0)
            if is_ours(self._prefix, node.reason):
                await self._client.drain(node.name, mark(self._prefix, event.id, event.data.reason))
        return Done(f"{', '.join(event.data.nodes)} is back and still drained")

    async def _reset(self, event: Event[Action], _: Undertaking) -> StepResult:
        for name in event.data.nodes:
            entity = ",".join(event.data.entities or ())
            ran = await run(
                _filled(self._settings.reset_command, name, entity), self._settings.reset_timeout_s
            )
            if ran.status:
                return Stop("failed", f"the reset of {name} failed: {ran.complaint}")
        return Done(f"{', '.join(event.data.nodes)}: reset")

    async def _checks(self, event: Event[Action], _: Undertaking) -> StepResult:
        if self._reporter is None:
            return Stop("failed", "nowhere to report checks to")
        told = []
        for name in event.data.nodes:
            ran = await run(_filled(self._settings.check_command, name, ""), self._settings.check_timeout_s)
            told.append(f"{name}: {await self._reporter.report(name, event, ran)}")
        return Done(", ".join(told))

    async def _resume(self, event: Event[Action], _: Undertaking) -> StepResult:
        """Back into service, where the mark is ours."""
        told = []
        for node in (await self._known(event.data.nodes)).values():
            if not node.out:
                told.append(f"{node.name} is in service")
            elif is_ours(self._prefix, node.reason):
                await self._client.resume(node.name)
                told.append(f"{node.name} is back in service")
            else:
                return Stop("superseded", f"{node.name} is held by somebody else: {node.reason}")
        return Done(", ".join(told))

    # -- jobs ------------------------------------------------------------------------------------------

    async def _gone(self, action: Action) -> Stop | None:
        """The attempt that is to be interrupted does not run any more."""
        job = await self._client.job(str(action.job_id))
        if job is None:
            return Stop("superseded", f"job {action.job_id} is not in the queue")
        if job.attempt != action.attempt:
            return Stop("superseded", f"job {job.job_id} is at attempt {job.attempt}")
        if job.state in RUNS or job.state == "COMPLETING" or self._may_put_back(job):
            return None
        return Stop("superseded", f"job {job.job_id} is {job.state}")

    def _may_put_back(self, job: QueuedJob) -> bool:
        return self._settings.requeue_failed and job.state in DIED

    async def _checkpoint(self, event: Event[Action], _: Undertaking) -> StepResult:
        """The signal that the job asks for, and the time that it asks for, cut short when it ends."""
        job = await self._client.job(str(event.data.job_id))
        asked = _CHECKPOINT.search(job.comment) if job is not None else None
        if job is None or asked is None:
            return Done("it asks for no checkpoint")
        if job.attempt != event.data.attempt or job.state not in RUNS:
            return Done(f"too late for a checkpoint: {job.state}")
        seconds = min(float(asked[2] or self._settings.checkpoint_most_s), self._settings.checkpoint_most_s)
        await self._client.signal(job.job_id, asked[1])
        waited = 0.0
        while waited < seconds:
            await asyncio.sleep(min(0.5, seconds - waited))
            waited += 0.5
            now = await self._client.job(job.job_id)
            if now is None or now.restarts != job.restarts or now.state not in RUNS:
                return Done(f"SIG{asked[1]}, and it ended")
        return Done(f"SIG{asked[1]} and {seconds:g} s for a checkpoint")

    async def _requeue(self, event: Event[Action], _: Undertaking) -> StepResult:
        """Once: the count of restarts, which Slurm raises with the requeue, tells whether it was done."""
        job = await self._client.job(str(event.data.job_id))
        if job is None:
            return Stop("superseded", f"job {event.data.job_id} is not in the queue any more")
        if job.attempt != event.data.attempt:
            return Done(f"job {job.job_id} is back in the queue (attempt {job.attempt})")
        if job.state == "COMPLETING":
            return Wait(f"job {job.job_id} is ending by itself")
        if job.state not in RUNS and not self._may_put_back(job):
            return Stop("superseded", f"job {job.job_id} is {job.state}")
        try:
            await self._client.requeue(job.job_id)
        except RefusedError as exc:
            after = await self._client.job(job.job_id)
            if after is not None and after != job:
                return Wait(str(exc))  # it changed under us: look again
            raise
        return Done(f"job {job.job_id} is back in the queue ({job.state.lower()} before)")

    async def _release(self, event: Event[Action], _: Undertaking) -> StepResult:
        """Not on the excluded nodes, and soon: Slurm lets a requeued job wait two minutes otherwise."""
        job = await self._client.job(str(event.data.job_id))
        if job is None:
            return Done(f"job {event.data.job_id} is not in the queue any more")
        if job.attempt == event.data.attempt:
            return Wait(f"job {job.job_id} is not back in the queue yet")
        return await self._let_start(event, job)

    async def _let_start(self, event: Event[Action], job: QueuedJob) -> StepResult:
        if job.state == "COMPLETING":
            return Wait(f"job {job.job_id} is still being cleaned up", 0.1)
        if job.state != "PENDING":
            return Done(f"job {job.job_id} is {job.state}")
        if job.reason in HELD:
            return Done(f"job {job.job_id} is held in the queue by somebody ({job.reason})")
        rest = self._not_before(event, job) - time.time()
        if rest > 0:
            return Wait(f"job {job.job_id} is in the queue", rest)
        excluded = _together(await self._client.excluded(job.job_id), event.data.exclude_nodes or ())
        await self._client.update_job(job.job_id, StartTime="now", **excluded)
        where = f", not on {excluded['ExcNodeList']}" if excluded else ""
        return Done(f"job {job.job_id} may start now{where}")

    async def _verify(self, event: Event[Action], _: Undertaking) -> StepResult:
        """It runs, elsewhere, and goes on running."""
        result = await self._started(event)
        if not isinstance(result, Wait):
            self._since = {key: at for key, at in self._since.items() if key[0] != event.id}
        return result

    async def _started(self, event: Event[Action]) -> StepResult:
        waited = self._seen_for(event, "verify", 0)
        job = await self._client.job(str(event.data.job_id))
        if job is None:
            return Done(f"job {event.data.job_id} is not in the queue any more")
        if job.state in RUNS:
            if where := set(_hosts(job.node_list)) & set(event.data.nodes):
                return Stop("failed", f"job {job.job_id} runs on {', '.join(sorted(where))} again")
            if self._seen_for(event, "runs", job.attempt) < self._settings.settle_s:
                return Wait(f"job {job.job_id} has just started")
            return Done(f"attempt {job.attempt} of job {job.job_id} runs on {job.node_list}")
        second = job.attempt == (event.data.attempt or 0) + 2
        if job.state in DIED and not second and self._settings.requeue_failed:
            await self._client.requeue(job.job_id)
            return Wait(f"attempt {job.attempt} of job {job.job_id} did not start well: put back once more")
        if job.state == "PENDING" and second:
            started = await self._let_start(event, job)
            if isinstance(started, Wait):
                return started
        elif job.state not in {"PENDING", "COMPLETING"}:
            return Done(f"job {job.job_id} is {job.state}")
        if waited > self._settings.verify_within_s:
            return Done(f"job {job.job_id} waits in the queue: {job.reason}")
        return Wait(f"job {job.job_id} does not run yet: {job.reason}")

    def _not_before(self, event: Event[Action], job: QueuedJob) -> float:
        """When the nodes take the job again, as a wall-clock time: in a later second than that in which it
        was first seen in the queue. Later still when that was too early once."""
        waited = self._seen_for(event, "pending", job.attempt)
        too_early = 2.0 * (job.attempt - (event.data.attempt or 0) - 1)
        return math.floor(time.time() - waited) + 1 + self._settings.clock_skew_s + too_early

    def _seen_for(self, event: Event[Action], what: str, attempt: int) -> float:
        """Seconds since this was first asked."""
        now = asyncio.get_running_loop().time()
        return now - self._since.setdefault((event.id, what, attempt), now)

    # -- helpers -----------------------------------------------------------------------------------------

    async def _known(self, names: Sequence[str]) -> dict[str, Node]:
        """The nodes by name; an unknown one is an error that a person must see, not to be tried again."""
        nodes = await self._client.nodes(names)
        missing = [name for name in names if name not in nodes]
        if missing:
            raise RefusedError(f"no node {', '.join(missing)}")
        return {name: nodes[name] for name in names}

    async def _came_up_since(self, node: str, undertaking: Undertaking) -> bool:
        up = await self._client.boot_time(node)
        return up is not None and undertaking.began is not None and up > undertaking.began


def _is_job(action: Action) -> bool:
    return action.job_id is not None and action.job_id.isdigit() and action.attempt is not None


def _hosts(node_list: str) -> list[str]:
    if node_list in {"", "(null)", "N/A"}:
        return []
    try:
        return [str(host) for host in NodeSet(node_list, resolver=None)]
    except NodeSetException as exc:
        raise ActuatorError(f"a host list that can't be read: {node_list:.80}") from exc


def _together(present: str, more: Sequence[str]) -> dict[str, str]:
    """What the job excluded before stays excluded."""
    if not more:
        return {}
    return {"ExcNodeList": ",".join(sorted({*_hosts(present), *more}))}


def _filled(command: Sequence[str], node: str, entity: str) -> list[str]:
    return [part.replace("{node}", node).replace("{entity}", entity) for part in command]
