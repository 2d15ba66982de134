"""Clocks that are wrong: the known incident with the clock of one node set differently, in memory.

A record says when it happened by the clock of its node. Whatever that clock says, no other node may be firmly
blamed for it: what can't be told apart any more is ambiguous. Where the times still meet within what the
correlator allows for, the verdict is the right one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from faultwire.capture import RawRecord
from streams.engine.api import Output
from streams.engine.local import LocalRuntime
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from tests.chaos.fleet import CLUSTER, PORT, VICTIM, ShortFleet
from topics.derived import Attribution
from topics.time import NS_PER_S, from_seconds, parse_rfc3339

START = parse_rfc3339("2026-05-04T08:00:00Z")
HOUR_S = 3600.0


def story() -> Iterator[tuple[float, list[RawRecord]]]:
    """(seconds after the start at which it arrives, what was said)."""
    fleet = ShortFleet(job_id="6001")

    def at(s: float) -> int:
        return START + from_seconds(s)

    yield 0.0, fleet.start(at(0.0))
    yield 2.0, fleet.heartbeats(at(2.0))
    yield 4.0, fleet.goes_down(at(4.0))
    yield 6.0, fleet.heartbeats(at(6.0))
    yield 7.0, fleet.breaks(at(7.0))
    yield 10.0, fleet.heartbeats(at(10.0))
    yield 12.0, fleet.has_link(at(12.0))
    yield 12.3, fleet.comes_up(at(12.3))
    yield 13.0, fleet.job("FAILED", at(13.0), exit_code=1)
    for s in range(14, 40, 4):
        yield float(s), fleet.heartbeats(at(s))


def verdict(node: str, off_s: float, *, from_s: float = 0.0) -> Attribution:
    """The final one, when the clock of `node` is `off_s` ahead from `from_s` on."""
    found: list[Attribution] = []

    def heard(output: Output, _: int) -> None:
        if isinstance(output.event.data, Attribution):
            found.append(output.event.data)

    nodes = NodeProcessor(SignalSettings(cluster=CLUSTER))
    jobs = JobProcessor(CorrelatorSettings(cluster=CLUSTER))
    runtime = LocalRuntime((nodes, jobs), heard)
    for s, records in story():
        now = START + from_seconds(s)
        runtime.advance(now)
        for record in records:
            event = record.event
            speaks = event.source.split("/")[2] == node and record.topic not in ("raw.job", "raw.placement")
            if speaks and s >= from_s:
                event = event.model_copy(update={"time": event.time + from_seconds(off_s)})
            runtime.publish(record.topic, record.key, [event], now)
    runtime.advance(START + 2 * 3600 * NS_PER_S, only=["correlator"])
    return found[-1]


@pytest.mark.parametrize("off_s", [-0.4, 0.0, 0.4])
@pytest.mark.parametrize("node", ["node-01", "node-04", VICTIM])
def test_within_what_is_allowed_for_the_verdict_is_the_right_one(node: str, off_s: float) -> None:
    said = verdict(node, off_s)
    assert (said.domain, said.subdomain) == ("hardware", "network_hca_port")
    assert [(c.node, c.entity) for c in said.culprits] == [(VICTIM, PORT)]


@pytest.mark.parametrize("off_s", [-HOUR_S, -5.0, -1.0, 1.0, 5.0, HOUR_S])
@pytest.mark.parametrize("node", ["node-01", "node-04", VICTIM])
@pytest.mark.parametrize("from_s", [0.0, 5.0], ids=["all along", "stepped in the middle"])
def test_a_wrong_clock_makes_no_wrong_firm_verdict(node: str, off_s: float, from_s: float) -> None:
    said = verdict(node, off_s, from_s=from_s)
    assert VICTIM in {c.node for c in said.culprits}
    if said.domain != "unknown" and said.subdomain != "ambiguous":
        assert [(c.node, c.entity) for c in said.culprits] == [(VICTIM, PORT)]
