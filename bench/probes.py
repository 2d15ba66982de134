"""Facts of nodes and jobs of their own, sent into a running pipeline, and how long their effects take."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.e2e.pipeline import Pipeline
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import BATCH_CONTENT_TYPE, Event, decode_record, encode_batch, make
from topics.ids import fact_id
from topics.payloads import IbPort, Job, NcclSettings, Payload, PlacedAttempt, Placement, Xid

EVERY_S = 0.1
PATIENCE_S = 30.0
HEADERS = [("content-type", BATCH_CONTENT_TYPE)]


def raw(data: Payload, node: str, key: str, subject: str, now: int) -> Event[Any]:
    return make(
        data,
        id=fact_id("probe", node, subject, data.kind, now),
        source=f"/bench/{node}/bench",
        subject=subject,
        time=now,
        key=key,
    )


def port_down(node: str, now: int, device: str = "mlx5_3") -> Event[Any]:
    data = IbPort(
        device=device, port=1, link_layer="InfiniBand", state="DOWN", phys_state="Polling",
        previous_state="ACTIVE", via="simulated",
    )  # fmt: skip
    return raw(data, node, node, f"port/{device}/1", now)


def gpu_lost(node: str, now: int) -> Event[Any]:
    data = Xid(
        gpu_uuid=f"GPU-{node}", pci_bdf="0000:cb:00.0", xid=79,
        mnemonic="ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", severity="fatal", attribution="hardware",
        resolution="RESTART_BM", known=True, via="kmsg", written_by="kernel",
        message="NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.",
    )  # fmt: skip
    return raw(data, node, node, f"gpu/GPU-{node}", now)


def job_on(node: str, job_id: str, now: int, version: str = "2.21.5") -> list[Event[Any]]:
    """A job on one node, and the node's placement."""
    nccl = NcclSettings(version=version)
    job = Job(
        job_id=job_id, attempt=1, scheduler="static", state="RUNNING", start=now, nodes=[node], nccl=nccl
    )
    placed = Placement(attempts=[PlacedAttempt(job_id=job_id, attempt=1, since=now, nccl=nccl)])
    return [raw(job, node, job_id, f"job/{job_id}/1", now), raw(placed, node, node, "node", now)]


class Probes:
    """Listens to derived topics; `seen[topic][name]` is when the first event about a node or job came."""

    def __init__(self, line: Pipeline, *topics: str) -> None:
        self._line = line
        self._topics = {line.topic(t): t for t in topics}
        self.seen: dict[str, dict[str, float]] = {t: {} for t in topics}
        self._consumer: AIOKafkaConsumer | None = None
        self._listener: asyncio.Task[None] | None = None
        self.producer: AIOKafkaProducer

    async def __aenter__(self) -> Self:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self._line.kafka.bootstrap, enable_idempotence=True, acks="all", linger_ms=0
        )
        await self.producer.start()
        self._consumer = AIOKafkaConsumer(
            *self._topics,
            bootstrap_servers=self._line.kafka.bootstrap,
            auto_offset_reset="latest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
        )
        await self._consumer.start()
        await self._consumer.seek_to_end()
        for partition in self._consumer.assignment():
            await self._consumer.position(partition)  # from here on, not from when the first fetch is made
        self._listener = asyncio.create_task(self._listen(self._consumer))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.stop()
        await self.producer.stop()

    async def _listen(self, consumer: AIOKafkaConsumer) -> None:
        async for message in consumer:
            now = time.perf_counter()
            topic = self._topics[message.topic]
            for event in decode_record(message.value)[0]:
                for name in _names(event):
                    self.seen[topic].setdefault(name, now)

    async def send(self, *events: Event[Any]) -> None:
        for event in events:
            await self.producer.send(
                self._line.topic(RAW_TOPIC_OF_KIND[event.kind]),
                encode_batch([event]),
                key=event.partitionkey.encode(),
                headers=HEADERS,
            )

    async def ports(self, seconds: float, prefix: str = "probe") -> list[float]:
        """A port of another node goes down every 100 ms; milliseconds until each was told as a signal."""
        return (await self.spaced(seconds, prefix, lambda node: port_down(node, time.time_ns()), "signals"))[
            "signals"
        ]

    async def spaced(
        self, seconds: float, prefix: str, event: Callable[[str], Event[Any]], *topics: str
    ) -> dict[str, list[float]]:
        """One event of a node of its own every 100 ms; milliseconds until each topic told of the node."""
        sent: dict[str, float] = {}
        for number in range(int(seconds / EVERY_S)):
            name = f"{prefix}-{number:04d}"
            sent[name] = time.perf_counter()
            await self.send(event(name))
            await asyncio.sleep(EVERY_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while any(set(sent) - set(self.seen[t]) for t in topics):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        return {
            t: [(self.seen[t][name] - at) * 1000 for name, at in sent.items() if name in self.seen[t]]
            for t in topics
        }


def _names(event: Event[Any]) -> list[str]:
    data = event.data
    if event.kind == "action":
        return list(data.nodes)
    if event.kind == "attribution":
        return [c.node for c in data.culprits if c.node] or [data.job_id]
    return [event.partitionkey]
