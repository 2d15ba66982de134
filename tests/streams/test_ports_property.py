"""The facts about ports equal those of a brute-force oracle, whatever Kafka does on the way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.signals.port_downtime import WINDOWS_S
from streams.signals.thresholds import packaged
from tests.streams.builders import T0, Fleet, beat, placed, port_event
from tests.streams.oracle import Rules, Told, facts, outages
from topics.events import Event
from topics.nccl import transport_budget_s
from topics.time import NS_PER_S

BEAT_S = 10.0
LATENESS_S = packaged()["general"].thresholds["allowed_lateness"].value
SETTLE_S = packaged()["port_outage"].thresholds["level_settle"].value


def rules() -> Rules:
    table = packaged()
    down = table["port_downtime"].thresholds
    return Rules(
        short_s=table["port_outage"].thresholds["short"].value,
        budget_s=transport_budget_s("2.21.5"),
        downtime=[
            (float(window), down[f"{level}_{name}"].value, severity)
            for name, window in WINDOWS_S.items()
            for level, severity in (("warn", "warning"), ("error", "error"))
        ],
        flaps=int(table["port_flapping"].thresholds["count"].value),
        flap_window_s=3600.0,
    )


History = dict[tuple[str, str], list[tuple[float, bool]]]
"""Per (node, port) alternating `(second, active)` transitions."""


def history_of(random: Random, nodes: int, ports: int, edges: int) -> History:
    """Outages and gaps from 5 ms to a quarter of an hour, some exactly as long as a level or a window."""
    exact = [1.0, 2.0, 3.758096, 7.516192, 8.643621, 60.0, 600.0, 900.0]
    out: History = {}
    for n in range(nodes):
        for p in range(random.randint(1, ports)):
            times: list[float] = []
            at = round(random.uniform(10, 200), 6)
            for _ in range(random.randint(0, edges)):
                times.append(at)
                gap = random.choice(
                    [random.uniform(0.005, 3), random.uniform(0.005, 30), random.choice(exact)]
                )
                at = round(at + gap, 6)
            out[f"node-{n:02d}", f"mlx5_{p}"] = [(t, i % 2 == 1) for i, t in enumerate(times)]
    return out


def told(fleet: Fleet) -> set[tuple[str, Told]]:
    out = set()
    for e in fleet.signals("port_outage", "port_downtime", "port_flapping"):
        d = e.data
        out.add(
            (
                e.partitionkey,
                (d.entity, d.signal, d.state, d.level, d.since, e.time, d.value, d.window_s),
            )
        )
    return out


def expected(history: History, until: int) -> set[tuple[str, Told]]:
    out = set()
    for (node, device), edges in history.items():
        exact = [(T0 + round(t * 1e6) * 1000, up) for t, up in edges]
        out |= {(node, fact) for fact in facts(f"port/{device}/1", outages(exact), rules(), until)}
    return out


def events_of(history: History, end: float) -> list[Event[Any]]:
    """What collectors would publish: every edge, and heartbeats that tell the levels."""
    out: list[Event[Any]] = []
    for node in sorted({n for n, _ in history}):
        out.append(placed(0.0, ("job", 1), node=node))
        devices = sorted(d for n, d in history if n == node)
        second = 1.0
        while second < end:
            levels = {}
            for device in devices:
                active = [up for t, up in history[node, device] if t <= second]
                levels[device] = "ACTIVE" if not active or active[-1] else "DOWN"
            out.append(beat(second, levels, node=node))
            second += BEAT_S
        for device in devices:
            out += [
                port_event(device, "ACTIVE" if up else "DOWN", t, node=node)
                for t, up in history[node, device]
            ]
    return out


def last_second(history: History) -> float:
    return max((t for edges in history.values() for t, _ in edges), default=0.0)


def seconds(event: Event[Any]) -> float:
    return (event.time - T0) / NS_PER_S


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(1, 50),
    edges=st.integers(0, 12),
    delay=st.sampled_from([0.0, 0.5, 5.0, LATENESS_S / 2 - 15]),
    repeats=st.floats(0, 0.5),
    stops=st.integers(0, 4),
)
@example(
    seed=1, nodes=40, edges=1, delay=5.0, repeats=0.251953125, stops=1
)  # the first beat after a stop is late
@example(seed=9, nodes=28, edges=9, delay=135.0, repeats=0.34238389105604145, stops=4)  # and so twice
@pytest.mark.parametrize("processors", [1, 2, 7])
def test_any_arrival_order_repeats_splits_and_restarts_give_the_facts_of_the_oracle(
    processors: int, seed: int, nodes: int, edges: int, delay: float, repeats: float, stops: int
) -> None:
    random = Random(seed)
    history = history_of(random, nodes, ports=2, edges=edges)
    end = min(last_second(history) + 40, 300.0)
    arrivals: list[tuple[float, int, Event[Any]]] = []
    for event in events_of(history, end):
        late = 0.0 if event.kind == "placement" else delay
        for _ in range(1 + (random.random() < repeats)):
            arrivals.append((seconds(event) + random.random() * late, len(arrivals), event))
    arrivals.sort()
    cuts = {random.randrange(len(arrivals)) for _ in range(stops)}
    fleet = Fleet(processors)
    for i, (moment, _, event) in enumerate(arrivals):
        fleet.put(event, now=max(moment, seconds(event)))
        if i in cuts:
            fleet.restart(random.choice([1, 2, 7]))
    until = T0 + round((max(end, arrivals[-1][0]) + 4000) * NS_PER_S)
    fleet.advance_to(until)
    assert told(fleet) == expected(history, until)
    assert all(node.ctx.late == 0 for p in fleet.processors for node in p._nodes.values())
