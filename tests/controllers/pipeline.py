"""The whole line as it runs on a site: workers and controller as processes, one Slurm, simulated nodes.

A node's agent is simulated on the wire (heartbeats, port transitions); everything behind it is the real
thing: connector, streams worker, correlator worker, controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from aiokafka import AIOKafkaProducer

from faultwire.broker.cluster import free_ports
from faultwire.demo.children import Children
from tests.kafka import Kafka
from tests.slurm import NODES, SlurmCluster
from topics import ids
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import BATCH_CONTENT_TYPE, Event, encode_batch, make
from topics.payloads import CollectorStatus, Heartbeat, IbPort, Levels, Payload, PortState
from topics.time import NS_PER_S

CLUSTER = "loop"
DEVICE = "mlx5_0"
HEARTBEAT_S = 2.0


@dataclass
class Nodes:
    """What the agents of all nodes say."""

    producer: AIOKafkaProducer
    prefix: str
    ports: dict[str, PortState] = field(default_factory=lambda: dict.fromkeys(NODES, "ACTIVE"))

    async def beat(self) -> None:
        """Heartbeats of every node, until cancelled."""
        began = time.time_ns()
        while True:
            await asyncio.gather(*(self._heartbeat(node, began) for node in NODES))
            await asyncio.sleep(HEARTBEAT_S)

    async def port(self, node: str, state: PortState) -> int:
        """A transition now; its event time."""
        now = time.time_ns() // 1000 * 1000
        data = IbPort(
            device=DEVICE,
            port=1,
            netdev="ib0",
            link_layer="InfiniBand",
            state=state,
            phys_state="LinkUp" if state == "ACTIVE" else "Polling",
            previous_state=self.ports[node],
            rate_gbps=400.0 if state == "ACTIVE" else None,
            switch="leaf-1",
            switch_port=str(NODES.index(node) + 1),
            via="sysfs",
        )
        self.ports[node] = state
        await self._send(data, node, f"port/{DEVICE}/1", now, state, "ports")
        return now

    async def outage(self, node: str, seconds: float) -> tuple[int, int]:
        """Down, and up again after so long: the event times of both."""
        down = await self.port(node, "DOWN")
        await asyncio.sleep(seconds)
        return down, await self.port(node, "ACTIVE")

    async def _heartbeat(self, node: str, began: int) -> None:
        now = time.time_ns() // 1000 * 1000
        ok = CollectorStatus(status="ok", last_read=now, lag_s=0.0, lost=0)
        data = Heartbeat(
            boot_id=f"boot-{node}",
            uptime_s=(now - began) / NS_PER_S + 1000,
            interval_s=HEARTBEAT_S,
            inventory_version=1,
            state=Levels(ports={f"{DEVICE}/1": self.ports[node]}, throttle={}),
            collectors={"kmsg": ok, "nvml": ok, "ports": ok, "logs": ok},
        )
        await self._send(data, node, "node", now, "heartbeat", "agent")

    async def _send(
        self, data: Payload, node: str, subject: str, now: int, state: str, collector: str
    ) -> None:
        event: Event[Payload] = make(
            data,
            id=ids.transition_id(CLUSTER, node, subject, data.kind, now, state),
            source=f"/{CLUSTER}/{node}/{collector}",
            subject=subject,
            time=now,
            recordedtime=now,
            key=node,
            provenance="live",
        )
        await self.producer.send_and_wait(
            self.prefix + RAW_TOPIC_OF_KIND[data.kind],
            encode_batch([event]),
            node.encode(),
            headers=[("content-type", BATCH_CONTENT_TYPE)],
        )


@dataclass
class Pipeline:
    """Everything running."""

    nodes: Nodes
    children: Children
    folder: Path

    def logs(self) -> str:
        paths = sorted(self.folder.glob("*.log"))
        return "\n".join(f"-- {p.name}\n" + "\n".join(_last_lines(p, 15)) for p in paths)


def _last_lines(path: Path, count: int) -> list[str]:
    return path.read_text("utf-8", "replace").splitlines()[-count:]


@asynccontextmanager
async def pipeline(
    slurm: SlurmCluster, kafka: Kafka, prefix: str, folder: Path, *, node_actions: bool = True
) -> AsyncIterator[Pipeline]:
    """Ready when every worker is; ends with everything stopped. `node_actions`: cordons beside interrupts."""
    children = Children(
        folder,
        {"FAULTWIRE_CONFIG": str(_configuration(kafka, prefix, folder, node_actions)), **slurm.environment},
    )
    streams_port, correlator_port = free_ports(2)
    async with kafka.producer() as producer, contextlib.AsyncExitStack() as stack:
        nodes = Nodes(producer, prefix)
        beat = asyncio.create_task(nodes.beat())
        stack.push_async_callback(children.stop)
        stack.callback(beat.cancel)
        for name, port in (("streams", streams_port), ("correlator", correlator_port)):
            await children.start(name, [name, "--health-port", str(port)], f"http://127.0.0.1:{port}/readyz")
        state = str(slurm.state_save_location)
        watch = [
            "job",
            "watch",
            "slurm",
            "--no-accounting",
            "--interval",
            "0.5",
            "--state-save-location",
            state,
        ]
        await children.start("connector", watch)
        await children.start(
            "controller", ["control", "slurm", "--enable", "interrupt_and_restart,cordon,drain"]
        )
        await children.wait_ready()
        yield Pipeline(nodes, children, folder)


def _configuration(kafka: Kafka, prefix: str, folder: Path, node_actions: bool) -> Path:
    policy = folder / "policy.toml"
    packaged = files("correlator").joinpath("data/policy.toml").read_text("utf-8")
    policy.write_text(
        packaged.replace("dry_run = true", "dry_run = false", 1).replace(
            "[nodes]\nenabled = true", f"[nodes]\nenabled = {str(node_actions).lower()}", 1
        ),
        "utf-8",
    )
    path = folder / "faultwire.toml"
    path.write_text(
        f"""
cluster = "{CLUSTER}"

[kafka]
bootstrap = "{kafka.bootstrap}"
prefix = "{prefix}"
partitions = 4

[correlator]
policy = "{policy}"
lateness_s = 3.0
fast_after_s = 1.0

[control.limits]
nodes_per_window = 1000
nodes_out = 1000
fleet_fraction_out = 1.0
actions_per_minute = 1000
""",
        "utf-8",
    )
    return path
