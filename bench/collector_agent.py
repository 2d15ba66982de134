"""The node agent as a process of its own, with a stamp at each step of a record's way.

Run: `python -m bench.collector_agent BOOTSTRAP PREFIX STATE STAMPS [READER...]`. Ends on SIGTERM, and then
writes STAMPS: JSON, by the XID's process id, the monotonic nanoseconds of `STEPS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collectors.assembly import Parts, build, delivery
from collectors.clock import SystemClock
from collectors.delivery.link import KafkaLink, Link
from collectors.delivery.record import Outgoing
from collectors.readers.kmsg import KmsgDevice, KmsgReader
from collectors.settings import READERS, CollectSettings
from faultwire.cli.collect import _run

STEPS = ("read", "put", "taken", "requested", "acknowledged")
"""The reader has it from the kernel; it is an event and delivery has it; it is handed to the producer; the
producer hands a request to the connection; the broker has acknowledged it."""

_PID = re.compile(rb"pid=(\d+), name=fw")
_EVENT_PID = re.compile(rb'"pid":(\d+)')


class Stamps:
    def __init__(self) -> None:
        self.of: dict[int, list[int]] = {}
        self.requests: list[int] = []
        """Process ids whose record the producer has, and has not sent."""

    def mark(self, pid: int, step: int) -> None:
        times = self.of.setdefault(pid, [0] * len(STEPS))
        times[step] = times[step] or time.monotonic_ns()


class StampedDevice(KmsgDevice):
    stamps: Stamps

    def read(self) -> bytes:
        data = super().read()
        if found := _PID.search(data):
            self.stamps.mark(int(found[1]), 0)
        return data


class StampedLink(KafkaLink):
    def __init__(self, stamps: Stamps, *given: Any) -> None:
        super().__init__(*given)
        self._stamps = stamps

    async def start(self) -> None:
        await super().start()
        client = self._producer.client
        plain: Callable[..., Any] = client.send

        async def send(node_id: int, request: Any, **options: Any) -> Any:
            for pid in self._stamps.requests:
                self._stamps.mark(pid, 3)
            self._stamps.requests.clear()
            return await plain(node_id, request, **options)

        client.send = send

    async def send(self, item: Outgoing) -> asyncio.Future[Any]:
        if item.kind != "xid":
            return await super().send(item)
        pids = [int(pid) for pid in _EVENT_PID.findall(item.value)]
        for pid in pids:
            self._stamps.mark(pid, 2)
        self._stamps.requests += pids
        sent = await super().send(item)

        def acknowledged(_: object) -> None:
            for pid in pids:
                self._stamps.mark(pid, 4)

        sent.add_done_callback(acknowledged)
        return sent


async def main(bootstrap: str, prefix: str, state: Path, readers: Sequence[str]) -> Stamps:
    settings = CollectSettings(
        readers=tuple(readers) or READERS, state_dir=state, node="bench",
        sysfs_root=Path(os.environ.get("BENCH_SYSFS", "/sys")),
    )  # fmt: skip
    clock, stamps = SystemClock(), Stamps()
    StampedDevice.stamps = stamps

    async def connect() -> Link:
        link = StampedLink(stamps, bootstrap, prefix, "bench", {})
        await link.start()
        return link

    sink = delivery(settings, connect, clock)
    put = sink.put

    def stamped_put(items: Sequence[Outgoing]) -> None:
        for item in items:
            if item.kind == "xid":
                for pid in _EVENT_PID.findall(item.value):
                    stamps.mark(int(pid), 1)
        put(items)

    sink.put = stamped_put  # type: ignore[method-assign]
    agent = build(Parts(settings, clock, sink.resume_position, sink.room), sink)
    for reader in agent.readers:
        if isinstance(reader, KmsgReader):
            reader._open = StampedDevice
    await _run(agent, settings, once=False)
    return stamps


if __name__ == "__main__":
    _bootstrap, _prefix, _state, _out, *_readers = sys.argv[1:]
    os.setpriority(os.PRIO_PROCESS, 0, -5)  # as its systemd unit has it
    found = asyncio.run(main(_bootstrap, _prefix, Path(_state), _readers))
    Path(_out).write_text(json.dumps(found.of))
