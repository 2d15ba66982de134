"""The connector on a real kube-apiserver, with the rights that its manifest gives and no others."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from collectors.schedulers.book import JobBook
from collectors.schedulers.kubernetes import reflector
from collectors.schedulers.kubernetes.attempts import PodTracker
from collectors.schedulers.kubernetes.connector import KubernetesConnector
from collectors.schedulers.kubernetes.reflector import Reflector
from collectors.schedulers.publisher import RawPublisher
from tests.kafka import Kafka
from tests.kube_real import ROOT, KubeCluster
from topics.events import Event, decode_record


@pytest.fixture
def account(kubernetes: KubeCluster) -> client.ApiClient:
    """Whom the connector is in a cluster."""
    kubernetes.namespace("faultwire")
    kubernetes.apply(Path(ROOT / "deploy/kubernetes/connector-rbac.yaml"))
    return kubernetes.as_account("faultwire", "faultwire-connector")


@pytest.fixture
def train(kubernetes: KubeCluster) -> str:
    """A namespace of this test's own."""
    name = f"train-{uuid.uuid4().hex[:8]}"
    kubernetes.namespace(name)
    return name


def put_pod(kube: KubeCluster, namespace: str, index: int, node: str | None, jobset: str = "llama") -> str:
    name = f"{jobset}-{index}"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "batch.kubernetes.io/job-name": f"{jobset}-workers",
        "batch.kubernetes.io/job-completion-index": str(index),
        "kueue.x-k8s.io/queue-name": "gpus",
    }
    container = client.V1Container(
        name="main", image="none", env=[client.V1EnvVar(name="NCCL_IB_TIMEOUT", value="20")]
    )
    body = client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1PodSpec(node_name=node, containers=[container], termination_grace_period_seconds=0),
    )
    core = client.CoreV1Api(kube.admin)
    core.create_namespaced_pod(namespace, body)
    return name


def play_kubelet(kube: KubeCluster, namespace: str, name: str, phase: str = "Running") -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {"status": {"phase": phase, "startTime": now}}
    client.CoreV1Api(kube.admin).patch_namespaced_pod_status(name, namespace, body)


def evicted_workload(kube: KubeCluster, namespace: str) -> None:
    custom = client.CustomObjectsApi(kube.admin)
    where = ("kueue.x-k8s.io", "v1beta1", namespace, "workloads")
    owners = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "llama", "uid": "u-1"}]
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": "jobset-llama", "ownerReferences": owners},
    }  # fmt: skip
    custom.create_namespaced_custom_object(*where, body)
    condition = {
        "type": "Evicted", "status": "True", "reason": "Preempted", "message": "for one of higher priority",
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    custom.patch_namespaced_custom_object_status(
        *where, "jobset-llama", {"status": {"conditions": [condition]}}
    )


@asynccontextmanager
async def connected(
    talker: client.ApiClient, kafka: Kafka, prefix: str
) -> AsyncIterator[KubernetesConnector]:
    tracker = PodTracker(JobBook("c", "kubernetes"))
    connector = KubernetesConnector(talker, tracker, RawPublisher(kafka.bootstrap, prefix))
    task = asyncio.create_task(connector.run())
    try:
        yield connector
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        talker.rest_client.pool_manager.clear()


async def told(kafka: Kafka, prefix: str, job_id: str, state: str) -> list[Event[Any]]:
    """Job records of that job, once the last of them says `state`."""
    found: list[Event[Any]] = []

    def enough(records: list[Any]) -> bool:
        events = [e for r in records for e in decode_record(r.value)[0]]
        found[:] = [e for e in events if e.data.job_id == job_id]
        return bool(found) and found[-1].data.state == state

    await kafka.read_until(f"{prefix}raw.job", enough)
    return found


async def test_a_job_that_kueue_preempts(
    kubernetes: KubeCluster, account: client.ApiClient, train: str, kafka: Kafka, catalogue: str
) -> None:
    job = f"{train}:jobset:llama"
    async with connected(account, kafka, catalogue) as connector:
        for index in range(2):
            play_kubelet(kubernetes, train, put_pod(kubernetes, train, index, f"n{index}"))
        running = await told(kafka, catalogue, job, "RUNNING")
        await asyncio.sleep(1.1)  # the API's stamps are whole seconds: the word must be later than the start
        evicted_workload(kubernetes, train)
        for index in range(2):
            client.CoreV1Api(kubernetes.admin).delete_namespaced_pod(
                f"llama-{index}", train, grace_period_seconds=0
            )
        ended = await told(kafka, catalogue, job, "PREEMPTED")
        assert connector.pods.lists == 1
    assert running[0].data.nccl.ib_timeout == 20
    assert running[0].data.scheduler == "kueue"
    assert ended[-1].data.nodes == ["n0", "n1"]
    assert "higher priority" in ended[-1].data.reason


async def test_watches_that_the_server_ends_go_on_where_they_were(
    kubernetes: KubeCluster, account: client.ApiClient, train: str, kafka: Kafka, catalogue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(reflector, "WATCH_S", 1)
    async with connected(account, kafka, catalogue) as connector:
        for index in range(3):
            play_kubelet(kubernetes, train, put_pod(kubernetes, train, index, f"n{index}"))
            await asyncio.sleep(1.2)  # the server ends a watch after a second
        events = await told(kafka, catalogue, f"{train}:jobset:llama", "RUNNING")
        while len(events[-1].data.nodes) < 3:
            events = await told(kafka, catalogue, f"{train}:jobset:llama", "RUNNING")
        assert connector.pods.lists == 1
    assert len({e.id for e in events}) == len(events) == 3


async def test_history_that_is_gone_is_listed_anew(kubernetes: KubeCluster, train: str) -> None:
    """The server compacts its history while the watch is away."""
    api = client.AppsV1Api(kubernetes.admin)
    seen: list[str] = []

    def revise(name: str) -> None:
        meta = client.V1ObjectMeta(name=name)
        body = client.V1ControllerRevision(metadata=meta, revision=1, data={})
        api.create_namespaced_controller_revision(train, body)

    async def listed(things: list[dict[str, Any]]) -> None:
        seen.append("listed " + ",".join(sorted(t["metadata"]["name"] for t in things)))

    async def changed(what: str, thing: dict[str, Any]) -> None:
        seen.append(f"{what} {thing['metadata']['name']}")

    watching = Reflector(kubernetes.admin, "/apis/apps/v1/controllerrevisions", listed, changed)
    version = await watching._list()
    revise("one")
    revise("two")
    kubernetes.forget_history()  # from "two" on
    with pytest.raises(ApiException) as raised:
        await asyncio.wait_for(watching._watch(version), 60)
    assert raised.value.status == reflector.GONE
    task = asyncio.create_task(watching.run())
    async with asyncio.timeout(60):
        while "listed one,two" not in seen:  # noqa: ASYNC110  what the watch has seen
            await asyncio.sleep(0.05)
        revise("three")
        while "ADDED three" not in seen:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kubernetes.admin.rest_client.pool_manager.clear()
    assert seen == ["listed ", "listed one,two", "ADDED three"]


def test_its_account_may_do_nothing_else(account: client.ApiClient, train: str) -> None:
    core = client.CoreV1Api(account)
    refused = [
        core.list_secret_for_all_namespaces,
        core.list_node,
        lambda: core.delete_namespaced_pod("llama-0", train),
        lambda: client.BatchV1Api(account).delete_namespaced_job("x", train),
    ]
    for attempt in refused:
        with pytest.raises(ApiException) as raised:
            attempt()
        assert raised.value.status == 403
    account.rest_client.pool_manager.clear()
