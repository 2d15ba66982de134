"""The V1 shapes and the request of a recovery agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from correlator.service.postmortem import Attributors
from correlator.service.problems import ProblemError
from correlator.service.store import Store
from correlator.service.v1 import V1Attributor, context_of, node_attributions
from faultwire.postmortem import analyse
from tests.correlator.service.builders import (
    JOB,
    OUTAGE,
    app_of,
    at,
    client,
    generous,
    incident,
    job,
    verdict,
)
from tests.correlator.service.test_postmortem import here, submission
from topics.time import NS_PER_S, format_rfc3339, parse_rfc3339


@pytest.fixture
async def asking(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    attributors = Attributors(generous(), analyse, run=here)
    async with client(app_of(store, attributors=attributors)) as found:
        yield found
    attributors.close()


def loki(lines: str, node: str) -> str:
    """A capture's lines as the JSON text that a client sends as `body`."""
    values = []
    for line in lines.splitlines():
        when, _, rest = line.partition(" ")
        values.append([str(parse_rfc3339(when)), rest])
    return orjson.dumps({"streams": [{"stream": {"node": node}, "values": values}]}).decode()


async def test_a_v1_client_learns_which_node_is_suspect(asking: httpx.AsyncClient) -> None:
    context, observations = submission(OUTAGE)
    first, last = context["jobs"][0], context["jobs"][-1]
    label = incident(OUTAGE)[1]
    made = await asking.post(
        "/latest/attributor",
        json={
            "workload": {
                "id": label["job_id"], "type": "slurm", "job_start_time": first["start"],
                "job_end_time": last["end"], "status": "FAILED", "nodes": first["nodes"], "name": "x",
                "srun_cmd": "srun x", "nranks": 8 * len(first["nodes"]), "ranks_per_node": 8,
            },
            "metadata": {"cluster": "c1", "agent": "a", "tenant": "t", "ruleset": "r"},
        },
    )  # fmt: skip
    assert made.status_code == 201, made.text
    name = made.json()["attributor_id"]
    sent = [("raw_events", "port_monitor", o["body"]) for o in observations if o["format"] == "events"]
    for o in observations:
        if o["format"] == "workload":
            by_node: dict[str, list[str]] = {}
            for line in o["body"].splitlines():
                when, node, rest = line.split(" ", 2)
                by_node.setdefault(node, []).append(f"{when} {rest.partition('] ')[2] or rest}")
            sent += [
                ("raw_loki_streams", "applog", loki("\n".join(lines), n)) for n, lines in by_node.items()
            ]
    for form, source, body in sent:
        interval = {"start": first["start"], "end": last["end"]}
        told = {"time_interval": interval, "resources": "AllJobResources", "source": source, "format": form}
        reply = await asking.post(f"/attributor/{name}/observation", json={"context": told, "body": body})
        assert reply.status_code == 201, reply.text
        assert reply.json()["observation_id"]
    found = (await asking.get(f"/attributor/{name}/attribution")).json()["attributions"]
    assert [entry["node"] for entry in found] == sorted(first["nodes"])
    assert {e["type"] for e in found} == {"NodeAttribution"}
    suspects = [entry["node"] for entry in found if entry["attributions"]]
    assert suspects == [label["culprits"][0]["node"]]


def asked(**workload: Any) -> V1Attributor:
    base = {"id": 7, "nodes": "node-[01-03]", "job_start_time": 1_770_000_000, "status": "FAILED"}
    return V1Attributor.model_validate({"workload": {**base, **workload}})


def test_host_lists_numbers_and_epoch_seconds_are_understood() -> None:
    context = context_of(asked(job_end_time="2026-02-03T00:00:00Z", ranks_per_node=2))
    assert context.job_id == "7"
    running, ended = context.jobs
    assert running["nodes"] == ["node-01", "node-02", "node-03"]
    assert running["start"] == format_rfc3339(1_770_000_000 * NS_PER_S)
    assert (running["state"], ended["state"], ended["end"]) == (
        "RUNNING",
        "FAILED",
        "2026-02-03T00:00:00.000000Z",
    )
    assert ended["ranks"]["5"] == {"node": "node-03", "gpu": 1}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED by 7", "CANCELLED"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("odd", "FAILED"),
    ],
)
def test_words_of_schedulers_become_states(status: str, state: str) -> None:
    assert context_of(asked(status=status, job_end_time=1_770_000_100)).jobs[-1]["state"] == state


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": "node-[01"},
        {"nodes": []},
        {"job_start_time": None},
        {"id": "a/b"},
        {"job_start_time": 1e300},
    ],
)
def test_what_can_not_be_bound_to_nodes_and_time_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        context_of(asked(**wrong))
    assert caught.value.status == 422


def payload(**fields: Any) -> dict[str, Any]:
    return verdict(10, **fields)[1].model_dump(mode="json", exclude_none=True)["data"]  # type: ignore[no-any-return]


def test_a_programs_own_error_makes_no_node_suspect() -> None:
    found = node_attributions(payload(domain="workload", subdomain="code_exception"), ["node-1", "node-2"])
    assert [entry["attributions"] for entry in found] == [[], []]


def test_candidates_that_can_not_be_told_apart_are_all_suspect_and_said_to_be_ambiguous() -> None:
    found = node_attributions(
        payload(domain="unknown", subdomain="ambiguous", culprits=("node-1", "node-2")), ["node-1", "node-2"]
    )
    assert [e["attributions"][0]["confidence"] for e in found] == ["ambiguous", "ambiguous"]


async def recovery(asking: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    reply = await asking.post(
        "/v1/attribution",
        json={"schema_version": "1", "workload_id": JOB, **more},
        headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    )
    assert reply.status_code == 200, reply.text
    assert reply.headers["traceparent"].startswith("00-0af7")
    found: dict[str, Any] = reply.json()
    return found


async def test_a_recovery_agent_gets_the_live_verdict_of_its_phase(
    store: Store, asking: httpx.AsyncClient
) -> None:
    assert (await recovery(asking))["status"] == "unknown"
    store.ingest([job(), verdict(28, revision=1, phase="provisional")])
    assert (await recovery(asking))["status"] == "partial"
    store.ingest([verdict(29, revision=1001)])
    fast = await recovery(asking, scope={"nodes": ["node-1", "node-3"]})
    assert (fast["status"], fast["subdomain"], fast["attempt"]) == ("complete", "network_hca_port", 1)
    assert [(e["node"], bool(e["attributions"])) for e in fast["attributions"]] == [
        ("node-1", True), ("node-3", False),
    ]  # fmt: skip
    assert (await recovery(asking, phase="slow"))["status"] == "partial"


async def test_a_recovery_agent_can_wait_for_the_verdict(store: Store, asking: httpx.AsyncClient) -> None:
    store.ingest([job()])
    waiting = asyncio.create_task(recovery(asking, timeout_ms=50_000))
    await asyncio.sleep(0)
    await asyncio.to_thread(store.ingest, [verdict(28)])
    async with asyncio.timeout(30):
        assert (await waiting)["status"] == "complete"


async def test_the_last_attempt_is_meant_where_none_is_named(store: Store, asking: httpx.AsyncClient) -> None:
    store.ingest([verdict(28), verdict(40, attempt=2, culprits=("node-2",))])
    assert (await recovery(asking))["attempt"] == 2
    assert (await recovery(asking, attempt=1))["verdict"]["culprits"][0]["node"] == "node-1"
    assert at(0)
