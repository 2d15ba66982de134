"""Fleets and events for the page's tests."""

from __future__ import annotations

from typing import Any

from faultwire.demo.fleet import HEARTBEAT_S, Fleet
from tests.page.stage import CLUSTER, Stage
from topics import ids
from topics.derived import Health, HealthReason, HealthState
from topics.events import Event, make
from topics.payloads import CollectorStatus, Heartbeat, Job, Kernel, Levels, Xid
from topics.time import from_seconds

JOB = "6130"
NODE = "node-07"
PORT = "port mlx5_3/1"
CALM_S = 3.0


def incident(stage: Stage, begin: int, lasting_s: float = 60.0) -> None:
    """The demo's incident, all of it at once in event time: a job that fails of a port that is down for 12 s,
    seen by every collector."""
    fleet = Fleet()
    steps = [(-s, fleet.heartbeats) for s in (6.0, 1.0)]
    steps += [(0.0, fleet.start)]
    steps += [(CALM_S + step.at, step.records) for step in fleet.incident()]
    steps += [(n * HEARTBEAT_S, fleet.heartbeats) for n in range(1, int(lasting_s / HEARTBEAT_S))]
    for at, records in sorted(steps, key=lambda s: s[0]):
        now = begin + from_seconds(at)
        stage.advance(now)
        stage.say(records(now), now)
    stage.advance(begin + from_seconds(lasting_s))


def heartbeat(node: str, now: int) -> Event[Any]:
    data = Heartbeat(
        boot_id="b",
        uptime_s=1.0,
        interval_s=10.0,
        inventory_version=1,
        state=Levels(),
        collectors={"kmsg": CollectorStatus(status="ok")},
    )
    return make(
        data, id=ids.fact_id(node, now), source=f"/{CLUSTER}/{node}/agent", subject="node", time=now, key=node
    )


def health(node: str, state: HealthState, now: int, signal: str = "xid_critical") -> Event[Any]:
    data = Health(
        state=state,
        previous="healthy",
        since=now,
        reasons=[HealthReason(signal=signal, entity="gpu/GPU-0", evidence=[])],
        budget={"resets": 1, "reboots": 1},
        job_ids=[],
    )
    return make(
        data,
        id=ids.fact_id("health", node, state, now),
        source=f"/{CLUSTER}/streams",
        subject="node",
        time=now,
        key=node,
    )


def kernel(node: str, message: str, now: int) -> Event[Any]:
    return make(
        Kernel(category="other", message=message, written_by="kernel"),
        id=ids.log_line_id(CLUSTER, node, now, message),
        source=f"/{CLUSTER}/{node}/kmsg",
        subject="node",
        time=now,
        key=node,
    )


def xid(node: str, message: str, now: int) -> Event[Any]:
    data = Xid(
        pci_bdf="0000:1b:00.0",
        xid=79,
        mnemonic="GPU_HAS_FALLEN_OFF_THE_BUS",
        severity="fatal",
        attribution="hardware",
        resolution="RESET_GPU",
        message=message,
        via="kmsg",
        written_by="kernel",
    )
    return make(
        data,
        id=ids.log_line_id(CLUSTER, node, now, message),
        source=f"/{CLUSTER}/{node}/kmsg",
        subject="pci/0000:1b:00.0",
        time=now,
        key=node,
    )


def job(job_id: str, name: str, nodes: list[str], now: int) -> Event[Any]:
    data = Job(
        job_id=job_id, attempt=1, name=name, scheduler="static", state="RUNNING", start=now, nodes=nodes
    )
    return make(
        data,
        id=ids.fact_id("job", job_id, now),
        source=f"/{CLUSTER}/{job_id}/scheduler",
        subject=f"job/{job_id}/1",
        time=now,
        key=job_id,
    )
