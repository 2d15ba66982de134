"""The attribution service with a large fleet: the overview, unchanged and after a change, and ingestion.

    python -m bench.service [--nodes 5000] [--rounds 20]

In this process, without a socket. CPU seconds are told beside wall seconds: a loaded machine spoils only the
latter. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from correlator.service.app import create_app
from correlator.service.samples import sample_of
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from topics.derived import Signal
from topics.events import Event, make, to_dict
from topics.payloads import CollectorStatus, Heartbeat, Levels, PlacedAttempt, Placement
from topics.time import NS_PER_S

T0 = 1_770_000_000 * NS_PER_S
BATCH = 2_000
OK = CollectorStatus(status="ok")


def event(data: Any, node: str, name: str, time_ns: int) -> Event[Any]:
    return make(data, id=f"{name} {node}", source=f"/c/{node}/bench", subject="node", time=time_ns, key=node)


def fleet(nodes: int) -> tuple[list[tuple[str, Event[Any]]], list[Event[Any]]]:
    """Placements and conditions (a tenth of the nodes has eight), and a heartbeat of each node."""
    told: list[tuple[str, Event[Any]]] = []
    beats = []
    for number in range(nodes):
        node = f"node-{number:05d}"
        levels = Levels(ports={f"mlx5_{k}/1": "ACTIVE" for k in range(8)})
        beat = Heartbeat(
            boot_id="b", uptime_s=1.0, interval_s=10.0, inventory_version=1, state=levels,
            collectors={"kmsg": OK, "nvml": OK, "ib_port": OK},
        )  # fmt: skip
        beats.append(event(beat, node, "beat", T0 + number * 1000))
        placed = Placement(attempts=[PlacedAttempt(job_id=str(number // 50), attempt=1, since=T0)])
        told.append(("raw.placement", event(placed, node, "placed", T0)))
        for port in range(8 if number % 10 == 0 else 1):
            signal = Signal(
                signal="port_downtime", entity=f"port/mlx5_{port}/1", state="open", severity="warning",
                since=T0 + port * 1000, unit="s", value=3.0, evidence=[], detail={},
            )  # fmt: skip
            told.append(("signals", event(signal, node, f"signal {port}", T0 + 5000)))
    return told, beats


async def timed(work: Callable[[], Awaitable[Any]], rounds: int) -> dict[str, float]:
    wall, cpu = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        await work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return {
        "wall_p50_ms": round(statistics.median(wall) * 1000, 1),
        "wall_max_ms": round(max(wall) * 1000, 1),
        "cpu_p50_ms": round(statistics.median(cpu) * 1000, 1),
    }


async def run(nodes: int, rounds: int, folder: Path) -> dict[str, Any]:
    store = Store(folder / "bench.db")
    told, beats = fleet(nodes)
    samples = [s for beat in beats if (s := sample_of("raw.node", to_dict(beat))) is not None]
    used = time.process_time()
    for start in range(0, len(told), BATCH):
        store.ingest(told[start : start + BATCH])
    events_cpu = time.process_time() - used
    used = time.process_time()
    for start in range(0, len(samples), BATCH):
        store.ingest([], samples=samples[start : start + BATCH])
    samples_cpu = time.process_time() - used
    app = create_app(store, ServiceSettings(rate_per_s=1e6, burst=10**6))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def changed() -> None:
            store.version += 1
            (await client.get("/v1/overview")).raise_for_status()

        async def unchanged() -> None:
            (await client.get("/v1/overview")).raise_for_status()

        first = await client.get("/v1/overview")

        async def known() -> None:
            await client.get("/v1/overview", headers={"If-None-Match": first.headers["etag"]})

        replies = {name: await timed(work, rounds) for name, work in (
            ("overview_after_a_change", changed), ("overview", unchanged), ("overview_304", known),
        )}  # fmt: skip
    store.close()
    return {
        "nodes": nodes,
        "overview_bytes": len(first.content),
        "replies": replies,
        "events_per_cpu_second": round(len(told) / events_cpu),
        "samples_per_cpu_second": round(len(samples) / samples_cpu),
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(run(asked.nodes, asked.rounds, Path(folder))), indent=2))


if __name__ == "__main__":
    main()
