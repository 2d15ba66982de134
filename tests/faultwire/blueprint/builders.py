"""A capture as the stores of a site would hold it: its logs in Loki, its ports and GPUs in Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collectors.logs.capture_lines import parse_line
from collectors.parsers.formats import read_kernel_log
from tests.loki import Labels
from tests.prometheus import SampleRow
from topics.time import NS_PER_S, parse_rfc3339

Streams = list[tuple[Labels, list[tuple[int, str]]]]
STATE_IDS = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}


def loki_streams(capture: Path, **more: str) -> Streams:
    """Kernel logs as bare messages with the journal's transport, job logs with node and rank as labels."""
    streams: dict[tuple[tuple[str, str], ...], list[tuple[int, str]]] = {}

    def add(labels: dict[str, str], at: int, text: str) -> None:
        streams.setdefault(tuple(sorted({**labels, **more}.items())), []).append((at, text))

    for folder in sorted((capture / "nodes").iterdir()):
        path = folder / "kernel.log"
        if not path.is_file():
            continue
        boot = folder / "boot.json"
        said = json.loads(boot.read_text("utf-8")) if boot.is_file() else {}
        when = parse_rfc3339(said["boot_time"]) if "boot_time" in said else None
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for record in read_kernel_log(lines, boot_time=when, reference=_reference(capture)):
                transport = "kernel" if record.written_by != "userspace" else "stdout"
                add(
                    {"job": "journal", "node": folder.name, "transport": transport},
                    record.time_ns,
                    record.text.encode("utf-8", "replace").decode(),
                )
    for path in sorted((capture / "jobs").glob("*/*.log")):
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for number, text in enumerate(lines, 1):
                if not text.strip():
                    continue
                line = parse_line(text, number)
                labels = {"job": "slurm", "slurm_job": path.parent.name, "node": line.node, "file": path.stem}
                if line.rank is not None:
                    labels["rank"] = str(line.rank)
                add(labels, line.time, line.text.encode("utf-8", "replace").decode() or " ")
    return [(dict(key), values) for key, values in streams.items()]


def _reference(capture: Path) -> int:
    rows = [json.loads(line) for line in (capture / "jobs.jsonl").read_text("utf-8").splitlines()]
    return max(parse_rfc3339(row["time"]) for row in rows)


def prometheus_rows(capture: Path, scrape_s: float = 5.0, gauges: bool = True) -> Iterator[SampleRow]:
    """What a Prometheus that scrapes node_exporter and dcgm-exporter would hold of the capture's ports,
    throttles, XIDs and signs of life."""
    cluster = json.loads((capture / "cluster.json").read_text("utf-8"))["nodes"]
    for n, node in enumerate(sorted(cluster)):
        events = _events(capture / "nodes" / node / "events.jsonl")
        beats = [e for e in events if e["type"] == "faultwire.heartbeat.v1"]
        if not beats:
            continue
        times = [parse_rfc3339(e["time"]) for e in beats]
        offset = n * scrape_s / max(1, len(cluster))
        xids = _xids(capture, node) if gauges else {}
        at = min(times) / NS_PER_S + offset
        while at <= max(times) / NS_PER_S + scrape_s:
            yield from _scrape(node, at, cluster[node], events, xids)
            at += scrape_s
        end = _end(capture) + 300
        while at <= end:
            yield "up", {"instance": f"{node}:9100", "job": "node"}, at, 0.0
            at += scrape_s


def _scrape(
    node: str, at: float, devices: dict[str, Any], events: list[dict[str, Any]], xids: dict[str, list[Any]]
) -> Iterator[SampleRow]:
    ns = round(at * NS_PER_S)
    instance = {"instance": f"{node}:9100", "job": "node"}
    yield "up", instance, at, 1.0
    for port in devices.get("ports", ()):
        name = f"{port['device']}/{port['port']}"
        told = [
            e for e in events
            if e["type"] == "faultwire.ib_port.v1" and e["subject"] == f"port/{name}"
            and parse_rfc3339(e["time"]) <= ns
        ]  # fmt: skip
        last = max(told, key=lambda e: e["time"], default=None)
        labels = {**instance, "device": port["device"], "port": str(port["port"])}
        yield "node_infiniband_state_id", labels, at, STATE_IDS[last["data"]["state"] if last else "ACTIVE"]
        downs = sum(1 for e in told if e["data"]["state"] == "DOWN")
        yield "node_infiniband_link_downed_total", labels, at, float(downs)
    for gpu in devices.get("gpus", ()):
        labels = {
            "Hostname": node, "gpu": str(gpu["index"]), "UUID": gpu["uuid"],
            "pci_bus_id": "0000" + gpu["pci_bdf"].upper(), "modelName": "NVIDIA H100 80GB HBM3",
            "instance": f"{node}:9400",
        }  # fmt: skip
        masks = [
            e for e in events
            if e["type"] == "faultwire.throttle.v1" and e["data"]["gpu_uuid"] == gpu["uuid"]
            and parse_rfc3339(e["time"]) <= ns
        ]  # fmt: skip
        last = max(masks, key=lambda e: e["time"], default=None)
        yield "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", labels, at, float(last["data"]["mask"] if last else 0)
        seen = [code for when, code in xids.get(gpu["pci_bdf"], ()) if when <= ns]
        yield "DCGM_FI_DEV_XID_ERRORS", labels, at, float(seen[-1] if seen else 0)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [e for row in rows for e in (row if isinstance(row, list) else [row])]


def _xids(capture: Path, node: str) -> dict[str, list[tuple[int, int]]]:
    """XIDs by the GPU's address, as the driver's callback tells DCGM of them."""
    found: dict[str, list[tuple[int, int]]] = {}
    for labels, values in loki_streams(capture):
        if labels.get("job") == "journal" and labels["node"] == node and labels["transport"] == "kernel":
            for at, text in values:
                if seen := re.match(r"NVRM: Xid \(PCI:([0-9a-f:]+)\): (\d+)", text):
                    found.setdefault(f"{seen[1]}.0", []).append((at, int(seen[2])))
    return found


def _end(capture: Path) -> float:
    return _reference(capture) / NS_PER_S


def blueprint(capture: Path, loki: str, prometheus: str | None, **more: Any) -> dict[str, Any]:
    """A blueprint for such stores."""
    store = {"url": loki, "backoff_s": 0.01}
    collect: list[dict[str, Any]] = [
        {
            "kind": "loki", "name": "kernel", "content": "kernel", "store": store,
            "query": '{job="journal",node=~"${nodes}"}', "slice_s": 900,
        },
        {
            "kind": "loki", "name": "output", "content": "workload", "store": store,
            "query": '{job="slurm",slurm_job="${job}"}', "slice_s": 900,
        },
    ]  # fmt: skip
    if prometheus is not None:
        collect.append({"kind": "promql", "name": "metrics", "store": {"url": prometheus, "backoff_s": 0.01}})
    return {
        "cluster": "c1",
        "inventory": str(capture / "cluster.json"),
        "context": [{"kind": "static", "file": str(capture / "jobs.jsonl")}],
        "collect": collect,
        **more,
    }
