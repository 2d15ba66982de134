"""What user space writes to the kernel log is told, marked, and moves nobody; a drill goes through."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pipeline import pipeline
from tests.kafka import Kafka
from topics.events import Event, decode_record, make
from topics.ids import transition_id
from topics.payloads import Job, PlacedAttempt, Placement

NODE = "this-node"
KMSG = Path("/dev/kmsg")

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not os.access(KMSG, os.W_OK), reason="/dev/kmsg can't be written here"),
]


def marked(text: str) -> Callable[[Event[Any]], bool]:
    return lambda event: text in getattr(event.data, "message", "")


def placed(job_id: str, now: int) -> tuple[Event[Any], Event[Any]]:
    """A running job on this node, and the node's placement."""
    job = Job(job_id=job_id, attempt=1, scheduler="static", state="RUNNING", start=now, nodes=[NODE])
    placement = Placement(attempts=[PlacedAttempt(job_id=job_id, attempt=1, since=now)])
    return (
        make(
            job,
            id=transition_id("demo", job_id, "job", "job", now, "RUNNING"),
            source="/demo/scheduler/test",
            subject=f"job/{job_id}/1",
            time=now,
            key=job_id,
        ),
        make(
            placement,
            id=transition_id("demo", NODE, "node", "placement", now, job_id),
            source=f"/demo/{NODE}/test",
            subject="node",
            time=now,
            key=NODE,
        ),
    )


def forge(name: str) -> None:
    """What `echo ... > /dev/kmsg` does, the newline included: without it the kernel waits for the rest.

    A bus number of its own keeps earlier lines of this boot's log out of the story.
    """
    KMSG.write_text(
        f"<3>NVRM: Xid (PCI:{secrets.randbelow(0xFFFF):04x}:cb:00): 79, pid=4242, name={name}, "
        "GPU has fallen off the bus.\n"
    )


async def test_a_forged_xid_is_told_within_100_ms_and_causes_no_action(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    async with pipeline(kafka, catalogue, tmp_path) as line:
        await line.worker("streams")
        await line.worker("correlator")
        await line.children.start("collect", ["collect", "--node", NODE, "--only", "kmsg"])
        await line.events("raw.node", lambda seen: any(e.kind == "heartbeat" for e in seen))
        for event in placed("forged", time.time_ns()):
            await kafka.send_events(
                line.topic("raw.job" if event.kind == "job" else "raw.placement"), [event]
            )

        name = f"forged-{uuid.uuid4().hex[:8]}"
        wrote = time.time_ns()
        await asyncio.to_thread(forge, name)
        records = await kafka.read_until(
            line.topic("raw.xid"),
            lambda seen: any(marked(name)(e) for r in seen for e in decode_record(r.value)[0]),
        )
        (told,) = [(r, e) for r in records for e in decode_record(r.value)[0] if marked(name)(e)]
        record, event = told
        assert event.data.xid == 79
        assert event.data.written_by == "userspace"
        assert not event.drill
        assert record.timestamp * 1_000_000 - wrote < 100_000_000

        # The correlator has seen it, as evidence, and has said so; it must not have acted.
        await line.events("evidence", lambda seen: any(marked(name)(e) for e in seen))
        await line.events("attributions", lambda seen: any(e.data.job_id == "forged" for e in seen))
        assert await kafka.read(line.topic("actions")) == []


async def test_in_drill_mode_it_goes_through_marked_as_a_drill(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    async with pipeline(kafka, catalogue, tmp_path) as line:
        await line.worker("streams")
        await line.worker("correlator")
        arguments = ["collect", "--node", NODE, "--only", "kmsg", "--accept-userspace-kmsg"]
        await line.children.start("collect", arguments)
        await line.events("raw.node", lambda seen: any(e.kind == "heartbeat" for e in seen))
        for event in placed("drilled", time.time_ns()):
            await kafka.send_events(
                line.topic("raw.job" if event.kind == "job" else "raw.placement"), [event]
            )

        name = f"drill-{uuid.uuid4().hex[:8]}"
        await asyncio.to_thread(forge, name)
        raw = await line.events("raw.xid", lambda seen: any(marked(name)(e) for e in seen))
        assert [e.drill for e in raw if marked(name)(e)] == [True]
        signals = await line.events(
            "signals", lambda seen: any(e.data.signal == "xid_critical" for e in seen)
        )
        assert {e.drill for e in signals if e.data.signal == "xid_critical"} == {True}
        actions = await line.events("actions", lambda seen: len(seen) > 0)
        assert {e.drill for e in actions} == {True}
        for event in actions:
            assert (
                any(guard.guard == "drill" and not guard.passed for guard in event.data.guards)
                or event.data.dry_run
            )
