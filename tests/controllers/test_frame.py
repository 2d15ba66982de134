"""The frame that all controllers share: once by id, guards asked again, limits, hold, restarts, one acts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from controllers.actuator import Done, Stop
from controllers.journal import FencedError, Journal
from controllers.limits import Limits
from controllers.records import Writer
from tests.controllers.builders import CLUSTER, action
from tests.controllers.fakes import FakeActuator, World
from tests.controllers.running import acting, ended, joined, trail, until
from tests.kafka import Kafka
from topics.events import Event
from topics.time import NS_PER_S


def restart(job: int = 7, node: str = "n1", **more: Any) -> Event[Any]:
    return action("interrupt_and_restart", node, job_id=str(job), attempt=1, **more)


async def test_an_action_is_carried_out_once_and_every_step_is_on_the_trail(
    kafka: Kafka, catalogue: str
) -> None:
    world, event = World(), restart()
    async with acting(FakeActuator(world), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [event, event])
        await kafka.send_events(f"{catalogue}actions", [event, restart(8, "n2")])
        entries = await trail(kafka, catalogue, ended(2))
    mine = [(e.outcome, e.step) for e in entries if e.action_id == event.id]
    assert mine == [("begun", None), ("step", "drain"), ("step", "requeue"), ("done", None)]
    assert world.done == Counter(
        {("drain", "n1"): 1, ("requeue", "7"): 1, ("drain", "n2"): 1, ("requeue", "8"): 1}
    )
    (begun,) = [e for e in entries if e.action_id == event.id and e.outcome == "begun"]
    assert (begun.job_id, begun.attempt, begun.nodes) == ("7", 1, ["n1"])
    assert begun.because == event.data.because
    assert begun.detail == event.data.reason


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"dry_run": True}, "dry_run"),
        ({"drill": True}, "dry_run"),
        ({"provenance": "replay"}, "dry_run"),
        ({"passed": False}, "refused"),
        ({"expires_s": -1.0}, "expired"),
    ],
)
async def test_what_is_not_to_be_done_is_told_and_not_done(
    kafka: Kafka, catalogue: str, change: dict[str, Any], outcome: str
) -> None:
    world = World()
    async with acting(FakeActuator(world), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart(**change)])
        (entry,) = await trail(kafka, catalogue, ended(1))
    assert entry.outcome == outcome
    assert not world.done


async def test_without_being_enabled_by_name_everything_is_a_dry_run(kafka: Kafka, catalogue: str) -> None:
    world = World()
    async with acting(FakeActuator(world), kafka, catalogue, enabled=("drain",)):
        await kafka.send_events(f"{catalogue}actions", [restart(), action("drain", "n2")])
        entries = await trail(kafka, catalogue, ended(2))
    assert {e.outcome for e in entries if e.action == "interrupt_and_restart"} == {"dry_run"}
    assert world.done == Counter({("drain", "n2"): 1})


async def test_an_action_that_this_controller_has_no_way_for_is_told(kafka: Kafka, catalogue: str) -> None:
    async with acting(FakeActuator(World()), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("reset_gpu", "n1")])
        (entry,) = await trail(kafka, catalogue, ended(1))
    assert entry.outcome == "unsupported"


async def test_records_that_cannot_be_read_do_not_stop_those_behind_them(
    kafka: Kafka, catalogue: str
) -> None:
    world = World()
    async with acting(FakeActuator(world), kafka, catalogue):
        for partition in range(4):
            await kafka.send(f"{catalogue}actions", [b"nonsense", b"{}"], partition=partition)
        await kafka.send_events(f"{catalogue}actions", [restart()])
        await trail(kafka, catalogue, ended(1))
    assert world.restarts["7"] == 1


async def test_a_scheduler_that_does_not_answer_is_tried_again(kafka: Kafka, catalogue: str) -> None:
    world = World()
    actuator = FakeActuator(world, away=True)
    async with acting(actuator, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        await asyncio.sleep(0.3)
        actuator.away = False
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "done"
    assert world.restarts["7"] == 1


async def test_what_can_not_be_done_fails_with_an_alert_and_ends_there(kafka: Kafka, catalogue: str) -> None:
    world = World()
    actuator = FakeActuator(
        world, after=lambda step, _: Stop("failed", "no such node") if step == "drain" else None
    )
    async with acting(actuator, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        entries = await trail(kafka, catalogue, ended(1))
    assert (entries[-1].outcome, entries[-1].alert) == ("failed", True)
    assert "requeue" not in actuator.calls


# -- restarts ----------------------------------------------------------------------------------------------


async def test_a_successor_finishes_what_was_begun_and_repeats_nothing(kafka: Kafka, catalogue: str) -> None:
    world = World()
    stuck = asyncio.Event()

    async def wait_forever(step: str, _: object) -> None:
        if step == "requeue":
            stuck.set()
            await asyncio.Event().wait()

    async with acting(FakeActuator(world, before=wait_forever), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        await asyncio.wait_for(stuck.wait(), 20)
    assert world.done == Counter({("drain", "n1"): 1})
    second = FakeActuator(world)
    async with acting(second, kafka, catalogue):
        entries = await trail(kafka, catalogue, ended(1))
    assert [e.outcome for e in entries] == ["begun", "step", "step", "done"]
    assert world.done == Counter({("drain", "n1"): 1, ("requeue", "7"): 1})


async def test_a_step_whose_end_was_not_recorded_finds_itself_done(kafka: Kafka, catalogue: str) -> None:
    world = World()
    stuck = asyncio.Event()

    async def wait_forever(step: str, _: object) -> None:
        if step == "requeue":
            stuck.set()
            await asyncio.Event().wait()

    async with acting(FakeActuator(world, after=wait_forever), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        await asyncio.wait_for(stuck.wait(), 20)
    assert world.restarts["7"] == 1
    async with acting(FakeActuator(world), kafka, catalogue):
        await trail(kafka, catalogue, ended(1))
    assert world.done == Counter({("drain", "n1"): 1, ("requeue", "7"): 1})


async def test_a_step_that_may_not_be_repeated_is_not(kafka: Kafka, catalogue: str) -> None:
    world = World()
    stuck = asyncio.Event()
    special = {"signal": frozenset({"once"})}

    async def wait_forever(step: str, _: object) -> None:
        if step == "signal":
            stuck.set()
            await asyncio.Event().wait()

    plan = ("signal", "requeue")
    first = FakeActuator(world, plan=plan, special=special, after=wait_forever)  # type: ignore[arg-type]
    async with acting(first, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        await asyncio.wait_for(stuck.wait(), 20)
    second = FakeActuator(world, plan=plan, special=special)  # type: ignore[arg-type]
    async with acting(second, kafka, catalogue):
        await trail(kafka, catalogue, ended(1))
    assert second.calls == ["requeue"]
    assert world.done == Counter({("signal", "7"): 1, ("requeue", "7"): 1})


async def test_done_ids_are_remembered_over_restarts(kafka: Kafka, catalogue: str) -> None:
    world, event = World(), restart()
    async with acting(FakeActuator(world), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [event])
        await trail(kafka, catalogue, ended(1))
    second = FakeActuator(world)
    async with acting(second, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [event, restart(8, "n2")])
        await trail(kafka, catalogue, ended(2))
    assert second.calls == ["drain", "requeue"]
    assert world.restarts == Counter({"7": 1, "8": 1})


# -- two at once ---------------------------------------------------------------------------------------------


async def test_of_two_one_acts_and_the_other_takes_over(kafka: Kafka, catalogue: str) -> None:
    world = World()
    first, second = FakeActuator(world), FakeActuator(world)
    async with acting(first, kafka, catalogue) as one, joined(second, kafka, catalogue) as two:
        jobs = [restart(job, f"n{job}") for job in range(20)]
        await kafka.send_events(f"{catalogue}actions", jobs[:10])
        await trail(kafka, catalogue, ended(10), within_s=40)
        await until(lambda: (one.active, two.active) == (True, False), "the first acts", within_s=60)
        assert not second.calls
    async with joined(second, kafka, catalogue) as two:
        await kafka.send_events(f"{catalogue}actions", jobs[10:])
        await trail(kafka, catalogue, ended(20), within_s=40)
        await until(lambda: two.active, "the second acts", within_s=60)
    assert set(world.done.values()) == {1}
    assert len(world.restarts) == 20


async def test_a_controller_that_was_thought_dead_cannot_write_any_more(kafka: Kafka, catalogue: str) -> None:
    writer, event = Writer(CLUSTER, "fake"), restart()
    old, new = (Journal("fake", kafka.bootstrap, catalogue, f"{catalogue}controller-fake") for _ in range(2))
    try:
        await old.follow()
        await old.take_over()
        begun = writer.begun(event, time.time_ns())
        await old.write([begun])
        await new.follow()
        await new.take_over()
        assert new.undertakings[event.id].data == begun.data
        with pytest.raises(FencedError):
            await old.write([writer.stepped(begun, "drain", "as if", time.time_ns())])
        await new.write([writer.ended(begun, "done", time.time_ns())])
    finally:
        await old.close()
        await new.close()
    assert new.undertakings[event.id].data.steps == {}


async def test_what_was_only_meant_to_be_written_does_not_count(kafka: Kafka, catalogue: str) -> None:
    journal = Journal("fake", kafka.bootstrap, catalogue, f"{catalogue}controller-fake")
    try:
        await journal.follow()
        await journal.take_over()
        journal.stage([Writer(CLUSTER, "fake").begun(restart(), time.time_ns())])
        assert journal.undertakings
        await journal.step_back()
        await journal.take_over()
        assert not journal.undertakings
    finally:
        await journal.close()


# -- hold and limits -----------------------------------------------------------------------------------------


async def test_a_storm_stops_at_the_blast_radius_with_one_alert(kafka: Kafka, catalogue: str) -> None:
    world = World()
    limits = Limits(nodes_per_window=3, actions_per_minute=1000, fleet_fraction_out=1.0, nodes_out=1000)
    async with acting(FakeActuator(world), kafka, catalogue, limits=limits):
        storm = [restart(job, f"n{job}") for job in range(300)]
        await kafka.send_events(f"{catalogue}actions", storm)
        entries = await trail(kafka, catalogue, ended(300), within_s=90)
    assert len(world.drained) == 3
    assert sum(world.restarts.values()) == 3
    outcomes = Counter(e.outcome for e in entries if e.outcome not in ("begun", "step"))
    assert outcomes == Counter({"done": 3, "limited": 1, "held": 296})
    alerts = [e for e in entries if e.alert]
    assert len(alerts) == 1
    assert "3 nodes allowed in 600 s" in alerts[0].detail


async def test_after_a_restart_the_limit_still_counts_what_was_done_before(
    kafka: Kafka, catalogue: str
) -> None:
    world = World()
    limits = Limits(nodes_per_window=2, actions_per_minute=1000, fleet_fraction_out=1.0, nodes_out=1000)
    for jobs in ((1, 2), (3,)):
        async with acting(FakeActuator(world), kafka, catalogue, limits=limits):
            await kafka.send_events(f"{catalogue}actions", [restart(j, f"n{j}") for j in jobs])
            entries = await trail(kafka, catalogue, ended(max(jobs)))
    assert sorted(world.drained) == ["n1", "n2"]
    assert entries[-1].outcome == "limited"


async def test_a_clock_of_its_own_decides_what_has_expired(kafka: Kafka, catalogue: str) -> None:
    world = World()
    later = time.time_ns() + 700 * NS_PER_S
    async with acting(FakeActuator(world), kafka, catalogue, clock=lambda: later):
        await kafka.send_events(f"{catalogue}actions", [restart()])
        (entry,) = await trail(kafka, catalogue, ended(1))
    assert entry.outcome == "expired"
    assert not world.done


async def test_one_action_waiting_does_not_hold_up_others_but_those_on_its_node(
    kafka: Kafka, catalogue: str
) -> None:
    world = World()
    go = asyncio.Event()

    async def wait(step: str, event: Event[Any]) -> Done | None:
        if event.data.job_id == "1" and step == "drain":
            await go.wait()
        return None

    actuator = FakeActuator(world, before=wait)
    async with acting(actuator, kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [restart(1, "a")])
        await until(lambda: bool(actuator.calls), "begun")
        await kafka.send_events(f"{catalogue}actions", [restart(2, "a"), restart(3, "b")])
        await trail(kafka, catalogue, ended(1))
        assert sorted(world.restarts) == ["3"]
        go.set()
        await trail(kafka, catalogue, ended(3))
    assert sorted(world.restarts) == ["1", "2", "3"]
