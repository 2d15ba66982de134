"""Through both cores, in memory: what a controller is asked to do about an outage that is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collectors.placement import PlacementBook
from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.thresholds import SignalSettings
from topics.derived import Action
from topics.events import Event, make
from topics.payloads import (
    CollectorStatus,
    Heartbeat,
    IbPort,
    Job,
    JobState,
    Levels,
    NcclSettings,
    Payload,
    PortState,
)
from topics.time import NS_PER_S, from_seconds, seconds

C = "c"
T0 = 1_800_000_000 * NS_PER_S
SHORT = NcclSettings(ib_timeout=14, ib_retry_cnt=7)
"""Gives up after 0.47 s."""


class Line:
    """Three nodes with one port each; steps are played in the order of time, with heartbeats between."""

    def __init__(self) -> None:
        self.actions: list[tuple[float, Event[Action]]] = []
        cores = [
            NodeProcessor(SignalSettings(cluster=C)),
            JobProcessor(CorrelatorSettings(cluster=C, fast_after_s=1)),
        ]
        self._runtime = LocalRuntime(cores, self._heard)
        self._book = PlacementBook(C)
        self._states: dict[str, PortState] = dict.fromkeys("abc", "ACTIVE")
        self._steps: list[tuple[float, Callable[[int], None]]] = []

    def port(self, at: float, node: str, state: PortState) -> None:
        def step(now: int) -> None:
            self._states[node] = state
            data = IbPort(device="mlx5_0", port=1, link_layer="InfiniBand", state=state, via="sysfs")
            self._publish("raw.ib-port", data, node, "port/mlx5_0/1", now)

        self._steps.append((at, step))

    def job(
        self, at: float, job_id: str, state: JobState, nodes: str, start: float, attempt: int = 1
    ) -> None:
        def step(now: int) -> None:
            data = Job(
                job_id=job_id,
                attempt=attempt,
                scheduler="slurm",
                state=state,
                start=T0 + from_seconds(start),
                end=None if state == "RUNNING" else now,
                nodes=list(nodes),
                nccl=SHORT,
            )
            event = self._publish("raw.job", data, job_id, f"job/{job_id}/{attempt}", now)
            for placed in self._book.apply(event):
                self._runtime.publish("raw.placement", placed.partitionkey, [placed], now)

        self._steps.append((at, step))

    def play(self, since: int, until: int) -> None:
        beats = [(float(at), self._beat) for at in range(since, until, 2)]
        for at, step in sorted([*beats, *self._steps], key=lambda s: s[0]):
            now = T0 + from_seconds(at)
            self._runtime.advance(now)
            step(now)

    @property
    def interrupts(self) -> list[tuple[str | None, int | None, list[str]]]:
        found = [e.data for _, e in self.actions if e.data.action == "interrupt_and_restart"]
        return [(a.job_id, a.attempt, a.nodes) for a in found]

    def _beat(self, now: int) -> None:
        ok = CollectorStatus(status="ok", last_read=now, lag_s=0.0, lost=0)
        for node, state in self._states.items():
            data = Heartbeat(
                boot_id="x",
                uptime_s=1000.0 + seconds(now - T0),
                interval_s=2.0,
                inventory_version=1,
                state=Levels(ports={"mlx5_0/1": state}, throttle={}),
                collectors={"kmsg": ok, "nvml": ok, "ports": ok, "logs": ok},
            )
            self._publish("raw.node", data, node, "node", now)

    def _publish(self, topic: str, data: Payload, key: str, subject: str, now: int) -> Event[Any]:
        event = make(
            data,
            id=f"{key}{subject}{now}",
            source=f"/{C}/{key}/x",
            subject=subject,
            time=now,
            key=key,
            provenance="live",
        )
        self._runtime.publish(topic, key, [event], now)
        return event

    def _heard(self, output: Output, now: int) -> None:
        if isinstance(output.event.data, Action):
            self.actions.append((seconds(now - T0), output.event))


@pytest.mark.parametrize("gap", [2.0, 5.0, 20.0, 600.0])
def test_an_outage_that_was_over_before_the_attempt_interrupts_nothing(gap: float) -> None:
    """It would use up the attempt's one interrupt, too, and drain a node that has been repaired."""
    line = Line()
    line.job(-60.0, "1", "RUNNING", "ab", start=-60.0)
    line.port(-30.0, "a", "DOWN")
    line.job(-29.2, "1", "REQUEUED", "ab", start=-60.0)
    line.port(-28.5, "a", "ACTIVE")
    start = -28.5 + gap
    line.job(start, "2", "RUNNING", "ac", start=start)
    line.port(start + 5.0, "c", "DOWN")
    line.port(start + 7.0, "c", "ACTIVE")
    line.play(-70, int(start) + 12)
    assert line.interrupts == [("1", 1, ["a"]), ("2", 1, ["c"])]


@pytest.mark.parametrize("earlier", [1, 3, 8, 20])
def test_however_many_outages_there_were_each_attempt_is_interrupted_for_its_own(earlier: int) -> None:
    """What is handed to a new attempt never leaves out the end of an outage."""
    line, at = Line(), -400.0
    for number in range(earlier + 1):
        node = "ab"[number % 2]
        line.job(at, str(number), "RUNNING", "ab", start=at)
        line.port(at + 5.0, node, "DOWN")
        line.job(at + 6.0, str(number), "REQUEUED", "ab", start=at)
        line.port(at + 6.5, node, "ACTIVE")
        at += 9.0
    line.play(-410, int(at) + 2)
    assert line.interrupts == [(str(n), 1, ["ab"[n % 2]]) for n in range(earlier + 1)]


def test_an_attempt_that_begins_on_a_port_that_is_down_is_interrupted_when_its_budget_is_used_up() -> None:
    line = Line()
    line.port(-0.2, "a", "DOWN")
    line.job(0.0, "2", "RUNNING", "ac", start=0.0)
    line.play(-20, 8)
    assert line.interrupts == [("2", 1, ["a"])]
