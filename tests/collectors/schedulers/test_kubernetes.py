"""Pods that come and go become attempts on nodes; watches end, expire and miss things."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes import client

from collectors.schedulers.book import JobBook
from collectors.schedulers.kubernetes.attempts import PodTracker
from collectors.schedulers.kubernetes.connector import KubernetesConnector
from collectors.schedulers.kubernetes.owners import RESOURCES
from collectors.schedulers.kubernetes.pods import read_pod
from collectors.schedulers.publisher import RawPublisher
from correlator.evidence.jobrecord import JobRecord
from tests.collectors.schedulers.builders import at, jobs, placements
from tests.kafka import Kafka
from tests.kube_api import PODS, Api, api_server, pod
from topics.events import Event, decode_record
from topics.payloads import NcclSettings
from topics.time import NS_PER_S

JOB = "train:jobset:llama"
T0 = at(0) / NS_PER_S


def tracker() -> PodTracker:
    return PodTracker(JobBook("c", "kubernetes"))


def member(
    index: int, node: str | None, phase: str = "Running", *, since: float = 0.0, **more: Any
) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "llama",
        "batch.kubernetes.io/job-name": "llama-workers",
        "batch.kubernetes.io/job-completion-index": str(index),
        **more.pop("labels", {}),
    }
    return pod(f"llama-{index}-{since:g}", node, phase=phase, created=T0 + since, labels=labels, **more)


def exited(code: int, reason: str = "Error", at_s: float = 30.0) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(T0 + at_s))
    return {
        "containerStatuses": [
            {"state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": stamp}}}
        ]
    }


def test_placement_is_told_at_the_moment_it_is_known() -> None:
    t = tracker()
    assert t.seen(member(0, None, "Pending"), at(1)) == []
    first = t.seen(member(0, "n1", "Pending", env={"NCCL_IB_TIMEOUT": "20", "TOKEN": "x"}), at(2))
    assert jobs(first) == [(1, "RUNNING")]
    assert placements(first) == {"n1": [(JOB, 1, True)]}
    assert first[0].data.nccl == NcclSettings(ib_timeout=20)
    second = t.seen(member(1, "n2"), at(3))
    assert second[0].data.nodes == ["n1", "n2"]
    assert t.seen(member(1, "n2"), at(4)) == []


def test_an_attempt_ends_when_its_last_pod_does_and_the_cause_wins() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    t.seen(member(1, "n2"), at(1))
    assert t.seen(member(0, "n1", "Failed", status=exited(1)), at(31)) == []
    killed = {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    }
    ended = t.seen(member(1, "n2", "Failed", status={**killed, **exited(137)}), at(32))
    assert jobs(ended) == [(1, "NODE_FAIL")]
    assert (ended[0].data.exit_code, ended[0].data.end) == (1, at(30))
    assert "node failure" in ended[0].data.reason
    assert placements(ended) == {"n1": [(JOB, 1, False)], "n2": [(JOB, 1, False)]}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Succeeded"}, "COMPLETED"),
        ({"phase": "Failed", **exited(137, "OOMKilled")}, "OUT_OF_MEMORY"),
        ({"phase": "Failed", "reason": "Evicted"}, "NODE_FAIL"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "TIMEOUT"),
        ({"phase": "Failed", **exited(3)}, "FAILED"),
        (
            {"phase": "Failed", "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
            "PREEMPTED",
        ),
        ({"phase": "Running"}, "RUNNING"),
        ({"phase": "Pending"}, "PENDING"),
        ({"phase": "Unknown"}, "PENDING"),
    ],
)  # fmt: skip
def test_states_of_a_pod(status: dict[str, Any], state: str) -> None:
    found = read_pod(member(0, "n1", status["phase"], status=status))
    assert found is not None
    assert found.state == state


def test_a_deleted_pod_is_cancelled_unless_it_had_ended() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    assert jobs(t.gone(member(0, "n1"), at(9))) == [(1, "CANCELLED")]
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    assert jobs(t.gone(member(0, "n1", "Failed", status=exited(2)), at(31))) == [(1, "FAILED")]


def test_a_member_that_is_replaced_begins_a_new_attempt() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    t.seen(member(1, "n2"), at(1))
    again = t.seen(member(1, "n3", since=50), at(51))
    assert jobs(again) == [(1, "REQUEUED"), (2, "RUNNING")]
    assert placements(again)["n2"] == [(JOB, 1, False)]
    assert t.seen(member(0, "n1", "Failed", status=exited(143)), at(52)) == []  # the old generation goes
    more = t.seen(member(0, "n1", since=52), at(53))
    assert (jobs(more), more[0].data.nodes) == ([(2, "RUNNING")], ["n1", "n3"])


def test_a_jobset_counts_its_own_restarts() -> None:
    t = tracker()
    label = "jobset.sigs.k8s.io/restart-attempt"
    t.seen(member(0, "n1", labels={label: "0"}), at(1))
    assert jobs(t.seen(member(1, "n2", since=9, labels={label: "1"}), at(9))) == [
        (1, "REQUEUED"),
        (2, "RUNNING"),
    ]


def test_pods_of_no_job_are_none_of_ours() -> None:
    assert tracker().seen(pod("web", "n1", phase="Running", labels={"app": "web"}), at(1)) == []


def test_queued_by_kueue_is_told() -> None:
    (event, *_) = tracker().seen(member(0, "n1", labels={"kueue.x-k8s.io/queue-name": "q"}), at(1))
    assert event.data.scheduler == "kueue"


def test_what_was_deleted_while_nobody_looked_is_found_by_the_next_list() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    t.seen(member(1, "n2"), at(1))
    assert jobs(t.listed([member(0, "n1")], at(9))) == []
    assert jobs(t.listed([], at(10))) == [(1, "CANCELLED")]


def test_a_restarted_connector_goes_on_with_the_same_attempt_or_ends_it() -> None:
    said = tracker().seen(member(0, "n1"), at(1))
    for things, expected in (([member(0, "n1")], []), ([], [(1, "CANCELLED")])):
        t = tracker()
        for event in said:
            t.book.restore(event)
        assert jobs(t.listed(things, at(20))) == expected


# -- why pods were taken away --------------------------------------------------------------------------------

BY_KIND = {resource.kind: resource for resource in RESOURCES}


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(T0 + seconds))


def owner(kind: str, name: str = "llama", *conditions: tuple[str, str, float], **meta: Any) -> dict[str, Any]:
    told = [
        {
            "type": what,
            "status": "True",
            "reason": reason,
            "message": "told",
            "lastTransitionTime": stamp(since),
        }
        for what, reason, since in conditions
    ]
    return {"metadata": {"namespace": "train", "name": name, **meta}, "status": {"conditions": told}}


def workload(reason: str, since: float) -> dict[str, Any]:
    owners = [{"kind": "JobSet", "name": "llama", "controller": True}]
    return owner("Workload", "jobset-llama-1", ("Evicted", reason, since), ownerReferences=owners)


WORDS = [
    ("Workload", workload("Preempted", 29), "PREEMPTED"),
    ("Workload", workload("NodeFailures", 29), "NODE_FAIL"),
    ("Workload", workload("PodsReadyTimeout", 29), "REQUEUED"),
    ("Workload", workload("DeactivatedDueToMaximumExecutionTimeExceeded", 29), "TIMEOUT"),
    ("JobSet", owner("JobSet", "llama", ("Suspended", "SuspendedJobs", 29)), "REQUEUED"),
    ("JobSet", owner("JobSet", "llama", deletionTimestamp=stamp(29)), "CANCELLED"),
    ("Job", owner("Job", "llama-workers", ("FailureTarget", "DeadlineExceeded", 29),
                  labels={"jobset.sigs.k8s.io/jobset-name": "llama"}), "TIMEOUT"),
    ("TrainJob", owner("TrainJob", "llama", ("Suspended", "Suspended", 29)), "REQUEUED"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "thing", "state"), WORDS)
@pytest.mark.parametrize("first", ["word", "end"])
def test_what_owns_the_pods_says_why_they_went(
    kind: str, thing: dict[str, Any], state: str, first: str
) -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    steps = [
        lambda: t.owner_said(thing, BY_KIND[kind], at(31)),
        lambda: t.gone(member(0, "n1", "Failed", status=exited(143)), at(31)),
    ]
    told = [event for step in (steps if first == "word" else steps[::-1]) for event in step()]
    last = [e.data for e in told if e.kind == "job"][-1]
    assert last.state == state
    assert last.reason is not None
    assert kind in last.reason
    record = JobRecord()
    for event in reversed([e for e in told if e.kind == "job"]):
        record.add(event)
    assert record.job().state == state  # type: ignore[union-attr]


def test_a_word_explains_no_end_before_it_and_no_other_attempt() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    assert jobs(t.gone(member(0, "n1", "Failed", status=exited(1, at_s=20)), at(21))) == [(1, "FAILED")]
    assert t.owner_said(workload("Preempted", 29), BY_KIND["Workload"], at(29)) == []
    again = t.seen(member(0, "n1", since=30), at(31))
    assert jobs(again) == [(2, "RUNNING")]
    assert jobs(t.gone(member(0, "n1", "Failed", since=30, status=exited(1, at_s=50)), at(51))) == [
        (2, "FAILED")
    ]


def test_a_restart_of_a_jobset_deletes_its_jobs_and_that_is_nobodys_wish() -> None:
    t = tracker()
    t.seen(member(0, "n1"), at(1))
    child = owner("Job", "llama-workers", labels={"jobset.sigs.k8s.io/jobset-name": "llama"},
                  ownerReferences=[{"kind": "JobSet", "name": "llama", "controller": True}])  # fmt: skip
    assert t.owner_said(child, BY_KIND["Job"], at(20), gone_at=at(20)) == []
    assert jobs(t.gone(member(0, "n1", "Failed", status=exited(1)), at(31))) == [(1, "FAILED")]


def test_workloads_of_other_things_are_none_of_ours() -> None:
    other = owner(
        "Workload", "w", ("Evicted", "Preempted", 5), ownerReferences=[{"kind": "RayJob", "name": "r"}]
    )
    assert tracker().owner_said(other, BY_KIND["Workload"], at(6)) == []


# -- against an API server over HTTP -------------------------------------------------------------------------


@pytest.fixture
def api() -> Iterator[tuple[Api, client.ApiClient]]:
    with api_server() as served:
        yield served


@asynccontextmanager
async def connected(
    state: Api, talker: client.ApiClient, kafka: Kafka, prefix: str
) -> AsyncIterator[KubernetesConnector]:
    connector = KubernetesConnector(talker, tracker(), RawPublisher(kafka.bootstrap, prefix))
    task = asyncio.create_task(connector.run())
    try:
        yield connector
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        state.cut()
        await asyncio.gather(task, return_exceptions=True)


async def told(kafka: Kafka, prefix: str, want: list[tuple[int, str]]) -> list[Event[Any]]:
    found: list[Event[Any]] = []

    def enough(records: list[Any]) -> bool:
        found[:] = [e for r in records for e in decode_record(r.value)[0]]
        return want == [(e.data.attempt, e.data.state) for e in found]

    await kafka.read_until(f"{prefix}raw.job", enough)
    return found


async def test_a_life_over_watches_that_end_and_expire(
    api: tuple[Api, client.ApiClient], kafka: Kafka, catalogue: str
) -> None:
    state, talker = api
    first = state.put(PODS, pod("llama-0", "n1", phase="Running"))
    async with connected(state, talker, kafka, catalogue) as connector:
        await told(kafka, catalogue, [(1, "RUNNING")])
        state.cut()  # the watch ends: it goes on from where it was
        state.put(PODS, pod("llama-1", "n2", phase="Running"))
        await told(kafka, catalogue, [(1, "RUNNING"), (1, "RUNNING")])
        assert connector.pods.lists == 1
        state.expire()  # 410 Gone: everything is listed anew
        state.remove(PODS, "train/llama-1")
        state.put(PODS, {**first, "status": {**first["status"], "phase": "Succeeded"}})
        events = await told(kafka, catalogue, [(1, "RUNNING"), (1, "RUNNING"), (1, "CANCELLED")])
        assert connector.pods.lists == 2
    assert events[-1].data.nodes == ["n1", "n2"]
    assert len({e.id for e in events}) == 3


async def test_an_api_server_in_trouble_is_asked_again(
    api: tuple[Api, client.ApiClient], kafka: Kafka, catalogue: str
) -> None:
    state, talker = api
    pods = state.kinds.pop(PODS)  # every request is answered with 404
    async with connected(state, talker, kafka, catalogue):
        async with asyncio.timeout(10):
            while len(state.requests) < 2:  # noqa: ASYNC110  the server's own list
                await asyncio.sleep(0.02)
        state.kinds[PODS] = pods
        state.put(PODS, pod("llama-0", "n1", phase="Running"))
        await told(kafka, catalogue, [(1, "RUNNING")])
