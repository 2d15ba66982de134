"""What delivers on a node, in a process of its own: the agent's delivery behind a source that is a file.

    python -m tests.chaos.teller SOURCE STATE BOOTSTRAP PREFIX

The source is read like a kernel log: each line is one record, its position is the offset behind it, and a new
process goes on where the old one's records were acknowledged or spooled. It may be killed, frozen and started
again, twice at the same time too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors.assembly import delivery
from collectors.clock import SystemClock
from collectors.delivery.delivery import Delivery
from collectors.delivery.link import KafkaLink, Link
from collectors.delivery.record import Outgoing
from collectors.settings import CollectSettings

READ_EVERY_S = 0.02
SOURCE = "source"


def line(node: str, topic: str, kind: str, value: bytes) -> bytes:
    """One record for the source file."""
    return json.dumps([node, topic, kind, base64.b64encode(value).decode()]).encode() + b"\n"


def deliver(node: str, state: Path, bootstrap: str, prefix: str, spool_max: int) -> Delivery:
    """As the agent of that node does it."""

    async def connect() -> Link:
        link = KafkaLink(bootstrap, prefix, node, {})
        await link.start()
        return link

    settings = CollectSettings(node=node, state_dir=state / node, spool_max_bytes=spool_max)
    return delivery(settings, connect, SystemClock())


async def follow(source: Path, state: Path, bootstrap: str, prefix: str) -> None:
    """Every line of the source, once it stands there, through the delivery of its node."""
    deliveries: dict[str, Delivery] = {}
    begun: dict[str, int] = {}
    async with asyncio.TaskGroup() as group:
        at = 0
        with source.open("rb") as file:
            while True:
                text = file.readline()
                if not text.endswith(b"\n"):
                    file.seek(at)
                    await asyncio.sleep(READ_EVERY_S)
                    continue
                at += len(text)
                node, topic, kind, value = json.loads(text)
                if node not in deliveries:
                    new = deliveries[node] = deliver(node, state, bootstrap, prefix, 64 * 1024 * 1024)
                    begun[node] = _offset(new.resume_position(SOURCE))
                    group.create_task(new.run())
                if at > begun[node]:
                    item = Outgoing(topic, kind, base64.b64decode(value), SOURCE, {"offset": at})
                    deliveries[node].put([item])
                    await asyncio.sleep(0)


def _offset(position: Mapping[str, Any] | None) -> int:
    return int(position["offset"]) if position else 0


if __name__ == "__main__":
    asyncio.run(follow(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
