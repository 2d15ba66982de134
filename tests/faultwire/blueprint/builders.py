"""A capture as the stores of a site would hold it: its logs in Loki, its ports and GPUs in Prometheus."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
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


def prometheus_rows(capture: Path, scrape_s: float = 5.0, **more: str) -> Iterator[SampleRow]:
    """What a Prometheus that scrapes node_exporter and dcgm-exporter would hold of the capture: port states,
    throttles, XIDs and signs of life, of each node in its own phase. `more` are labels of every series.

    A node that fell silent before the recording ended does not answer its scrapes any more.
    """
    cluster = json.loads((capture / "cluster.json").read_text("utf-8"))["nodes"]
    told = {node: _events(capture / "nodes" / node / "events.jsonl") for node in sorted(cluster)}
    ends = {
        node: max(at for at, _ in beats)
        for node, events in told.items()
        if (beats := [(at, e) for at, e in events if e["type"] == "faultwire.heartbeat.v1"])
    }
    first = min((events[0][0] for node, events in told.items() if node in ends), default=0)
    for n, (node, end) in enumerate(ends.items()):
        devices = _devices(node, cluster[node], told[node], _xids(capture, node))
        dies = end < max(ends.values()) - 45 * NS_PER_S
        at = first / NS_PER_S + n * scrape_s / len(ends)
        while at <= max(ends.values()) / NS_PER_S:
            ns = round(at * NS_PER_S)
            dead = dies and ns > end
            up = {"instance": f"{node}:9100", "job": "node", **more}
            yield "up", up, at, 0.0 if dead else 1.0
            if not dead:
                for name, labels, history in devices:
                    yield name, {**labels, **more}, at, history[bisect_right(history, (ns, 1e18)) - 1][1]
            at += scrape_s


History = list[tuple[int, float]]


def _devices(
    node: str, devices: dict[str, Any], events: list[tuple[int, dict[str, Any]]], xids: dict[str, History]
) -> list[tuple[str, dict[str, str], History]]:
    """Every series of a node with its values from when on they hold."""
    series = []
    for port in devices.get("ports", ()):
        name = f"{port['device']}/{port['port']}"
        states: History = [(0, 4.0)]
        downs: History = [(0, 0.0)]
        for at, event in events:
            data, kind = event["data"], event["type"]
            if kind == "faultwire.ib_port.v1" and event["subject"] == f"port/{name}":
                states.append((at, float(STATE_IDS[data["state"]])))
                if data["state"] == "DOWN" or data.get("missed_transitions"):
                    downs.append((at, downs[-1][1] + 1))
            elif kind == "faultwire.heartbeat.v1" and name in data["state"].get("ports", {}):
                states.append((at, float(STATE_IDS[data["state"]["ports"][name]])))
        labels = {
            "instance": f"{node}:9100", "job": "node", "device": port["device"], "port": str(port["port"])
        }  # fmt: skip
        series.append(("node_infiniband_state_id", labels, states))
        series.append(("node_infiniband_link_downed_total", labels, downs))
    for gpu in devices.get("gpus", ()):
        labels = {
            "Hostname": node, "gpu": str(gpu["index"]), "UUID": gpu["uuid"], "instance": f"{node}:9400",
            "pci_bus_id": "0000" + gpu["pci_bdf"].upper(), "modelName": "NVIDIA H100 80GB HBM3",
        }  # fmt: skip
        masks: History = [(0, 0.0)]
        for at, event in events:
            if event["type"] == "faultwire.throttle.v1" and event["data"]["gpu_uuid"] == gpu["uuid"]:
                masks.append((at, float(event["data"]["mask"])))
        series.append(("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", labels, masks))
        series.append(("DCGM_FI_DEV_XID_ERRORS", labels, [(0, 0.0), *xids.get(gpu["pci_bdf"], ())]))
    return series


def _events(path: Path) -> list[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    events = [e for row in rows for e in (row if isinstance(row, list) else [row])]
    return sorted(((parse_rfc3339(e["time"]), e) for e in events), key=lambda row: row[0])


def _xids(capture: Path, node: str) -> dict[str, History]:
    """XIDs by the GPU's address, as the driver's callback tells DCGM of them."""
    found: dict[str, History] = {}
    for labels, values in loki_streams(capture):
        if labels.get("job") == "journal" and labels["node"] == node and labels["transport"] == "kernel":
            for at, text in values:
                if seen := re.match(r"NVRM: Xid \(PCI:([0-9a-f:]+)\): (\d+)", text):
                    found.setdefault(f"{seen[1]}.0", []).append((at, float(seen[2])))
    return found


def blueprint(
    capture: Path,
    loki: str,
    prometheus: str | None,
    label: str | None = None,
    tenant: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A blueprint for such stores; `label` is that of the capture, where several are in one store."""
    store = {"url": loki, "backoff_s": 0.01, **({"tenant": tenant} if tenant else {})}
    own = f',incident="{label}"' if label else ""
    collect: list[dict[str, Any]] = [
        {
            "kind": "loki", "name": "kernel", "content": "kernel", "store": store,
            "query": '{job="journal",node=~"${nodes}"' + own + "}", "slice_s": 900,
        },
        {
            "kind": "loki", "name": "output", "content": "workload", "store": store,
            "query": '{job="slurm",slurm_job="${job}"' + own + "}", "slice_s": 900,
        },
    ]  # fmt: skip
    if prometheus is not None:
        families = {
            "node": 'instance=~"(${nodes})([.:].*)?"' + own,
            "dcgm": 'Hostname=~"(${nodes})([.].*)?"' + own,
        }
        collect.append(
            {
                "kind": "promql", "name": "metrics", "families": families, "slice_s": 3600,
                "store": {"url": prometheus, "backoff_s": 0.01},
            }
        )  # fmt: skip
    return {
        "cluster": "c1",
        "inventory": str(capture / "cluster.json"),
        "context": [{"kind": "static", "file": str(capture / "jobs.jsonl")}],
        "collect": collect,
        **more,
    }


def toml(document: dict[str, Any]) -> str:
    """Enough of TOML for a blueprint."""

    def value(v: Any) -> str:
        if isinstance(v, dict):
            return "{" + ", ".join(f"{k} = {value(w)}" for k, w in v.items()) + "}"
        return "[" + ", ".join(map(value, v)) + "]" if isinstance(v, list) else json.dumps(v)

    return "\n".join(f"{k} = {value(v)}" for k, v in document.items())
