"""How fast the streams core is by itself, with no Kafka: events decoded beforehand, one core, one thread.

    python -m bench.streams_core [--json FILE]

Measured in the same run, for comparison: the loop that hands records over and does nothing with them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from bench.harness import main_of_cases
from streams.engine.api import Output, SourceRef
from streams.engine.due import Due
from streams.engine.memory import OLDER, YOUNG, tidy
from streams.processor import NodeProcessor
from tests.streams.builders import at, beat, placed, port_event, raw
from topics.events import Event
from topics.payloads import Gpu, Nvlink, Throttle

Record = tuple[str, str, list[Event[Any]], int]
GPUS = [f"GPU-{i:08d}-0000-0000-0000-000000000000" for i in range(8)]
PORTS = {f"mlx5_{i}": "ACTIVE" for i in range(8)}
LINKS = {f"{gpu}/{link}": "active" for gpu in GPUS for link in range(18)}
COLLECTORS = dict.fromkeys(("kmsg", "ports", "nvml", "nvml_events", "aer", "logs"), "ok")


def heartbeat(second: float, node: str, ports: dict[str, str] = PORTS) -> Event[Any]:
    return beat(
        second, ports, node=node, nvlinks=LINKS, throttle={g: [] for g in GPUS}, collectors=COLLECTORS
    )


def run(processor: NodeProcessor, records: Sequence[Record], offset: int = 0) -> tuple[float, int, int]:
    """Seconds of CPU time, outputs, states written."""
    outputs = states = 0
    with collecting_as_the_engine():
        start = time.process_time()
        for i, (topic, key, events, now) in enumerate(records):
            effects = processor.on_record(key, SourceRef(topic, 0, offset + i, now), events, now)
            outputs += len(effects.outputs)
            states += effects.state is not None
        taken = time.process_time() - start
    return taken, outputs, states


@contextmanager
def collecting_as_the_engine() -> Iterator[None]:
    """Garbage, by the engine's rules: the records that were made beforehand are out of its sight."""
    usual = gc.get_threshold()
    tidy()
    gc.set_threshold(YOUNG, *OLDER)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def nothing(records: Sequence[Record]) -> float:
    start = time.process_time()
    for i, (topic, key, events, now) in enumerate(records):
        _hand_over(key, SourceRef(topic, 0, i, now), events, now)
    return time.process_time() - start


def _hand_over(_key: str, _source: SourceRef, _events: Sequence[Event[Any]], _now: int) -> None:
    return None


def quiet_heartbeats() -> dict[str, Any]:
    """A heartbeat with 8 GPUs, 8 ports and 144 NVLinks that says nothing new."""
    processor = NodeProcessor()
    nodes = [f"node-{n:04d}" for n in range(50)]
    records: list[Record] = []
    for second in range(0, 1000, 10):
        records += [("raw.node", n, [heartbeat(float(second), n)], at(second)) for n in nodes]
    run(processor, records[: len(nodes) * 10])
    taken, outputs, states = run(processor, records[len(nodes) * 10 :])
    count = len(records) - len(nodes) * 10
    return {"us_each": taken / count * 1e6, "outputs": outputs, "states_written": states, "heartbeats": count}


def mixed_events() -> dict[str, Any]:
    """What a node's collectors send, by their default intervals, with a flapping port now and then."""
    random = Random(1)
    processor = NodeProcessor()
    records: list[Record] = []
    nodes = [f"node-{n:04d}" for n in range(50)]
    for n in nodes:
        records.append(("raw.placement", n, [placed(0.0, ("job", 1), node=n)], at(0)))
        records.append(("raw.node", n, [heartbeat(0.5, n)], at(0.5)))
        links = [link(0.6, g, number, n) for g in GPUS for number in range(18)]
        records.append(("raw.nvlink", n, links, at(0.6)))  # as an agent does when it starts
    warm = len(records)
    for second in range(1, 301):
        for n in nodes:
            if second % 10 == 0:
                records.append(("raw.node", n, [heartbeat(float(second), n)], at(second)))
            if second % 30 == 5:
                sample = [gpu_sample(second + i * 1e-4, g, i, n) for i, g in enumerate(GPUS)]
                records.append(("raw.gpu", n, sample, at(second)))
                mask = [throttle(second + i * 1e-4, g, n) for i, g in enumerate(GPUS)]
                records.append(("raw.throttle", n, mask, at(second)))
                links = [link(second, g, random.randrange(18), n) for g in GPUS]
                records.append(("raw.nvlink", n, links, at(second)))
            if random.random() < 0.002:
                down, up = second + 0.1, second + 0.1 + random.uniform(0.05, 5)
                records.append(("raw.ib-port", n, [port_event("mlx5_3", "DOWN", down, node=n)], at(down)))
                records.append(("raw.ib-port", n, [port_event("mlx5_3", "ACTIVE", up, node=n)], at(up)))
    body = sorted(records[warm:], key=lambda r: r[3])
    run(processor, records[:warm])
    taken, outputs, states = run(processor, body)
    events = sum(len(r[2]) for r in body)
    bare = nothing(body)
    return {
        "events": events, "records": len(body), "events_per_s": events / taken, "outputs": outputs,
        "states_written": states, "us_per_record": taken / len(body) * 1e6,
        "us_per_record_doing_nothing": bare / len(body) * 1e6,
    }  # fmt: skip


def gpu_sample(second: float, gpu: str, index: int, node: str) -> Event[Any]:
    data = Gpu(
        gpu_uuid=gpu, index=index, pci_bdf=f"0000:{index:02x}:00.0", model="NVIDIA H100 80GB HBM3",
        temperature_c=60.0 + index % 3, memory_temperature_c=72.0 + index % 2, thermal_margin_c=25.0,
        power_w=640.0, sm_clock_mhz=1980, utilization=0.98,
        ecc={"corrected_volatile": 0, "uncorrected_volatile": 0},
        remapped_rows={"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
        pcie={"gen": 5, "gen_max": 5, "width": 16, "width_max": 16, "replay": 0}, fabric_state="completed",
    )  # fmt: skip
    return raw(data, second, node=node, subject=f"gpu/{gpu}")


def throttle(second: float, gpu: str, node: str) -> Event[Any]:
    cumulative = {"sw_power_cap": int(second * 1e8), "sw_thermal": 0, "hw_thermal": 0, "hw_power_brake": 0}
    data = Throttle(gpu_uuid=gpu, reasons=["sw_power_cap"], mask=4, cumulative_ns=cumulative)
    return raw(data, second, node=node, subject=f"gpu/{gpu}")


def link(second: float, gpu: str, number: int, node: str) -> Event[Any]:
    counters = {"replay": 0, "recovery": 0, "crc": 3}
    data = Nvlink(gpu_uuid=gpu, link=number, state="active", counters=counters)
    return raw(data, second, node=node, subject=f"nvlink/{gpu}/{number}")


def burst() -> dict[str, Any]:
    """20,000 ports go down at once: a spine switch. 2,500 nodes with 8 ports, one record a node."""
    processor = NodeProcessor()
    nodes = [f"node-{n:04d}" for n in range(2500)]
    run(processor, [("raw.node", n, [heartbeat(0.0, n)], at(0)) for n in nodes])
    run(processor, [("raw.placement", n, [placed(1.0, ("job", 1), node=n)], at(1)) for n in nodes])
    records: list[Record] = [
        ("raw.ib-port", n, [port_event(p, "DOWN", 20.0, node=n, was="ACTIVE") for p in PORTS], at(20.0))
        for n in nodes
    ]
    taken, outputs, states = run(processor, records)
    return {
        "transitions": len(nodes) * len(PORTS), "s": taken, "outputs": outputs, "states_written": states,
        "us_per_transition": taken / (len(nodes) * len(PORTS)) * 1e6,
    }  # fmt: skip


def timers() -> dict[str, Any]:
    """100,000 open outages that began within ten minutes; how late each level is told as the clock runs on.

    The clock is wall time while the core works, and jumps to the next deadline while it waits.
    """
    random = Random(2)
    before = NodeProcessor()
    templates = [f"node-{n:03d}" for n in range(500)]
    run(before, [("raw.placement", n, [placed(0.0, ("job", 1), node=n)], at(0)) for n in templates])
    edges = sorted((random.random() * 600, n, p) for n in templates for p in PORTS)
    for i, (second, n, p) in enumerate(edges):
        event = port_event(p, "DOWN", second, node=n, was="ACTIVE")
        before.on_record(n, SourceRef("raw.ib-port", 0, i, event.time), [event], event.time)
    Due(before).whole(at(600))
    states = [(n, before._nodes[n].dump()) for n in templates]
    processor = NodeProcessor()
    start = time.process_time()
    for copy in range(25):
        for n, state in states:
            processor.load(f"{n}-{copy}", state)
    loaded = time.process_time() - start
    processor.on_due(at(600))
    clock = at(601.5)
    Due(processor).whole(clock)
    late: list[float] = []
    busy = 0
    with collecting_as_the_engine():
        while (due := processor.next_due()) is not None and due < at(606.5):
            clock = max(clock, due)
            begun = time.perf_counter_ns()
            outputs: Sequence[Output] = processor.on_due(clock)
            spent = time.perf_counter_ns() - begun
            clock += spent
            busy += spent
            told = [o for o in outputs if o.topic == "signals" and o.event.time > at(601.6)]
            late += [(clock - o.event.time) / 1e6 for o in told]
    late.sort()
    return {
        "open_conditions": 25 * len(edges), "told_in_5_s": len(late),
        "late_ms_p50": statistics.median(late), "late_ms_p99": late[int(len(late) * 0.99)],
        "late_ms_max": late[-1], "busy_share": busy / 5e9, "load_us_per_node": loaded / (25 * 500) * 1e6,
    }  # fmt: skip


def state_size() -> dict[str, Any]:
    """Bytes of state of a healthy node, and of one whose 8 ports flap every minute for three days."""
    processor = NodeProcessor()
    run(processor, [("raw.node", "quiet", [heartbeat(float(s), "quiet")], at(s)) for s in range(0, 600, 10)])
    quiet = len(processor._nodes["quiet"].dump())
    run(processor, [("raw.node", "bad", [heartbeat(0.0, "bad")], at(0))])
    for second in range(60, 3 * 86400, 60):
        events = [port_event(p, "DOWN", second, node="bad") for p in PORTS]
        events += [port_event(p, "ACTIVE", second + 2.5, node="bad") for p in PORTS]
        processor.on_record("bad", SourceRef("raw.ib-port", 0, second, None), events, at(second + 3))
        processor.on_due(at(second + 3))
    return {"quiet_bytes": quiet, "flapping_bytes": len(processor._nodes["bad"].dump())}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "quiet_heartbeats": quiet_heartbeats,
    "mixed_events": mixed_events,
    "burst": burst,
    "timers": timers,
    "state_size": state_size,
}


if __name__ == "__main__":
    main_of_cases(CASES, __doc__)
