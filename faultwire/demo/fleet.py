"""A small simulated fleet: what eight healthy nodes and one training job say, and one incident.

Pure: every method takes the time and returns raw records. Port transitions and heartbeats are built as
a node's collector would; the job's output is real text that goes through the log extractor. All of it
is marked `provenance: synthetic`, unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from collectors.logs.extract import LogExtractor
from collectors.placement import PlacementBook
from faultwire.capture import RawRecord
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event, make
from topics.payloads import (
    CollectorStatus,
    Heartbeat,
    IbPort,
    Job,
    JobState,
    Levels,
    NcclSettings,
    Origin,
    Payload,
    PortState,
    RankPlace,
)
from topics.time import NS_PER_S

GPUS_PER_NODE: Final = 8
HEARTBEAT_S: Final = 2.0
"""A node of a real fleet beats every 10 s; the demo is short, so its nodes beat faster."""

NCCL_VERSION: Final = "2.21.5"
"""Gives up after 7 x 1.07 s = 7.5 s without an acknowledgement (topics.nccl)."""

OUTAGE_S: Final = 12.0


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens `at` seconds after the incident began."""

    at: float
    about: str
    records: Callable[[int], list[RawRecord]]


@dataclass(slots=True)
class Fleet:
    """`size` nodes with eight GPUs and eight 400 Gb/s ports each, and one job over all of them."""

    cluster: str = "demo"
    size: int = 8
    job_id: str = "6130"
    attempt: int = 1
    nccl: NcclSettings = field(default_factory=lambda: NcclSettings(version=NCCL_VERSION))
    provenance: Literal["live", "synthetic"] = "synthetic"
    """Nothing acts on what is synthetic."""
    _states: dict[tuple[str, str], PortState] = field(default_factory=dict)
    _book: PlacementBook = field(init=False)
    _started: int = 0

    def __post_init__(self) -> None:
        self._book = PlacementBook(self.cluster, scheduler="simulated")

    @property
    def nodes(self) -> list[str]:
        return [f"node-{n:02d}" for n in range(1, self.size + 1)]

    # -- what the scheduler says -----------------------------------------------------------------------

    def start(self, now: int) -> list[RawRecord]:
        """The job begins."""
        self._started = now
        return [*self.job("RUNNING", now), *self._startup_logs(now)]

    def job(self, state: JobState, now: int, exit_code: int | None = None) -> list[RawRecord]:
        """The job's state changes; node-side placements follow from it."""
        data = Job(
            job_id=self.job_id,
            attempt=self.attempt,
            name="pretrain-demo",
            scheduler="static",
            state=state,
            exit_code=exit_code,
            start=self._started,
            end=None if state == "RUNNING" else now,
            nodes=self.nodes,
            gpus={node: list(range(GPUS_PER_NODE)) for node in self.nodes},
            ports={node: [f"mlx5_{n}" for n in range(GPUS_PER_NODE)] for node in self.nodes},
            ranks={str(r): RankPlace(node=self.node_of(r), gpu=r % GPUS_PER_NODE) for r in self.ranks},
            nccl=self.nccl,
            process_group_timeout_s=600.0,
            phase="pretraining",
        )
        event = self._event(data, self.job_id, "scheduler", f"job/{self.job_id}/{self.attempt}", now, state)
        return [_record(event), *map(_record, self._book.apply(event))]

    @property
    def ranks(self) -> range:
        return range(self.size * GPUS_PER_NODE)

    def node_of(self, rank: int) -> str:
        return self.nodes[rank // GPUS_PER_NODE]

    # -- what the nodes say ----------------------------------------------------------------------------

    def heartbeats(self, now: int) -> list[RawRecord]:
        return [_record(self._heartbeat(node, now)) for node in self.nodes]

    def _heartbeat(self, node: str, now: int) -> Event[Heartbeat]:
        ok = CollectorStatus(status="ok", last_read=now, lag_s=0.0, lost=0)
        ports: dict[str, str] = {
            f"mlx5_{n}/1": self._states.get((node, f"mlx5_{n}"), "ACTIVE") for n in range(GPUS_PER_NODE)
        }
        data = Heartbeat(
            boot_id=ids.fact_id("demo-boot", self.cluster, node, self._started),
            uptime_s=(now - self._started) / NS_PER_S,
            interval_s=HEARTBEAT_S,
            inventory_version=1,
            state=Levels(ports=ports, throttle={}),
            collectors={"kmsg": ok, "nvml": ok, "ports": ok, "logs": ok},
        )
        return self._event(data, node, "agent", "node", now, "heartbeat")

    def port(self, node: str, device: str, state: PortState, phys: str, now: int) -> list[RawRecord]:
        """One transition of a port."""
        previous = self._states.get((node, device), "ACTIVE")
        self._states[node, device] = state
        number = device.removeprefix("mlx5_")
        data = IbPort(
            device=device,
            port=1,
            netdev=f"ib{number}",
            link_layer="InfiniBand",
            state=state,
            phys_state=phys,
            previous_state=previous,
            rate_gbps=400.0 if state == "ACTIVE" else None,
            switch=f"leaf-1{number}",
            switch_port=node.removeprefix("node-").lstrip("0"),
            via="simulated",
        )
        return [_record(self._event(data, node, "ports", f"port/{device}/1", now, state))]

    # -- what the job prints ---------------------------------------------------------------------------

    def lines(self, now: int, lines: Iterable[tuple[int, str]]) -> list[RawRecord]:
        """Lines as the ranks print them, through the log extractor."""
        extractor = LogExtractor(self.cluster, self.job_id, self.attempt)
        events: list[Event[Any]] = []
        for rank, text in lines:
            events += extractor.feed(now, self.node_of(rank), rank, text, Origin(stream="stdout"))
        events += extractor.flush()
        return [_record(e.model_copy(update={"provenance": self.provenance})) for e in events]

    def _startup_logs(self, now: int) -> list[RawRecord]:
        said = []
        for number, node in enumerate(self.nodes):
            rank = number * GPUS_PER_NODE
            prefix = f"{node}:{9000 + rank}:{9000 + rank} [0] NCCL INFO"
            said.append((rank, f"{prefix} Bootstrap : Using eth0:10.20.0.{number + 1}<0>"))
            said.append((rank, f"{prefix} NCCL version {NCCL_VERSION}+cuda12.4"))
        return self.lines(now, said)

    # -- the incident ----------------------------------------------------------------------------------

    def incident(self, node: str = "node-07", device: str = "mlx5_3") -> list[Step]:
        """One port goes down once for 12 s and comes back: harmless to a flap counter, the end of the job."""
        victim = self.nodes.index(node) * GPUS_PER_NODE + int(device.removeprefix("mlx5_"))
        peer = (victim + GPUS_PER_NODE) % len(self.ranks)
        return [
            Step(
                0.0,
                f"{node}: {device} loses its link",
                lambda now: self.port(node, device, "DOWN", "Polling", now),
            ),
            Step(
                8.2,
                "NCCL gives up: completion with status 12 on both ends",
                lambda now: self.lines(
                    now, [self._status_12(victim, peer, device), self._status_12(peer, victim, device)]
                ),
            ),
            Step(
                10.5,
                f"{node}: {device} has its link again, the subnet manager has not swept yet",
                lambda now: self.port(node, device, "INIT", "LinkUp", now),
            ),
            Step(
                OUTAGE_S,
                f"{node}: {device} is ACTIVE again",
                lambda now: self.port(node, device, "ACTIVE", "LinkUp", now),
            ),
            Step(13.5, "the scheduler sees the job fail", lambda now: self.job("FAILED", now, exit_code=1)),
        ]

    def _status_12(self, rank: int, peer: int, device: str) -> tuple[int, str]:
        node = self.node_of(rank)
        address = f"10.20.0.{self.nodes.index(self.node_of(peer)) + 1}<34216>"
        return rank, (
            f"{node}:{9000 + rank}:{9100 + rank} [{rank % GPUS_PER_NODE}] transport/net_ib.cc:1568 "
            f"NCCL WARN NET/IB : Got completion from peer {address} with status=12 opcode=1 len=0 "
            f"vendor err 129 (Send) hca {device}"
        )

    # -- envelopes -------------------------------------------------------------------------------------

    def _event(
        self, data: Payload, key: str, collector: str, subject: str, now: int, state: str
    ) -> Event[Any]:
        return make(
            data,
            id=ids.transition_id(self.cluster, key, subject, data.kind, now, state),
            source=f"/{self.cluster}/{key}/{collector}",
            subject=subject,
            time=now,
            recordedtime=now,
            key=key,
            provenance=self.provenance,
        )


def _record(event: Event[Any]) -> RawRecord:
    return RawRecord(RAW_TOPIC_OF_KIND[event.kind], event.partitionkey, event)
