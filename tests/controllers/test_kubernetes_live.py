"""The controller on a real kube-apiserver, with the rights that its manifest gives and no others."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from controllers.actuator import ActuatorError, Done, Wait
from controllers.kubernetes.actuator import KubernetesActuator
from controllers.kubernetes.client import KubeClient
from controllers.kubernetes.settings import KubernetesSettings
from tests.controllers.builders import action
from tests.controllers.running import acting, ended, trail
from tests.controllers.test_kubernetes import TAINT, begun
from tests.kafka import Kafka
from tests.kube_real import ROOT, KubeCluster
from topics.derived import Action
from topics.events import Event


class Site:
    """Three nodes of this test's own, and a namespace with the pods of one JobSet."""

    def __init__(self, kube: KubeCluster) -> None:
        tag = uuid.uuid4().hex[:6]
        self.kube = kube
        self.core = client.CoreV1Api(kube.admin)
        self.train = f"train-{tag}"
        self.nodes = [f"{tag}-n{i}" for i in range(3)]
        kube.namespace(self.train)
        for name in self.nodes:
            self.core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name=name)))
        kube.namespace("faultwire")
        kube.apply(Path(ROOT / "deploy/kubernetes/controller-rbac.yaml"))
        self.account = kube.as_account("faultwire", "faultwire-controller")
        self.acts = KubernetesActuator(KubeClient(self.account), KubernetesSettings(verify_within_s=5.0))

    def close(self) -> None:
        for name in self.nodes:
            self.core.delete_node(name)
        self.account.rest_client.pool_manager.clear()

    def pod(self, name: str, node: str) -> None:
        labels = {"jobset.sigs.k8s.io/jobset-name": "llama"}
        spec = client.V1PodSpec(
            node_name=node, containers=[client.V1Container(name="main", image="none")],
            termination_grace_period_seconds=30,
        )  # fmt: skip
        self.core.create_namespaced_pod(
            self.train, client.V1Pod(metadata=client.V1ObjectMeta(name=name, labels=labels), spec=spec)
        )
        status = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        self.core.patch_namespaced_pod_status(name, self.train, status)

    def node(self, index: int) -> client.V1Node:
        return self.core.read_node(self.nodes[index])

    def ending(self) -> set[str]:
        pods = self.core.list_namespaced_pod(self.train).items
        return {p.metadata.name for p in pods if p.metadata.deletion_timestamp is not None}

    def kubelet_lets_go(self) -> None:
        for name in self.ending():
            self.core.delete_namespaced_pod(name, self.train, grace_period_seconds=0)

    def interrupt(self) -> Event[Action]:
        return action("interrupt_and_restart", self.nodes[0], job_id=f"{self.train}:jobset:llama", attempt=1)


@pytest.fixture
def site(kubernetes: KubeCluster) -> Site:
    made = Site(kubernetes)
    yield made  # type: ignore[misc]
    made.close()


async def test_a_node_is_taken_out_and_brought_back_and_a_persons_cordon_stays(
    site: Site, kafka: Kafka, catalogue: str
) -> None:
    site.core.patch_node(site.nodes[1], {"spec": {"unschedulable": True}})
    ours, theirs = site.nodes[:2]
    async with acting(site.acts, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("drain", ours), action("drain", theirs)])
        await trail(kafka, catalogue, ended(2), within_s=60)
        out = site.node(0)
        back = [action("return_to_service", ours), action("return_to_service", theirs)]
        await kafka.send_events(f"{catalogue}actions", back)
        entries = await trail(kafka, catalogue, ended(4), within_s=60)
    assert out.spec.unschedulable
    assert {t.key: t.effect for t in out.spec.taints}[TAINT] == "NoSchedule"
    assert {c.type: c.status for c in out.status.conditions}["FaultwireHealthy"] == "False"
    returned = site.node(0)
    assert not returned.spec.unschedulable
    assert TAINT not in {t.key for t in returned.spec.taints or ()}
    assert {c.type: c.status for c in returned.status.conditions}["FaultwireHealthy"] == "True"
    assert site.node(1).spec.unschedulable
    outcomes = {(e.nodes or [""])[0]: e.outcome for e in entries if e.action == "return_to_service"}
    assert outcomes == {ours: "done", theirs: "superseded"}


async def test_the_pods_of_then_are_evicted_and_not_those_that_replace_them(site: Site) -> None:
    site.pod("old-0", site.nodes[0])
    site.pod("old-1", site.nodes[1])
    await asyncio.sleep(1.1)  # the API's stamps are whole seconds
    event = site.interrupt()
    undertaking = begun(event)
    assert isinstance(await site.acts.perform("evict", event, undertaking), Wait)
    assert site.ending() == {"old-0", "old-1"}
    site.kubelet_lets_go()
    site.pod("new-0", site.nodes[2])
    assert isinstance(await site.acts.perform("evict", event, undertaking), Done)
    assert site.ending() == set()
    verified = await site.acts.perform("verify", event, undertaking)
    assert isinstance(verified, Done)
    assert site.nodes[2] in verified.detail


async def test_a_disruption_budget_that_says_no_is_asked_again(site: Site) -> None:
    site.pod("old-0", site.nodes[0])
    budget = client.V1PodDisruptionBudget(
        metadata=client.V1ObjectMeta(name="all"),
        spec=client.V1PodDisruptionBudgetSpec(
            min_available=1,
            selector=client.V1LabelSelector(match_labels={"jobset.sigs.k8s.io/jobset-name": "llama"}),
        ),
    )
    client.PolicyV1Api(site.kube.admin).create_namespaced_pod_disruption_budget(site.train, budget)
    await asyncio.sleep(1.1)
    event = site.interrupt()
    with pytest.raises(ActuatorError, match="429"):
        await site.acts.perform("evict", event, begun(event))
    assert site.ending() == set()


async def test_a_change_by_somebody_else_in_between_is_a_conflict(site: Site) -> None:
    stale = await site.acts._kube.node(site.nodes[0])
    assert stale is not None
    site.core.patch_node(site.nodes[0], {"metadata": {"labels": {"touched": "yes"}}})
    with pytest.raises(ActuatorError, match="409"):
        await site.acts._mark(stale, action("drain", site.nodes[0]))
    assert not site.node(0).spec.unschedulable


def test_its_account_may_do_nothing_else(site: Site) -> None:
    core = client.CoreV1Api(site.account)
    refused = [
        core.list_secret_for_all_namespaces,
        lambda: core.delete_node(site.nodes[0]),
        lambda: core.delete_namespaced_pod("old-0", site.train),
        lambda: core.create_namespaced_pod(site.train, {"metadata": {"name": "x"}}),
    ]
    for attempt in refused:
        with pytest.raises(ApiException) as raised:
            attempt()
        assert raised.value.status == 403
