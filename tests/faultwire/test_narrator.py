"""One line an event: complete in words, without what nobody wants to read, and safe to print."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from faultwire.demo.fleet import Fleet
from faultwire.demo.narrator import Narrator, describe
from topics.derived import Attribution, Culprit
from topics.events import Event, make
from topics.payloads import Tick
from topics.time import from_seconds

NOW = from_seconds(1_800_000_000)


def told(event: Event[Any], *, plain: bool = True, live: bool = True, now: int = NOW) -> str:
    out = io.StringIO()
    console = Console(file=out, width=400, no_color=True)
    Narrator(console, lambda: now, plain=plain, live=live).event(event)
    return out.getvalue()


def verdict(**changes: Any) -> Event[Any]:
    fields: dict[str, Any] = {
        "job_id": "7",
        "attempt": 1,
        "revision": 1,
        "phase": "final",
        "terminal_state": "FAILED",
        "domain": "hardware",
        "subdomain": "network_hca_port",
        "culprits": [Culprit(node="node-07", entity="port/mlx5_3/1")],
        "active": [],
        "interesting": [],
        "affected_nodes": [],
        "coverage": [],
        "rules": [],
        "ruleset": "1",
        "input_hash": "0",
        "provenance": "live",
    }
    data = Attribution(**{**fields, **changes})
    return make(data, id="a", source="/c/correlator", subject="job/7/1", time=NOW, key="7")


def test_a_port_transition_says_node_port_state_and_switch() -> None:
    (record,) = Fleet().port("node-07", "mlx5_3", "DOWN", "Polling", NOW)
    line = told(record.event, now=NOW + 5_000_000)
    assert "node-07 port/mlx5_3/1 DOWN (was ACTIVE), physical Polling, leaf-13 port 7" in line
    assert "(5 ms after it happened)" in line


def test_a_replay_does_not_claim_to_have_been_quick() -> None:
    (record,) = Fleet().port("node-07", "mlx5_3", "DOWN", "Polling", NOW)
    assert "after it happened" not in told(record.event, live=False)


def test_heartbeats_placements_and_settings_are_not_worth_a_line() -> None:
    records = [*Fleet().start(NOW), *Fleet().heartbeats(NOW)]
    assert {r.event.kind for r in records if describe(r.event) is not None} == {"job"}


def test_a_verdict_names_cause_and_culprit() -> None:
    assert "FAILED, hardware/network_hca_port, culprit node-07/port/mlx5_3/1" in told(verdict())


def test_a_healthy_job_is_told_as_such() -> None:
    event = verdict(terminal_state="RUNNING", domain="none", subdomain="completed", culprits=[])
    assert "nothing is wrong with it" in told(event)


def test_markup_in_what_a_node_says_is_printed_not_obeyed() -> None:
    event = verdict(culprits=[Culprit(node="[red]node[/red]", entity="node")])
    assert "[red]node[/red]/node" in told(event, plain=False)


def test_what_only_keeps_the_time_is_not_told() -> None:
    tick = make(
        Tick(due=NOW, reason="health"), id="t", source="/c/streams", subject="node", time=NOW, key="n"
    )
    assert told(tick) == ""
