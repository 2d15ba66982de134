"""A small incident as events, single events, and a client of the service in this process."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import orjson
from fastapi import FastAPI

from correlator.service.app import create_app
from correlator.service.auth import Caller, Tokens, digest
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from faultwire.capture import load
from faultwire.replay import replay
from tests.captures.harness import built
from topics.control import Audit
from topics.derived import Action, Attribution, Culprit, Guard, Health, Signal, Symptom
from topics.events import Event, make
from topics.ids import fact_id
from topics.payloads import CollectorStatus, Heartbeat, Job, Levels, NcclSettings, PlacedAttempt, Placement
from topics.time import NS_PER_S

T0 = 1_770_000_000 * NS_PER_S
JOB = "7001"
BASE = "http://127.0.0.1"
OUTAGE = "outage-and-timeout-from-the-log"

Told = list[tuple[str, Event[Any]]]


def at(seconds: float) -> int:
    return T0 + round(seconds * 1_000_000) * 1000


@cache
def incident(name: str) -> tuple[Told, dict[str, Any]]:
    """Everything that stands on the topics after a scenario, in the order in which it came; and its label."""
    with tempfile.TemporaryDirectory() as folder:
        path, label = built(name, Path(folder))
        capture = load(path)
        told: Told = [(record.topic, record.event) for record in capture.records]
        told += [(output.topic, output.event) for _, output in replay(capture).outputs]
    return told, label


@cache
def files(name: str) -> dict[str, bytes]:
    """The files of a scenario's capture by path."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = built(name, Path(folder))
        return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


def verdict_of(name: str) -> dict[str, Any]:
    """The last verdict on the labelled attempt, as `faultwire replay` prints it."""
    with tempfile.TemporaryDirectory() as folder:
        path, label = built(name, Path(folder))
        found = [
            v for v in replay(load(path)).verdicts()
            if (v.job_id, v.attempt) == (label["job_id"], label["attempt"])
        ]  # fmt: skip
        return found[0].model_dump(mode="json", exclude_none=True)


def _event(topic: str, data: Any, key: str, seconds: float, **more: Any) -> tuple[str, Event[Any]]:
    event = make(
        data,
        id=more.pop("id", None) or fact_id(topic, key, seconds, data.model_dump_json()),
        source=f"/c1/{key}/test",
        subject="node",
        time=at(seconds),
        key=key,
        **more,
    )
    return topic, event


def heartbeat(node: str, seconds: float, **statuses: str) -> tuple[str, Event[Any]]:
    data = Heartbeat(
        boot_id="b", uptime_s=1.0, interval_s=10.0, inventory_version=1, state=Levels(),
        collectors={n: CollectorStatus(status=s) for n, s in (statuses or {"kmsg": "ok"}).items()},
    )  # fmt: skip
    return _event("raw.node", data, node, seconds)


def health(node: str, state: str, previous: str, seconds: float, **more: Any) -> tuple[str, Event[Any]]:
    data = Health(
        state=state,
        previous=previous,
        since=at(seconds),
        reasons=[],
        budget={},
        job_ids=[],  # type: ignore[arg-type]
    )
    return _event("health", data, node, seconds, **more)


def signal(
    node: str, state: str, seconds: float, *, since: float = 0.0, name: str = "port_outage",
    entity: str = "port/mlx5_0/1", severity: str = "error", revision: int | None = None,
    evidence: Sequence[str] = (), detail: Mapping[str, Any] | None = None, **fields: Any,
) -> tuple[str, Event[Any]]:  # fmt: skip
    event = {k: fields.pop(k) for k in ("id", "drill") if k in fields}
    data = Signal(
        signal=name, entity=entity, state=state, severity=severity, since=at(since), unit="s",  # type: ignore[arg-type]
        revision=revision, evidence=list(evidence), detail=dict(detail or {}), **fields,
    )  # fmt: skip
    return _event("signals", data, node, seconds, **event)


def placement(node: str, seconds: float, *jobs: str, until: float | None = None) -> tuple[str, Event[Any]]:
    end = None if until is None else at(until)
    placed = [PlacedAttempt(job_id=job, attempt=1, since=at(0), until=end) for job in jobs]
    return _event("raw.placement", Placement(attempts=placed), node, seconds)


def job(
    state: str = "RUNNING", seconds: float = 0.0, *, job_id: str = JOB, attempt: int = 1,
    nodes: Sequence[str] = ("node-1", "node-2"), **more: Any,
) -> tuple[str, Event[Any]]:  # fmt: skip
    data = Job(
        job_id=job_id, attempt=attempt, scheduler="slurm", state=state, start=at(0), nodes=list(nodes),  # type: ignore[arg-type]
        end=None if state in ("RUNNING", "PENDING") else at(seconds), nccl=NcclSettings(version="2.21.5"),
        **more,
    )  # fmt: skip
    return _event("raw.job", data, job_id, seconds)


def verdict(
    seconds: float, *, job_id: str = JOB, attempt: int = 1, revision: int = 1, phase: str = "fast",
    domain: str = "hardware", subdomain: str = "network_hca_port", culprits: Sequence[str] = ("node-1",),
    evidence: Sequence[str] = (), **more: Any,
) -> tuple[str, Event[Any]]:  # fmt: skip
    symptom = Symptom(
        code="port_outage", node="node-1", entity="port/mlx5_0/1", time=at(seconds), tier=3,
        state="active", evidence=list(evidence),
    )  # fmt: skip
    data = Attribution(
        job_id=job_id, attempt=attempt, revision=revision, phase=phase, terminal_state="FAILED",  # type: ignore[arg-type]
        domain=domain, subdomain=subdomain, culprits=[Culprit(node=n, entity="node") for n in culprits],  # type: ignore[arg-type]
        onset=at(seconds), active=[symptom], interesting=[], affected_nodes=["node-1", "node-2"], coverage=[],
        rules=[], ruleset="r", input_hash="h", provenance="live",
    )  # fmt: skip
    return _event("attributions", data, job_id, seconds, **more)


def action(
    seconds: float, *, name: str = "interrupt_and_restart", because: Sequence[str] = (), **more: Any
) -> tuple[str, Event[Any]]:
    data = Action(
        action=name, job_id=JOB, attempt=1, nodes=["node-1"], reason="why", because=list(because),  # type: ignore[arg-type]
        guards=[Guard(guard="coverage", passed=True, detail="seen")], dry_run=True, expires=at(seconds + 60),
    )  # fmt: skip
    return _event("actions", data, JOB, seconds, **more)


def audit(seconds: float, outcome: str, action_id: str) -> tuple[str, Event[Any]]:
    data = Audit(controller="slurm", outcome=outcome, detail=outcome, action_id=action_id)  # type: ignore[arg-type]
    return _event("audit", data, JOB, seconds)


READER, SUBMITTER, OPERATOR = "reader-0123456789", "submitter-0123456789", "operator-0123456789"
TOKENS = Tokens(
    {
        digest(READER): Caller("reader", frozenset({"read"})),
        digest(SUBMITTER): Caller("submitter", frozenset({"submit"})),
        digest(OPERATOR): Caller("operator", frozenset({"read", "submit", "operate"})),
    }
)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def generous(**more: Any) -> ServiceSettings:
    """No test is about speed unless it says so."""
    return ServiceSettings(
        **{"rate_per_s": 1e6, "burst": 10**6, "request_timeout_s": 60.0, "analysis_timeout_s": 100.0, **more}
    )


@asynccontextmanager
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as asking:
        yield asking


def app_of(store: Store, **more: Any) -> FastAPI:
    settings = more.pop("settings", None) or generous()
    return create_app(store, settings, clock=more.pop("clock", lambda: at(1000)), **more)


async def get(store: Store, path: str, **params: Any) -> Any:
    """The reply's JSON, of a service of its own."""
    async with client(app_of(store)) as asking:
        reply = await asking.get(path, params=params)
    assert reply.status_code == 200, reply.text
    return orjson.loads(reply.content)
