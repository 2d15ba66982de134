"""A plan told in the order of time, without ever holding it."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from random import Random
from typing import Final

from faultwire.simulate import words
from faultwire.simulate.attempt import STEPS_BEGIN_S, Attempt
from faultwire.simulate.background import Background
from faultwire.simulate.items import Batch, Item, JobLine, when
from faultwire.simulate.noise import noise
from faultwire.simulate.plan import Plan
from faultwire.simulate.rates import fault_model
from topics.time import from_seconds

DAY_S: Final = 86_400


def items(made: Plan) -> Iterator[Item]:
    """Everything that is said, by event time; the same plan gives the same items."""
    scenario = made.scenario
    steady = Background(
        made.facts,
        made.start,
        made.end,
        interval_s=scenario.heartbeat,
        sample_s=scenario.samples,
        levels=made.levels,
    )
    streams: list[Iterator[Item]] = [iter(made.items), steady.heartbeats(), steady.samples()]
    if scenario.noise:
        random = Random(f"noise/{made.seed}")  # noqa: S311 - repeatable, not secret
        rate = fault_model().noise.edges_per_node_day / DAY_S
        streams.append(noise(made.facts, random, made.start, made.end, rate, made.levels))
    streams.append(merge(*(_steps(a, made.end) for a in made.attempts), key=when))
    return merge(*streams, key=when)


def _steps(a: Attempt, end: int) -> Iterator[JobLine]:
    """The lines of the first rank about each step."""
    node = a.site.name(a.nodes[0])
    stop = end if a.steps_end is None else a.steps_end
    time, number = a.start + from_seconds(STEPS_BEGIN_S), 1
    while time <= stop:
        slow = a.slower_from is not None and time > a.slower_from
        step_s = a.step_s * 2 if slow else a.step_s
        yield JobLine(time, node, a.job_id, a.number, 0, words.step(number, step_s))
        next_slow = a.slower_from is not None and time + from_seconds(a.step_s) > a.slower_from
        time += from_seconds(a.step_s * 2 if next_slow else a.step_s)
        number += 1


def count(made: Plan) -> tuple[int, int]:
    """(events of heartbeats and samples, everything else but noise) that the plan comes to, roughly."""
    scenario, nodes = made.scenario, made.site.nodes
    beats = nodes * scenario.duration / scenario.heartbeat
    samples = nodes * scenario.duration / scenario.samples * 2 * made.site.gpus if scenario.samples else 0
    steps = sum((min(a.steps_end or made.end, made.end) - a.start) / 1e9 / a.step_s for a in made.attempts)
    return int(beats + samples), int(len(made.items) + steps)


def events_in(item: Item) -> int:
    return item.events if isinstance(item, Batch) else 1
