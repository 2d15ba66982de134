"""The Kubernetes controller against an API server over HTTP: its own marks, the pods of then, no others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from kubernetes import client

from controllers.actuator import ActuatorError, Done, Stop, Wait
from controllers.kubernetes.actuator import KubernetesActuator
from controllers.kubernetes.client import KubeClient
from controllers.kubernetes.settings import KubernetesSettings
from tests.controllers.builders import action
from tests.controllers.running import acting, ended, trail
from tests.kafka import Kafka
from tests.kube_api import NODES, PODS, Api, api_server, node, pod
from topics.control import Undertaking
from topics.derived import Action
from topics.events import Event
from topics.kube import GROUP_LABELS, KubeJob, job_of_pod, parse_job_id

JOB = "train:jobset:llama"
TAINT = "faultwire.io/quarantine"


@pytest.fixture
def api() -> Iterator[tuple[Api, client.ApiClient]]:
    with api_server() as (state, talker):
        for name in ("n1", "n2", "n3"):
            state.put(NODES, node(name))
        yield state, talker


def actuator(talker: client.ApiClient) -> KubernetesActuator:
    return KubernetesActuator(KubeClient(talker), KubernetesSettings(verify_within_s=5.0))


def interrupt(on: str = "n1") -> Event[Action]:
    return action("interrupt_and_restart", on, job_id=JOB, attempt=1)


def begun(event: Event[Action]) -> Undertaking:
    return Undertaking(
        controller="kubernetes", action_id=event.id, phase="begun", began=time.time_ns(), steps={},
        action=event.data.action, nodes=event.data.nodes,
    )  # fmt: skip


async def kubelet(state: Api, spare: str) -> None:
    """Evicted pods end; their controller makes new ones, which the scheduler puts elsewhere."""
    replaced: set[str] = set()
    while True:
        for key, thing in list(state.kinds[PODS].items()):
            if thing["metadata"].get("deletionTimestamp") and key not in replaced:
                replaced.add(key)
                state.remove(PODS, key)
                on = thing["spec"]["nodeName"]
                cordoned = state.kinds[NODES][on]["spec"].get("unschedulable")
                new = pod(
                    f"{thing['metadata']['name']}-again", spare if cordoned else on, created=time.time()
                )
                new["status"]["phase"] = "Running"
                state.put(PODS, new)
        await asyncio.sleep(0.05)


async def test_a_job_is_restarted_elsewhere_and_its_node_marked(
    api: tuple[Api, client.ApiClient], kafka: Kafka, catalogue: str
) -> None:
    state, talker = api
    state.put(PODS, pod("llama-0", "n1", phase="Running"))
    state.put(PODS, pod("llama-1", "n2", phase="Running"))
    state.put(PODS, pod("other", "n2", phase="Running", labels={"batch.kubernetes.io/job-name": "other"}))
    world = asyncio.create_task(kubelet(state, "n3"))
    try:
        async with acting(actuator(talker), kafka, catalogue):
            event = interrupt()
            await kafka.send_events(f"{catalogue}actions", [event, event])
            entries = await trail(kafka, catalogue, ended(1), within_s=40)
    finally:
        world.cancel()
    assert entries[-1].outcome == "done"
    assert sorted(state.evicted) == ["train/llama-0", "train/llama-1"]
    assert {p["spec"]["nodeName"] for p in state.kinds[PODS].values()} == {"n2", "n3"}
    marked = state.kinds[NODES]["n1"]
    assert marked["spec"]["unschedulable"] is True
    assert marked["spec"]["taints"] == [{"key": TAINT, "value": event.id[:8], "effect": "NoSchedule"}]
    assert marked["metadata"]["annotations"]["faultwire.io/reason"].startswith("faultwire[")
    (condition,) = marked["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("FaultwireHealthy", "False")


async def test_return_takes_back_everything_that_is_ours_and_nothing_else(
    api: tuple[Api, client.ApiClient], kafka: Kafka, catalogue: str
) -> None:
    state, talker = api
    theirs = {"key": "example.com/owned", "effect": "NoSchedule"}
    state.put(NODES, node("n1", taints=[theirs]))
    state.put(NODES, node("n2", unschedulable=True))
    async with acting(actuator(talker), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("drain", "n1"), action("drain", "n2")])
        await trail(kafka, catalogue, ended(2))
        assert len(state.kinds[NODES]["n1"]["spec"]["taints"]) == 2
        back = [action("return_to_service", "n1"), action("return_to_service", "n2")]
        await kafka.send_events(f"{catalogue}actions", back)
        entries = await trail(kafka, catalogue, ended(4))
    returned = state.kinds[NODES]["n1"]
    assert returned["spec"] == {"taints": [theirs]}
    assert "faultwire.io/reason" not in returned["metadata"]["annotations"]
    assert returned["status"]["conditions"][0]["status"] == "True"
    assert state.kinds[NODES]["n2"]["spec"] == {"unschedulable": True}
    outcomes = {(e.nodes or [""])[0]: e.outcome for e in entries if e.action == "return_to_service"}
    assert outcomes == {"n1": "done", "n2": "superseded"}


async def test_a_change_by_somebody_else_in_between_is_looked_at_again(
    api: tuple[Api, client.ApiClient],
) -> None:
    state, talker = api
    acts = actuator(talker)
    real = acts._kube.node

    async def node_then_changed(name: str) -> object:
        found = await real(name)
        state.change(NODES, name, {"metadata": {"labels": {"touched": "yes"}}})
        return found

    acts._kube.node = node_then_changed  # type: ignore[method-assign, assignment]
    event = action("drain", "n1")
    with pytest.raises(ActuatorError, match="409"):
        await acts.perform("cordon", event, begun(event))
    assert not state.kinds[NODES]["n1"]["spec"]
    acts._kube.node = real  # type: ignore[method-assign]
    assert isinstance(await acts.perform("cordon", event, begun(event)), Done)


async def test_pods_that_replace_the_evicted_ones_are_never_touched(
    api: tuple[Api, client.ApiClient],
) -> None:
    state, talker = api
    event = interrupt()
    undertaking = begun(event)
    state.put(PODS, pod("old", "n1", phase="Running"))
    state.put(PODS, pod("new", "n2", phase="Running", created=time.time()))
    acts = actuator(talker)
    assert isinstance(await acts.perform("evict", event, undertaking), Wait)
    assert isinstance(await acts.perform("evict", event, undertaking), Wait)
    assert state.evicted == ["train/old"]
    state.remove(PODS, "train/old")
    assert isinstance(await acts.perform("evict", event, undertaking), Done)
    assert state.evicted == ["train/old"]


async def test_a_budget_that_refuses_an_eviction_is_asked_again(api: tuple[Api, client.ApiClient]) -> None:
    state, talker = api
    state.budget = False
    state.put(PODS, pod("old", "n1", phase="Running"))
    event = interrupt()
    with pytest.raises(ActuatorError, match="429"):
        await actuator(talker).perform("evict", event, begun(event))


async def test_a_job_that_is_gone_leaves_its_node_alone(api: tuple[Api, client.ApiClient]) -> None:
    state, talker = api
    state.put(PODS, pod("over", "n1", phase="Succeeded"))
    event = interrupt()
    result = await actuator(talker).perform("cordon", event, begun(event))
    assert isinstance(result, Stop)
    assert result.outcome == "superseded"
    assert not state.kinds[NODES]["n1"]["spec"]


async def test_coming_up_on_the_culprit_again_is_an_alert(api: tuple[Api, client.ApiClient]) -> None:
    state, talker = api
    event = interrupt()
    state.put(PODS, pod("new", "n1", phase="Running", created=time.time() + 1))
    result = await actuator(talker).perform("verify", event, begun(event))
    assert result == Stop("failed", "llama runs on n1 again")


async def test_what_stands_under_our_mark_is_counted(api: tuple[Api, client.ApiClient]) -> None:
    state, talker = api
    acts = actuator(talker)
    event = action("drain", "n1")
    await acts.perform("cordon", event, begun(event))
    state.put(NODES, node("n2", unschedulable=True))
    standing = await acts.standing()
    assert (standing.out, standing.total) == (frozenset({"n1"}), 3)


async def test_a_server_that_is_not_there_is_asked_again() -> None:
    nowhere = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(ActuatorError):
        await KubeClient(nowhere, timeout_s=1.0).nodes()
    nowhere.rest_client.pool_manager.clear()


def test_actions_on_jobs_of_other_schedulers_are_not_its_own() -> None:
    acts = KubernetesActuator(None, KubernetesSettings())  # type: ignore[arg-type]
    assert acts.steps(action("interrupt_and_restart", "n1", job_id="4711", attempt=1)) == ()
    assert acts.steps(action("reboot_node", "n1")) == ()
    assert acts.steps(interrupt()) == ("cordon", "evict", "verify")


@pytest.mark.parametrize(("label", "kind"), GROUP_LABELS)
def test_a_jobs_name_leads_back_to_its_pods(label: str, kind: str) -> None:
    job = job_of_pod("train", {label: "llama", "x": "y"})
    assert job == KubeJob("train", kind, "llama")
    assert parse_job_id(job.job_id) == job
    assert job.selector == f"{label}=llama"


@pytest.mark.parametrize("text", ["4711", "a:b:c", "train:jobset:", ":jobset:x", "a:jobset:b:c", ""])
def test_other_ids_are_no_jobs_of_kubernetes(text: str) -> None:
    assert parse_job_id(text) is None
