"""What operators say: the hold stops everything at once, is told to those who ask, and is on the trail."""

from __future__ import annotations

import asyncio
import time

from typer.testing import CliRunner

from controllers.judge import held_by
from controllers.operator import OperatorDesk
from tests.controllers.builders import CLUSTER, action
from tests.controllers.fakes import FakeActuator, World
from tests.controllers.running import acting, ended, trail, until
from tests.kafka import Kafka
from topics.control import Hold
from topics.time import NS_PER_S


async def test_under_a_hold_nothing_is_begun_and_afterwards_nothing_is_made_up_for(
    kafka: Kafka, catalogue: str
) -> None:
    world = World()
    desk = OperatorDesk(CLUSTER, kafka.bootstrap, catalogue)
    async with acting(FakeActuator(world), kafka, catalogue) as controller:
        await desk.hold("leaf-12 is being replaced", "anna", time.time_ns())
        await asyncio.sleep(0.5)  # it reaches a controller within the 100 ms of a fetch
        await kafka.send_events(f"{catalogue}actions", [action("drain", "n1")])
        (entry,) = [e for e in await trail(kafka, catalogue, ended(1)) if e.outcome != "told"]
        assert (entry.outcome, "held by anna" in entry.detail) == ("held", True)
        await desk.release("done", "anna", time.time_ns())
        await asyncio.sleep(0.5)
        await kafka.send_events(f"{catalogue}actions", [action("drain", "n2")])
        entries = await trail(kafka, catalogue, ended(2))
        assert controller.active
    assert world.drained == {"n2": "fake"}
    told = [(e.by, e.detail) for e in entries if e.outcome == "told"]
    assert told == [("anna", "hold: leaf-12 is being replaced"), ("anna", "release: done")]


async def test_a_hold_stops_what_was_begun_between_two_steps_until_it_is_released(
    kafka: Kafka, catalogue: str
) -> None:
    world, go = World(), asyncio.Event()

    async def wait(step: str, _: object) -> None:
        if step == "drain":
            await go.wait()

    actuator = FakeActuator(world, after=wait)
    desk = OperatorDesk(CLUSTER, kafka.bootstrap, catalogue)
    async with acting(actuator, kafka, catalogue):
        event = action("interrupt_and_restart", "n1", job_id="7", attempt=1)
        await kafka.send_events(f"{catalogue}actions", [event])
        await until(lambda: bool(world.drained), "drained")
        await desk.hold("wait", "anna", time.time_ns())
        await asyncio.sleep(0.5)
        go.set()
        await asyncio.sleep(0.5)
        assert not world.restarts
        await desk.release("go on", "anna", time.time_ns())
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "done"
    assert world.restarts["7"] == 1


async def test_a_hold_is_there_after_a_restart_too(kafka: Kafka, catalogue: str) -> None:
    world = World()
    await OperatorDesk(CLUSTER, kafka.bootstrap, catalogue).hold("wait", "anna", time.time_ns())
    async with acting(FakeActuator(world), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("drain", "n1")])
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "held"
    assert not world.done


def test_a_hold_ends_by_its_own_time_and_by_release() -> None:
    hold = Hold(active=True, why="x", by="anna", since=0, until=10 * NS_PER_S)
    assert held_by(hold, 9 * NS_PER_S)
    assert held_by(hold, 10 * NS_PER_S) is None
    assert held_by(hold.model_copy(update={"active": False}), 0) is None
    assert held_by(None, 0) is None


def test_on_the_command_line(kafka: Kafka, catalogue_sync: str) -> None:
    from faultwire.cli import app

    runner = CliRunner()

    def said(*arguments: str, code: int = 0) -> str:
        result = runner.invoke(
            app, ["--set", f"kafka.prefix={catalogue_sync}", *arguments, "--bootstrap", kafka.bootstrap]
        )
        assert result.exit_code == code, result.output
        return result.output

    assert "no hold" in said("hold")
    said("hold", "fans\x1b[2J", "--by", "anna")
    assert "held by anna" in said("hold", code=1)
    said("release", "--by", "anna")
    said("hold")
    trail_text = said("audit")
    assert "hold: fans\\x1b[2J" in trail_text
    assert "\x1b" not in trail_text
    assert len(said("audit", "--json").splitlines()) == 2
    assert said("audit", "--alerts") == ""
    said("hold", "  ", code=2)
