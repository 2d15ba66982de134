"""The connector's loop: what a look costs, and what happens when nobody answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from collectors.schedulers.commands import CommandError, run
from collectors.schedulers.publisher import RawPublisher
from collectors.schedulers.slurm.connector import BUSY_AT_MOST, LONGEST_PAUSE_S, SlurmConnector, pause_s
from collectors.schedulers.slurm.queue import Answer, QueueError
from tests.collectors.schedulers.builders import at, record, tracker
from topics.events import Event


@pytest.mark.parametrize("call_s", [0.001, 0.1, 1.0, 20.0])
def test_calls_never_take_more_than_their_share_of_the_time(call_s: float) -> None:
    pause = pause_s(1.0, call_s, failures=0)
    assert call_s / (call_s + pause) <= BUSY_AT_MOST + 1e-9
    assert pause >= 1.0


def test_a_quick_controller_is_asked_every_second() -> None:
    assert pause_s(1.0, 0.01, failures=0) == 1.0


def test_failures_double_the_pause_up_to_a_limit() -> None:
    pauses = [pause_s(1.0, 0.01, failures=n) for n in range(12)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == LONGEST_PAUSE_S


class Queue:
    def __init__(self, *answers: Answer | QueueError) -> None:
        self.answers = list(answers)

    async def jobs(self) -> Answer:
        answer = self.answers.pop(0)
        if isinstance(answer, QueueError):
            raise answer
        return answer


class Publisher(RawPublisher):
    def __init__(self) -> None:
        self.events: list[Event[Any]] = []

    async def publish(self, events: Any) -> None:
        self.events += events

    async def recall(self) -> list[Event[Any]]:
        return []

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_queue_that_could_not_be_asked_makes_nobody_disappear() -> None:
    publisher = Publisher()
    queue = Queue(([record()], []), QueueError("away"), QueueError("away"), ([record()], []))
    connector = SlurmConnector(queue, tracker(), publisher, clock=lambda: at(20))
    failures = []
    for _ in range(4):
        await connector.look()
        failures.append(connector.failures)
    assert failures == [0, 1, 2, 0]
    assert [e.data.state for e in publisher.events if e.kind == "job"] == ["RUNNING"]


async def test_a_client_that_hangs_is_ended() -> None:
    with pytest.raises(CommandError, match=r"no answer within 0\.2 s"):
        await run(["sleep", "300"], 0.2)


async def test_a_client_that_fails_says_its_last_word() -> None:
    with pytest.raises(CommandError, match="sh: second"):
        await run(["sh", "-c", "echo first >&2; echo second >&2; exit 1"], 5.0)
    with pytest.raises(CommandError, match="No such file"):
        await run(["/nowhere/squeue"], 5.0)


async def test_a_pause_is_cut_short_by_a_poke() -> None:
    connector = SlurmConnector(Queue(), tracker(), Publisher())
    waiting = asyncio.create_task(connector._wait(600.0))
    await asyncio.sleep(0)
    connector.poke()
    await asyncio.wait_for(waiting, 5.0)
