"""Memory by 1,000 nodes in the streams core, and the state that each leaves on Kafka.

    python -m bench.memory [--quick] [--json FILE]

Nodes with 8 GPUs, 8 ports and 144 NVLinks, in a job, after three heartbeats and a full sample; then such
nodes loaded from their states, as after a restart. Resident memory, each in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

from bench.fleet import Wire, wire
from bench.harness import Row, main, rss_mb
from streams.engine.api import SourceRef
from streams.processor import NodeProcessor
from topics.events import decode_record


def measure(nodes: int) -> dict[str, float]:
    """MB that the nodes take, and the bytes of their states."""
    processor = NodeProcessor()
    states: dict[str, bytes] = {}
    stream = _stream(nodes)
    gc.collect()
    before = rss_mb()
    for n, (topic, key, value, _, at) in enumerate(stream):
        effects = processor.on_record(key, SourceRef(topic, 0, n, at), decode_record(value)[0], at)
        if effects.state is not None:
            states[key] = effects.state
    gc.collect()
    told = rss_mb() - before - sum(map(len, states.values())) / 1e6
    return {
        "nodes": len(states),
        "mb": told,
        "state_bytes": sum(map(len, states.values())) / max(len(states), 1),
    }


def loaded(nodes: int) -> dict[str, float]:
    """MB of a core that takes over so many states, all alike but for the key."""
    source = NodeProcessor()
    state = b""
    for n, (topic, key, value, _, at) in enumerate(_stream(4)):
        effects = source.on_record(key, SourceRef(topic, 0, n, at), decode_record(value)[0], at)
        state = effects.state or state
    processor = NodeProcessor()
    gc.collect()
    before = rss_mb()
    for n in range(nodes):
        processor.load(f"node-{n:05d}", state)
    gc.collect()
    return {"mb": rss_mb() - before}


def _stream(nodes: int) -> list[Wire]:
    return [w for w in wire(nodes, 32.0) if w[0] != "raw.log"]


async def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for nodes in (100,) if quick else (500, 2000):
        told = await _apart("measure", nodes)
        what = f"streams core, {nodes:,} nodes"
        rows += [
            Row(what, "by 1,000 nodes", round(told["mb"] / nodes * 1000, 1), "MB"),
            Row(what, "state of a node", round(told["state_bytes"]), "bytes"),
        ]
    nodes = 500 if quick else 12_500
    told = await _apart("loaded", nodes)
    rows.append(
        Row(
            f"loaded from states, {nodes:,} nodes",
            "by 1,000 nodes",
            round(told["mb"] / nodes * 1000, 1),
            "MB",
        )
    )
    return rows


async def _apart(name: str, nodes: int) -> dict[str, float]:
    """In a fresh interpreter: what an earlier measurement freed must not serve the next."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.memory", "--measure", name, str(nodes), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{name} of {nodes} nodes ended with {process.returncode}")
    return {k: float(v) for k, v in json.loads(out).items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps({"measure": measure, "loaded": loaded}[sys.argv[2]](int(sys.argv[3]))))
    else:
        main(run, __doc__)
