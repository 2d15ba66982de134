"""Post-mortem analyses: the verdict of `faultwire replay`, whatever the order, the cuts and the format."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from correlator.service.postmortem import Attributors
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from faultwire.postmortem import analyse
from tests.correlator.service.builders import OUTAGE, app_of, client, files, generous, incident, verdict_of

XID = "xid79-takes-its-links-along"

Submission = tuple[dict[str, Any], list[dict[str, Any]]]


def submission(name: str) -> Submission:
    """A capture's files as context and observations."""
    found = files(name)
    label = incident(name)[1]
    cluster = orjson.loads(found["cluster.json"])
    context = {
        "cluster": cluster["cluster"],
        "job_id": label["job_id"],
        "attempt": label["attempt"],
        "jobs": [orjson.loads(line) for line in found["jobs.jsonl"].splitlines()],
        "inventory": cluster["nodes"],
    }
    observations: list[dict[str, Any]] = []
    for path, raw in found.items():
        parts = path.split("/")
        text = raw.decode()
        if parts[0] == "jobs":
            if parts[1] == label["job_id"]:
                observations.append({"format": "workload", "name": parts[2], "body": text})
        elif parts[0] == "nodes" and parts[2] == "events.jsonl":
            observations.append({"format": "events", "node": parts[1], "body": text})
        elif parts[0] == "nodes" and parts[2] in ("kernel.log", "fabricmanager.log"):
            form = "kernel" if parts[2] == "kernel.log" else "fabric_manager"
            boot = orjson.loads(found.get(f"nodes/{parts[1]}/boot.json", b"{}"))
            observations.append({"format": form, "node": parts[1], "body": text, **boot})
    return context, observations


async def here(function: Any, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = await asyncio.to_thread(function, folder)
    return found


@pytest.fixture
def attributors() -> Iterator[Attributors]:
    found = Attributors(generous(), analyse, run=here)
    yield found
    found.close()


@pytest.fixture
async def asking(store: Store, attributors: Attributors) -> AsyncIterator[httpx.AsyncClient]:
    async with client(app_of(store, attributors=attributors)) as found:
        yield found


async def submit(
    asking: httpx.AsyncClient, context: dict[str, Any], observations: list[dict[str, Any]]
) -> str:
    """Returns the address of the attributor."""
    made = await asking.post("/v1/attributors", json=context)
    assert made.status_code == 201, made.text
    address = made.headers["location"]
    for observation in observations:
        reply = await asking.post(f"{address}/observations", json=observation)
        assert reply.status_code in (200, 201), reply.text
    return str(address)


async def told(asking: httpx.AsyncClient, address: str, phase: str = "slow") -> dict[str, Any]:
    reply = await asking.get(f"{address}/attribution", params={"phase": phase})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = orjson.loads(reply.content)
    return found


@pytest.mark.parametrize("name", [OUTAGE, XID, "spoofed-xid79", "second-attempt-succeeds"])
async def test_the_verdict_is_that_of_replay(asking: httpx.AsyncClient, name: str) -> None:
    found = await told(asking, await submit(asking, *submission(name)))
    assert found["attribution"] == verdict_of(name)
    assert not found["problems"]
    assert not [o for o in found["observations"] if o["problems"]]


async def test_neither_order_nor_repeats_nor_cuts_matter(asking: httpx.AsyncClient) -> None:
    context, observations = submission(XID)
    pieces: list[dict[str, Any]] = []
    for observation in observations:
        lines = observation["body"].splitlines(keepends=True)
        cut = len(lines) // 2
        if observation["format"] == "kernel" or len(lines) < 4:
            pieces.append(observation)
        else:
            parts = ("".join(lines[:cut]), "".join(lines[cut:]))
            pieces += [{**observation, "name": observation.get("name", "e"), "body": part} for part in parts]
    pieces += pieces[::2]
    random.Random(3).shuffle(pieces)
    found = await told(asking, await submit(asking, context, pieces))
    assert found["attribution"] == verdict_of(XID)


async def test_pieces_of_a_file_are_read_in_the_order_of_their_time(asking: httpx.AsyncClient) -> None:
    """A traceback may lie across the cut, and what began in one piece ends in the next."""
    name = "exception-cascade"
    context, observations = submission(name)
    pieces: list[dict[str, Any]] = []
    for observation in observations:
        if observation["format"] != "workload":
            pieces.append(observation)
            continue
        lines = observation["body"].splitlines(keepends=True)
        part: list[str] = []
        for line, before in zip(lines, ["", *lines], strict=False):
            if len(part) >= 3 and line.partition(" ")[0] != before.partition(" ")[0]:
                pieces.append({**observation, "body": "".join(part)})
                part = []
            part.append(line)
        pieces.append({**observation, "body": "".join(part)})
    found = await told(asking, await submit(asking, context, pieces[::-1]))
    wanted = verdict_of(name)
    assert {s["code"] for s in found["attribution"]["active"]} == {s["code"] for s in wanted["active"]}
    assert found["attribution"]["culprits"] == wanted["culprits"]
    assert found["events"] == (await told(asking, await submit(asking, context, observations)))["events"]


async def test_asking_between_submissions_changes_nothing(asking: httpx.AsyncClient) -> None:
    context, observations = submission(OUTAGE)
    address = await submit(asking, context, [])
    early = await told(asking, address)
    assert early["attribution"]["subdomain"] != verdict_of(OUTAGE)["subdomain"]
    for observation in observations:
        await asking.post(f"{address}/observations", json=observation)
    assert (await told(asking, address))["attribution"] == verdict_of(OUTAGE)


async def test_fast_is_what_stood_before_the_last_word(asking: httpx.AsyncClient) -> None:
    address = await submit(asking, *submission(OUTAGE))
    fast, slow = await told(asking, address, "fast"), await told(asking, address)
    assert fast["attribution"]["phase"] == "fast"
    assert slow["attribution"]["phase"] == "final"
    assert fast["attribution"]["revision"] < slow["attribution"]["revision"]


async def test_loki_and_plain_text_come_to_the_same_verdict(asking: httpx.AsyncClient) -> None:
    context, observations = submission(OUTAGE)
    changed: list[dict[str, Any]] = []
    for observation in observations:
        if observation["format"] != "workload":
            changed.append(observation)
            continue
        streams: dict[tuple[str, str], list[list[str]]] = {}
        for line in observation["body"].splitlines():
            when, node, rest = line.split(" ", 2)
            rank, text = rest.partition("] ")[::2] if rest.startswith("[rank=") else ("", rest)
            ns = str(_ns(when))
            streams.setdefault((node, rank.removeprefix("[rank=")), []).append([ns, text])
        body = {
            "streams": [
                {"stream": {"node": node, **({"rank": rank} if rank else {})}, "values": values}
                for (node, rank), values in streams.items()
            ]
        }
        changed.append({"format": "loki", "content": "workload", "source": "loki", "body": body})
    found = await told(asking, await submit(asking, context, changed))
    wanted = verdict_of(OUTAGE)
    for name in ("terminal_state", "domain", "subdomain", "culprits"):
        assert found["attribution"][name] == wanted[name]


def _ns(text: str) -> int:
    from topics.time import parse_rfc3339

    return parse_rfc3339(text)


async def test_what_can_not_be_read_is_told_and_costs_nothing_else(asking: httpx.AsyncClient) -> None:
    context, observations = submission(OUTAGE)
    bad = [
        {"format": "events", "body": [{"type": "faultwire.signal.v1"}, 7, {"type": "nonsense"}]},
        {"format": "kernel", "node": "a-stranger", "body": "x"},
        {"format": "loki", "body": {"status": "error", "error": "too much"}},
        {"format": "promql", "body": "not json"},
        {"format": "workload", "name": "z", "body": "no time at all\n"},
    ]
    found = await told(asking, await submit(asking, context, [*bad, *observations]))
    wanted = verdict_of(OUTAGE)
    assert {k: found["attribution"][k] for k in ("domain", "subdomain", "culprits")} == {
        k: wanted[k] for k in ("domain", "subdomain", "culprits")
    }
    assert [bool(o["problems"]) for o in found["observations"][: len(bad)]] == [True] * len(bad)


async def test_derived_events_can_not_be_submitted(asking: httpx.AsyncClient) -> None:
    """Or somebody could hand in a verdict, and get it back as ours."""
    context, _ = submission(OUTAGE)
    derived = [
        orjson.loads(e.model_dump_json(exclude_none=True))
        for t, e in incident(OUTAGE)[0]
        if t == "attributions"
    ]
    found = await told(
        asking, await submit(asking, context, [{"format": "events", "node": "node-01", "body": derived}])
    )
    assert len(found["observations"][0]["problems"]) > 0
    assert found["observations"][0]["events"] == 0


async def test_the_same_observation_has_the_same_id(asking: httpx.AsyncClient) -> None:
    context, observations = submission(OUTAGE)
    address = await submit(asking, context, [])
    first = await asking.post(f"{address}/observations", json=observations[0])
    again = await asking.post(f"{address}/observations", json=observations[0])
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert again.json()["duplicate"]


async def test_an_unknown_attributor_is_not_found(asking: httpx.AsyncClient) -> None:
    for reply in (
        await asking.get("/v1/attributors/none/attribution"),
        await asking.delete("/v1/attributors/none"),
        await asking.post("/v1/attributors/none/observations", json={"format": "kernel", "body": ""}),
    ):
        assert reply.status_code == 404


def bodies_below(folder: Path, pattern: str = "*.body") -> list[Path]:
    return list(folder.rglob(pattern))


async def test_a_forgotten_attributor_leaves_no_files(store: Store, tmp_path: Path) -> None:
    now = 0.0
    attributors = Attributors(
        generous(spool=tmp_path / "spool", attributor_idle_s=10.0, max_attributors=2),
        analyse,
        run=here,
        clock=lambda: now,
    )
    async with client(app_of(store, attributors=attributors)) as asking:
        context, observations = submission(OUTAGE)
        first = await submit(asking, context, observations[:1])
        await submit(asking, context, [])
        assert len(bodies_below(tmp_path)) == 1
        now = 5.0
        await submit(asking, context, [])  # the third of two: the one that was idle for longest goes
        assert len(attributors) == 2
        assert (await asking.get(f"{first}/attribution")).status_code == 404
        now = 16.0
        last = await submit(asking, context, observations)
        assert len(attributors) == 1
        assert (await asking.delete(last)).status_code == 204
    assert not bodies_below(tmp_path)
    attributors.close()
    assert not bodies_below(tmp_path / "spool", "*")


async def test_observations_are_bounded_in_size(store: Store) -> None:
    attributors = Attributors(generous(attributor_bytes=3000, attributors_bytes=4000), analyse, run=here)
    async with client(app_of(store, attributors=attributors)) as asking:
        context, _ = submission(OUTAGE)
        address = await submit(asking, context, [{"format": "kernel", "node": "node-01", "body": "x" * 2500}])
        more = {"format": "kernel", "node": "node-01", "body": "y" * 2500}
        assert (await asking.post(f"{address}/observations", json=more)).status_code == 413
        other = await submit(asking, context, [])
        assert (await asking.post(f"{other}/observations", json=more)).status_code == 503
    attributors.close()


def slow(_folder: str) -> dict[str, Any]:
    time.sleep(60)
    return {}


async def test_an_analysis_that_takes_too_long_is_ended(store: Store) -> None:
    settings = ServiceSettings(rate_per_s=1e6, burst=10**6, analysis_timeout_s=0.2, request_timeout_s=60.0)
    attributors = Attributors(settings, slow)  # in a process of its own, as live
    async with client(app_of(store, settings=settings, attributors=attributors)) as asking:
        context, _ = submission(OUTAGE)
        address = await submit(asking, context, [])
        reply = await asking.get(f"{address}/attribution")
    assert reply.status_code == 503
    assert "0.2 s" in reply.json()["detail"]
    attributors.close()


async def test_an_analysis_in_a_process_of_its_own_gives_the_same(store: Store) -> None:
    attributors = Attributors(generous(), analyse)
    async with client(app_of(store, attributors=attributors)) as asking:
        found = await told(asking, await submit(asking, *submission(OUTAGE)))
    assert found["attribution"] == verdict_of(OUTAGE)
    attributors.close()


async def test_without_an_engine_the_service_says_that_it_has_none(store: Store) -> None:
    async with client(app_of(store)) as asking:
        assert (await asking.post("/v1/attributors", json=submission(OUTAGE)[0])).status_code == 501


async def test_what_was_submitted_is_nowhere_among_what_is_read(
    store: Store, asking: httpx.AsyncClient
) -> None:
    address = await submit(asking, *submission(OUTAGE))
    assert (await told(asking, address))["attribution"]["domain"] == "hardware"
    for path in ("/v1/jobs", "/v1/attributions", "/v1/actions"):
        assert (await asking.get(path)).json()["items"] == []
    assert (await asking.get("/v1/overview")).json()["nodes"] == []
