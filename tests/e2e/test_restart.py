"""A streams worker killed while a port is down: one outage with its true start, one action by id."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from faultwire.demo.fleet import NCCL_VERSION, Fleet
from tests.e2e.pipeline import distinct, fleet_bus, pipeline, until
from tests.kafka import Kafka
from topics.nccl import transport_budget_s
from topics.time import from_seconds

PORT = "port/mlx5_3/1"


@pytest.mark.timeout(180)
async def test_an_outage_survives_the_death_of_its_worker(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    fleet = Fleet()
    async with pipeline(kafka, catalogue, tmp_path) as line, fleet_bus(kafka, catalogue) as bus:
        streams = await line.worker("streams")
        await line.worker("correlator")
        await bus.publish(fleet.start(time.time_ns()))
        await bus.publish(fleet.heartbeats(time.time_ns()))

        down = time.time_ns()
        began = asyncio.get_running_loop().time()
        await bus.publish(fleet.port("node-07", "mlx5_3", "DOWN", "Polling", down))
        await line.events("signals", lambda seen: any(e.data.signal == "port_outage" for e in seen))
        await line.kill(streams)
        await line.worker("streams")
        await until(began + 25.0)  # long after the budget, whenever the worker was back
        up = time.time_ns()
        await bus.publish(fleet.port("node-07", "mlx5_3", "ACTIVE", "LinkUp", up))

        signals = await line.events(
            "signals",
            lambda seen: any(e.data.signal == "port_outage" and e.data.state == "cleared" for e in seen),
        )
        outages = [
            e.data
            for e in distinct(signals).values()
            if e.data.signal == "port_outage" and e.data.entity == PORT
        ]
        assert {o.since for o in outages} == {down - down % 1000}
        assert sorted(o.level for o in outages if o.level and o.state != "cleared") == sorted(
            ["open", "1s", "half_budget", "budget", "lethal"]
        )
        (cleared,) = [o for o in outages if o.state == "cleared"]
        assert cleared.value == pytest.approx((up - down) / 1e9, abs=1e-5)

        actions = await line.events(
            "actions", lambda seen: any(e.data.action == "interrupt_and_restart" for e in seen)
        )
        interrupts = [e for e in distinct(actions).values() if e.data.action == "interrupt_and_restart"]
        assert [(e.data.job_id, e.data.exclude_nodes, e.data.entities) for e in interrupts] == [
            (fleet.job_id, ["node-07"], [PORT])
        ]


@pytest.mark.timeout(120)
async def test_the_action_comes_at_the_budget_while_the_port_is_still_down(
    kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    fleet, budget = Fleet(), from_seconds(transport_budget_s(NCCL_VERSION) or 0)
    async with pipeline(kafka, catalogue, tmp_path) as line, fleet_bus(kafka, catalogue) as bus:
        await line.worker("streams")
        await line.worker("correlator")
        await bus.publish(fleet.start(time.time_ns()))
        down = time.time_ns()
        await bus.publish(fleet.port("node-07", "mlx5_3", "DOWN", "Polling", down))
        # Nothing else is sent: no heartbeat, no other event. Time alone must do it.
        actions = await line.events(
            "actions", lambda seen: any(e.data.action == "interrupt_and_restart" for e in seen)
        )
        heard = time.time_ns()
        assert down + budget <= heard < down + budget + from_seconds(1.5)
        action = actions[0].data
        assert (action.job_id, action.nodes, action.entities) == (fleet.job_id, ["node-07"], [PORT])
        assert action.dry_run
