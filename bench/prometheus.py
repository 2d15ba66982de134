"""The same outage seen by Prometheus and by us: how long until somebody is told.

    python -m bench.prometheus [--quick] [--json FILE]

A real Prometheus scrapes an exporter that serves what node_exporter does (`node_infiniband_state_id`) every
15 s and has one rule, `for: 1m`, evaluated every 15 s; it is asked each 100 ms whether the alert fires. At
the same moment the transitions are handed to a producer, as a collector does that hears of them by netlink,
with real workers behind. Two outages begin together: one of 12 s, which ends a job under NCCL 2.21, and one
that lasts. `--quick` has all times at a tenth. Needs the `prometheus` program; without it only ours are told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.harness import Row, line, main
from bench.probes import Probes, job_on, port_down, raw
from faultwire.broker.cluster import free_ports
from topics.events import Event
from topics.payloads import IbPort

SHORT_S = 12.0
NODES = {"short": "node-07", "lasting": "node-08"}
"""Device that the exporter names -> node that our probe names."""

PHASE = 0.4
"""Where between two scrapes the outage begins: neither the best case nor the worst."""


@dataclass(frozen=True)
class Times:
    """Of Prometheus, in seconds."""

    scrape: float
    hold: float


class Exporter:
    """States of two ports as node_exporter's infiniband collector tells them: 4 is ACTIVE, 1 is DOWN."""

    def __init__(self) -> None:
        self.states = {"short": 4, "lasting": 4}
        self.scraped = threading.Event()


@contextmanager
def exporter() -> Iterator[tuple[Exporter, int]]:
    port = Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told = (
                f'node_infiniband_state_id{{device="{d}",port="1"}} {s}\n' for d, s in port.states.items()
            )
            body = "".join(told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            port.scraped.set()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield port, server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@asynccontextmanager
async def prometheus(target: int, times: Times) -> AsyncIterator[str]:
    """Yields the URL of a Prometheus that has scraped the target."""
    with tempfile.TemporaryDirectory(prefix="faultwire-prometheus-") as name:
        folder = Path(name)
        (folder / "rules.yml").write_text(
            "groups: [{name: ports, rules: [{alert: PortDown, expr: node_infiniband_state_id != 4, "
            f"for: {_ms(times.hold)}}}]}}]\n"
        )
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {_ms(times.scrape)}, scrape_timeout: {_ms(min(times.scrape, 10))}, "
            f"evaluation_interval: {_ms(times.scrape)}}}\nrule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: node, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
        )
        (port,) = free_ports(1)
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}", stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def _ms(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def firing(url: str) -> set[str]:
    """Devices whose alert fires."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/alerts", timeout=2) as answer:  # noqa: S310 - loopback
            alerts = json.load(answer)["data"]["alerts"]
    except OSError:
        return set()
    return {a["labels"]["device"] for a in alerts if a["state"] == "firing"}


async def watched(
    port: Exporter, url: str | None, times: Times, probes: Probes, short_s: float
) -> tuple[dict[str, float], float]:
    """Both ports go down at once, one for `short_s`: device -> seconds until its alert fires, and when it
    all began."""
    if url is not None:
        port.scraped.clear()
        await asyncio.to_thread(port.scraped.wait, times.scrape * 4 + 20)
        await asyncio.sleep(times.scrape * PHASE)
    begun, now = time.perf_counter(), time.time_ns()
    port.states = dict.fromkeys(port.states, 1)
    await probes.send(*(port_down(NODES[device], now) for device in port.states))
    fired: dict[str, float] = {}
    patience = times.hold + 3 * times.scrape if url is not None else short_s + 1
    while (passed := time.perf_counter() - begun) < patience and "lasting" not in fired:
        if passed >= short_s and port.states["short"] == 1:
            port.states["short"] = 4
            await probes.send(_back(NODES["short"], time.time_ns()))
        if url is not None:
            for device in await asyncio.to_thread(firing, url):
                fired.setdefault(device, time.perf_counter() - begun)
        await asyncio.sleep(0.1)
    async with asyncio.timeout(30):
        while not set(NODES.values()) <= set(probes.seen["actions"]):  # noqa: ASYNC110 - a topic tells nobody
            await asyncio.sleep(0.05)
    return fired, begun


def _back(node: str, now: int) -> Event[Any]:
    data = IbPort(
        device="mlx5_3", port=1, link_layer="InfiniBand", state="ACTIVE", phys_state="LinkUp",
        previous_state="DOWN", via="simulated",
    )  # fmt: skip
    return raw(data, node, node, "port/mlx5_3/1", now)


async def run(quick: bool) -> list[Row]:
    times = Times(1.5, 6.0) if quick else Times(15.0, 60.0)
    short = SHORT_S / 10 if quick else SHORT_S
    beside = f"Prometheus, {times.scrape:g} s, for {times.hold:g} s"
    rows: list[Row] = []
    async with contextlib.AsyncExitStack() as stack:
        port, target = stack.enter_context(exporter())
        url = None
        if shutil.which("prometheus"):
            url = await stack.enter_async_context(prometheus(target, times))
        made = await stack.enter_async_context(line())
        await made.worker("streams")
        await made.worker("correlator")
        probes = await stack.enter_async_context(Probes(made, "signals", "actions"))
        # a budget of half a second in the quick run: its outage lasts a tenth, too
        version = "2.12.12" if quick else "2.21.5"
        for node in NODES.values():
            await probes.send(*job_on(node, f"job-{node}", time.time_ns(), version))
        await asyncio.sleep(2)
        fired, begun = await watched(port, url, times, probes, short)
        for device, what in (("short", f"outage of {short:g} s"), ("lasting", "outage that lasts")):
            node = NODES[device]
            rows += [
                Row(what, "signal after", round(probes.seen["signals"][node] - begun, 3), "s"),
                Row(what, "action after", round(probes.seen["actions"][node] - begun, 3), "s"),
                Row(what, beside, round(fired[device], 1), "s", beside=True)
                if device in fired
                else Row(what, beside, "not told" if url else "not installed", beside=True),
            ]
    return rows


if __name__ == "__main__":
    main(run, __doc__)
