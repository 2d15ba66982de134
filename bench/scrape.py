"""What a scrape costs the streams worker: nodes with eight ports each, a few of them in trouble.

    python -m bench.scrape [--nodes 12500] [--json FILE]

Measured in processor time: the walk over the nodes and its longest slice (what a record may have to wait
for), making the families, writing the text (on another thread in the worker). No network.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import time
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import generate_latest

from bench.streams_core import heartbeat
from streams.engine.api import SourceRef
from streams.engine.metrics import Taken
from streams.metrics import FleetMetrics
from streams.processor import NodeProcessor
from tests.streams.builders import at, placed, port_event

ROUNDS = 5
TROUBLED = 60
"""One node of so many has three ports down."""


def fleet(nodes: int) -> NodeProcessor:
    processor = NodeProcessor()
    for number in range(nodes):
        node = f"node-{number:05d}"
        events = [port_event(f"mlx5_{k}", "ACTIVE", 1.0, node=node) for k in range(8)]
        if number % TROUBLED == 0:
            events += [port_event(f"mlx5_{k}", "DOWN", 5.0, node=node) for k in range(3)]
        for topic, record in (
            ("raw.node", [heartbeat(0.0, node)]),
            ("raw.placement", [placed(0.0, (f"job-{number // 100}", 1), node=node)]),
            ("raw.ib-port", events),
        ):
            processor.on_record(node, SourceRef(topic, 0, number, at(5.0)), record, at(5.0))
    return processor


def scrape(metrics: FleetMetrics) -> dict[str, float]:
    """Seconds of each part, and bytes."""
    began = last = time.process_time()
    longest = 0.0
    for _ in metrics.walk():
        now = time.process_time()
        longest, last = max(longest, now - last), now
    walked = time.process_time()
    taken = Taken(metrics.collect())
    made = time.process_time()
    text = generate_latest(taken)  # type: ignore[arg-type]
    written = time.process_time()
    return {
        "walk_ms": (walked - began) * 1e3,
        "longest_slice_ms": longest * 1e3,
        "families_ms": (made - walked) * 1e3,
        "text_ms": (written - made) * 1e3,
        "kib": len(text) / 1024,
        "series": sum(not line.startswith(b"#") for line in text.splitlines()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=12_500)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    metrics = FleetMetrics(fleet(asked.nodes), lambda: at(30.0))
    gc.collect()
    gc.freeze()
    rounds = [scrape(metrics) for _ in range(ROUNDS)]
    best = {name: min(r[name] for r in rounds) for name in rounds[0]}
    report: dict[str, Any] = {
        "nodes": asked.nodes,
        "best_of": ROUNDS,
        **{name: round(value, 2) for name, value in best.items()},
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "python": platform.python_version(),
    }
    for name, value in report.items():
        print(f"{name:>18}  {value}")
    if asked.json is not None:
        asked.json.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
