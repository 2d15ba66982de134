"""What the GET routes say about an incident, and how lists are walked through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from correlator.service import models
from correlator.service.store import Store
from tests.correlator.service.builders import (
    JOB,
    OUTAGE,
    action,
    app_of,
    at,
    audit,
    client,
    get,
    health,
    heartbeat,
    incident,
    job,
    placement,
    signal,
    verdict,
)
from topics.time import format_rfc3339


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, dict[str, Any]]]:
    """A store after a port was down for too long, and the label of that."""
    told, label = incident(OUTAGE)
    store = Store(Path(tmp_path_factory.mktemp("outage")) / "s.db")
    store.ingest(told)
    yield store, label
    store.close()


async def test_the_overview_shows_the_culprit_its_state_and_the_jobs(
    outage: tuple[Store, dict[str, Any]],
) -> None:
    store, label = outage
    told = await get(store, "/v1/overview")
    culprit = label["culprits"][0]["node"]
    node = next(n for n in told["nodes"] if n["node"] == culprit)
    assert node["state"] not in ("healthy", "unknown")
    assert node["changed"] is not None
    others = {n["state"] for n in told["nodes"] if n["node"] != culprit}
    assert others == {"healthy"}, "heard, and never in trouble"
    assert sum(told["counts"]["nodes"].values()) == len(told["nodes"])
    summary = next(j for j in told["jobs"] if j["job_id"] == label["job_id"])
    verdict = summary["verdict"]
    assert (verdict["domain"], verdict["subdomain"]) == (label["domain"], label["subdomain"])
    assert (verdict["node"], verdict["entity"]) == (culprit, label["culprits"][0]["entity"])
    assert summary["action"]["action"] == "interrupt_and_restart"


async def test_a_node_that_nobody_heard_is_unknown_and_not_healthy(store: Store) -> None:
    store.ingest([placement("node-1", 0, JOB), heartbeat("node-2", 1)])
    states = {n["node"]: n["state"] for n in (await get(store, "/v1/overview"))["nodes"]}
    assert states == {"node-1": "unknown", "node-2": "healthy"}


async def test_a_node_counts_its_open_conditions_and_names_the_worst(store: Store) -> None:
    store.ingest(
        [
            signal("node-1", "open", 1, since=1, severity="warning"),
            signal("node-1", "open", 2, since=2, severity="fatal", name="xid_critical"),
            signal("node-1", "cleared", 9, since=3, severity="fatal", name="throttle"),
            placement("node-1", 0, JOB),
        ]
    )
    node = (await get(store, "/v1/overview"))["nodes"][0]
    assert (node["severity"], node["signals"]) == ("fatal", 2)
    assert node["jobs"] == [{"job_id": JOB, "attempt": 1}]


async def test_an_attempt_has_its_record_and_the_budget_that_its_log_tells(
    outage: tuple[Store, dict[str, Any]],
) -> None:
    store, label = outage
    told = await get(store, f"/v1/jobs/{label['job_id']}/attempts/{label['attempt']}")
    assert "nccl" not in told["job"], "the budget stands in the log alone"
    assert told["budget_s"] == pytest.approx(7 * 4.096e-6 * 2**22, rel=0.01) or told["budget_s"] > 0
    assert len(told["job"]["nodes"]) == told["nodes"]


async def test_all_revisions_of_a_verdict_rise_to_the_last_one(outage: tuple[Store, dict[str, Any]]) -> None:
    store, label = outage
    told = await get(store, f"/v1/jobs/{label['job_id']}/attempts/{label['attempt']}/attribution")
    numbers = [event["data"]["revision"] for event in told["revisions"]]
    assert numbers == sorted(set(numbers))
    assert told["latest"] == told["revisions"][-1]
    assert told["latest"]["data"]["phase"] == "final"


async def test_the_timeline_has_a_lane_a_node_with_the_outage_as_a_span(
    outage: tuple[Store, dict[str, Any]],
) -> None:
    store, label = outage
    path = f"/v1/jobs/{label['job_id']}/attempts/{label['attempt']}"
    told, attempt = await get(store, f"{path}/timeline"), await get(store, path)
    assert [lane["node"] for lane in told["lanes"]] == sorted(attempt["job"]["nodes"])
    assert told["budget_s"] == attempt["budget_s"]
    culprit = label["culprits"][0]
    lane = next(lane for lane in told["lanes"] if lane["node"] == culprit["node"])
    span = next(s for s in lane["spans"] if s["signal"] == "port_outage")
    assert span["entity"] == culprit["entity"]
    assert told["from"] < span["since"] < (span["until"] or told["to"])
    assert told["onset"] is not None
    marks = [m for lane in told["lanes"] for m in lane["marks"]]
    assert any(m["kind"] == "nccl.ib_completion_error" for m in marks)
    assert all(set(m) >= {"id", "kind", "time", "text", "severity"} for m in marks)
    assert "interrupt_and_restart" in {a["action"] for a in told["actions"]}
    assert not any(s["signal"] == "node_coverage" for lane in told["lanes"] for s in lane["spans"])


async def test_a_lane_hides_what_would_drown_it_and_says_how_much(store: Store) -> None:
    from topics.events import make
    from topics.payloads import Log, Origin

    def line(n: int) -> Any:
        data = Log(job_id=JOB, family="nccl", code="nccl.remote_error", message="x", origin=Origin())
        return make(
            data, id=f"l{n}", source="/c1/node-1/logs", subject="node", time=at(n), key=JOB,
            node="node-1", jobid=JOB, attempt=1,
        )  # fmt: skip

    store.ingest([job(), *(("evidence", line(n)) for n in range(100))])
    lane = (await get(store, f"/v1/jobs/{JOB}/attempts/1/timeline"))["lanes"][0]
    assert len(lane["marks"]) + lane["hidden"] == 100
    assert lane["marks"][0]["id"] == "l0", "the first ones tell the onset"


async def test_the_chain_of_an_action_ends_in_the_kernel_or_port_record(
    outage: tuple[Store, dict[str, Any]],
) -> None:
    store, _ = outage
    listed = await get(store, "/v1/actions")
    asked = next(
        i["event"] for i in listed["items"] if i["event"]["data"]["action"] == "interrupt_and_restart"
    )
    told = await get(store, f"/v1/events/{asked['id']}")
    assert told["event"] == asked

    def kinds(link: dict[str, Any]) -> set[str]:
        return {link.get("kind", "missing")}.union(*(kinds(c) for c in link.get("causes", ())))

    assert {"action", "signal", "ib_port"} <= kinds(told)
    assert "missing" not in kinds(told)
    raw = next(c for c in _walk(told) if c["kind"] == "ib_port")
    back = await get(store, f"/v1/events/{raw['id']}")
    assert "signal" in {e["kind"] for e in back["effects"]}


def _walk(link: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield link
    for cause in link.get("causes", ()):
        yield from _walk(cause)


async def test_a_cause_that_is_not_known_is_said_to_be_missing(store: Store) -> None:
    store.ingest([signal("node-1", "open", 1, id="s", evidence=["gone"])])
    assert (await get(store, "/v1/events/s"))["causes"] == [{"id": "gone", "missing": True}]


async def test_causes_that_name_each_other_end(store: Store) -> None:
    store.ingest(
        [
            signal("node-1", "open", 1, id="a", evidence=["b"]),
            signal("node-1", "open", 2, id="b", evidence=["a"]),
        ]
    )
    told = await get(store, "/v1/events/a")
    assert told["causes"][0]["id"] == "b"
    assert told["causes"][0]["causes"] == []


async def test_a_node_page_sums_outages_within_windows_once(store: Store) -> None:
    store.ingest(
        [
            signal("node-1", "cleared", 900, since=890, value=10.0, revision=1),
            signal("node-1", "open", 995, since=995),
            signal(
                "node-1",
                "open",
                890,
                since=880,
                name="port_downtime",
                window_s=60.0,
                threshold=2.0,
                value=10.0,
            ),
        ]
    )
    port = (await get(store, "/v1/nodes/node-1"))["ports"][0]
    assert [o["length_s"] for o in port["outages"]] == [5.0, 10.0], "one still lasts: it is the time 1000"
    assert {w["window_s"]: w["down_s"] for w in port["windows"]} == {
        60: 5.0,
        600: 15.0,
        3600: 15.0,
        86400: 15.0,
    }
    assert port["windows"][0]["threshold"] == 2.0


async def test_a_node_page_has_health_jobs_and_the_verdicts_that_name_it(store: Store) -> None:
    store.ingest(
        [
            heartbeat("node-1", 1), placement("node-1", 0, JOB), job(), verdict(28),
            health("node-1", "suspect", "healthy", 20), health("node-1", "draining", "suspect", 30),
        ]
    )  # fmt: skip
    told = await get(store, "/v1/nodes/node-1")
    assert told["state"] == "draining"
    assert [e["data"]["state"] for e in told["transitions"]] == ["draining", "suspect"]
    assert told["jobs"][0]["job_id"] == JOB
    assert told["verdicts"][0]["roles"] == ["culprit", "affected"]


async def test_lists_are_walked_by_cursor_without_gaps_or_repeats(store: Store) -> None:
    store.ingest([job("RUNNING", n % 3, job_id=f"j{n:02d}") for n in range(23)])
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 5}
    while True:
        page = await get(store, "/v1/jobs", **params)
        seen += [item["job_id"] for item in page["items"]]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    assert sorted(seen) == [f"j{n:02d}" for n in range(23)]


async def test_verdicts_are_filtered_by_time_domain_node_and_job(store: Store) -> None:
    store.ingest(
        [
            verdict(10, job_id="a", revision=1, domain="unknown", subdomain="ambiguous"),
            verdict(20, job_id="a", revision=2),
            verdict(30, job_id="b", domain="workload", subdomain="code_exception", culprits=("node-9",)),
        ]
    )

    async def found(**params: Any) -> list[tuple[str, int]]:
        page = await get(store, "/v1/attributions", **params)
        return [(i["data"]["job_id"], i["data"]["revision"]) for i in page["items"]]

    assert await found() == [("b", 1), ("a", 2)]
    assert await found(revisions=True) == [("b", 1), ("a", 2), ("a", 1)]
    assert await found(domain="hardware") == [("a", 2)]
    assert await found(node="node-9") == [("b", 1)]
    assert await found(job="a") == [("a", 2)]
    assert await found(since=format_rfc3339(at(25))) == [("b", 1)]
    assert await found(until=format_rfc3339(at(25))) == [("a", 2)]


async def test_actions_carry_what_controllers_made_of_them(store: Store) -> None:
    first, second = action(28, because=["v"]), action(29, name="cordon", because=["v"])
    store.ingest([first, second, audit(30, "done", first[1].id), audit(30, "begun", first[1].id)])
    told = (await get(store, "/v1/actions"))["items"]
    assert [(i["event"]["data"]["action"], i["outcome"]) for i in told] == [
        ("cordon", "asked"), ("interrupt_and_restart", "done"),
    ]  # fmt: skip
    assert [e["data"]["outcome"] for e in told[1]["trail"]] == ["begun", "done"]
    only = (await get(store, "/v1/actions", outcome="done"))["items"]
    assert [i["event"]["id"] for i in only] == [first[1].id]


async def test_who_was_to_blame_twice_is_an_offender(store: Store) -> None:
    store.ingest(
        [verdict(10, job_id="a"), verdict(20, job_id="b"), verdict(30, job_id="c", culprits=("node-9",))]
    )
    told = await get(store, "/v1/offenders", since=format_rfc3339(at(0)))
    assert {o["name"] for o in told["items"] if o["kind"] == "node"} == {"node-1"}


async def test_coverage_tells_silent_nodes_and_failed_collectors_apart(store: Store) -> None:
    store.ingest([heartbeat("node-1", 1, kmsg="failed", nvml="ok"), placement("node-2", 0, JOB)])
    told = await get(store, "/v1/coverage")
    assert told["never_heard"] == 1
    assert told["counts"] == {"kmsg": {"failed": 1}, "nvml": {"ok": 1}}


async def test_an_etag_spares_the_body_until_something_changes(store: Store) -> None:
    store.ingest([job(), verdict(10)])
    async with client(app_of(store)) as asking:
        for path in ("/v1/overview", f"/v1/jobs/{JOB}/attempts/1/attribution"):
            first = await asking.get(path)
            again = await asking.get(path, headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        store.ingest([verdict(11, revision=2)])
        for path in ("/v1/overview", f"/v1/jobs/{JOB}/attempts/1/attribution"):
            changed = await asking.get(path, headers={"If-None-Match": first.headers["etag"]})
            assert changed.status_code == 200
            assert orjson.loads(changed.content)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nodes/nobody", 404), ("/v1/events/none", 404), ("/v1/jobs/none/attempts/1", 404),
        ("/v1/jobs/none/attempts/1/timeline", 404), ("/v1/jobs/none/attempts/1/attribution", 404),
        ("/v1/jobs?cursor=AAAA", 400), ("/v1/jobs?cursor=WzFd", 400), ("/v1/jobs?limit=0", 422),
        ("/v1/attributions?since=yesterday", 400), ("/v1/attributions?domain=hardwere", 422),
        ("/v1/jobs/x/attempts/one", 422), ("/v2/nothing", 404), ("/v1/stream?topics=everything", 400),
    ],
)  # fmt: skip
async def test_errors_are_problem_details(store: Store, path: str, status: int) -> None:
    async with client(app_of(store)) as asking:
        reply = await asking.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")
    told = orjson.loads(reply.content)
    assert told["status"] == status
    assert told["title"]


async def test_the_api_describes_itself_as_openapi_3_1(store: Store) -> None:
    async with client(app_of(store)) as asking:
        told = orjson.loads((await asking.get("/openapi.json")).content)
    assert told["openapi"].startswith("3.1")
    described = {path for path in told["paths"] if path.startswith("/v1/")}
    assert {"/v1/overview", "/v1/events/{event_id}", "/v1/stream", "/v1/attributors"} <= described


async def test_replies_have_the_shapes_that_the_api_describes(outage: tuple[Store, dict[str, Any]]) -> None:
    store, label = outage
    attempt = f"/v1/jobs/{label['job_id']}/attempts/{label['attempt']}"
    listed = await get(store, "/v1/actions")
    paths: dict[str, type[BaseModel]] = {
        "/v1/overview": models.Overview, "/v1/jobs": models.Jobs, attempt: models.AttemptReply,
        f"{attempt}/attribution": models.Verdicts, f"{attempt}/timeline": models.Timeline,
        "/v1/attributions": models.Attributions, "/v1/coverage": models.CoverageReply,
        f"/v1/nodes/{label['culprits'][0]['node']}": models.NodeReply, "/v1/actions": models.Actions,
        f"/v1/events/{listed['items'][0]['event']['id']}": models.Chain,
        "/v1/offenders?least=1&since=2020-01-01T00:00:00Z": models.Offenders,
    }  # fmt: skip
    async with client(app_of(store)) as asking:
        for path, model in paths.items():
            model.model_validate_json((await asking.get(path)).content)
