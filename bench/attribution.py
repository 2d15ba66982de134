"""How fast attempts are judged and what they hold in memory, with no Kafka: one core, one thread.

    python -m bench.attribution [--json FILE] [--only CASE]

Measured in the same run, for comparison: the loop that hands the same records over and does nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from bench.harness import main_of_cases, rss_mb
from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from streams.engine.api import SourceRef
from tests.correlator.builders import at, coverage, job, log, outage, xid
from topics.derived import Attribution
from topics.events import Event

FAULT_S = 199.0
"""A GPU falls off the bus here; the rest of the attempt answers to it."""


def crowd(nodes: Sequence[str], count: int, random: Random) -> list[Event[Any]]:
    """What one attempt says in `count` events after it lost a GPU: half of them sockets that closed, a
    quarter watchdogs, the rest what is observed of its nodes, and ports that went down and came back."""
    events: list[Event[Any]] = [xid(79, FAULT_S, nodes[42 % len(nodes)])]
    watchdog = {"seq": 1771, "collective": "ALLREDUCE", "timeout_s": 600.0}
    for number in range(count - 1):
        node, share = random.choice(nodes), number / count
        if share < 0.5:
            peer = f"{random.choice(nodes)}<1234>"
            when = 200 + random.randrange(30_000_000) / 1e6
            events.append(log("nccl.socket_closed", when, node, rank=number, peer=peer))
        elif share < 0.75:
            when = 800 + random.randrange(30_000_000) / 1e6
            events.append(log("pytorch.watchdog_timeout", when, node, rank=number, **watchdog))
        elif share < 0.875:
            events.append(coverage(nodes[number % len(nodes)]))
        else:
            down, device = random.randrange(190_000_000) / 1e6, f"mlx5_{random.randrange(8)}"
            events.append(outage(down, node, device, until=down + 1))
    random.shuffle(events)
    return events


class Judge:
    """A correlator of its own, fed by hand."""

    def __init__(self) -> None:
        self.processor = JobProcessor(CorrelatorSettings(cluster="bench"))
        self.writes = self.state_bytes = 0
        self.largest = 0

    def take(self, key: str, events: Sequence[Event[Any]], now: int) -> list[Any]:
        effects = self.processor.on_record(key, SourceRef("evidence", 0, 0), events, now)
        if effects.state is not None:
            self.writes += 1
            self.state_bytes += len(effects.state)
            self.largest = max(self.largest, len(effects.state))
        return [output.event.data for output in effects.outputs]

    def let_time_pass(self, now: int, until: int) -> list[Any]:
        said: list[Any] = []
        while (due := self.processor.next_due()) is not None and due <= until:
            now = max(now, due)
            for tick in self.processor.on_due(now):
                said += self.take(tick.key, [tick.event], now)
        return said


def one_large_attempt() -> dict[str, Any]:
    """80,000 events over 10,000 nodes, one a record, as the collectors send them when all speak at once."""
    nodes = [f"node-{n:05d}" for n in range(10_000)]
    events = crowd(nodes, 80_000, Random(1))
    judge = Judge()
    judge.take("1", [job("RUNNING", 0, nodes=nodes, job_id="1")], at(0))
    bare = timed(lambda: [nothing("1", [event], 0) for event in events])
    fold = timed(lambda: [judge.take("1", [event], at(900)) for event in events])
    said: list[Any] = []
    ended = job("FAILED", 850, end=at(850), nodes=nodes, job_id="1")

    def to_the_end() -> None:
        said.extend(judge.take("1", [ended], at(900)))
        said.extend(judge.let_time_pass(at(900), at(2000)))

    final = timed(to_the_end)
    verdict = [data for data in said if isinstance(data, Attribution)][-1]
    return {
        "events": len(events), "fold_s": fold, "fold_us_each": fold / len(events) * 1e6, "do_nothing_s": bare,
        "end_to_final_verdict_s": final, "states_written": judge.writes, "largest_state_bytes": judge.largest,
        "verdict": f"{verdict.phase} {verdict.domain}/{verdict.subdomain}",
    }  # fmt: skip


def many_attempts() -> dict[str, Any]:
    """1,000 attempts at once, each of 64 nodes with 512 events of its own, and ten of 10,000 nodes."""
    random = Random(2)
    judge = Judge()
    gc.collect()
    before = rss_mb()
    for number in range(1000):
        name = f"job-{number:04d}"
        nodes = [f"node-{number:04d}-{n:02d}" for n in range(64)]
        judge.take(name, [job("RUNNING", 0, nodes=nodes, job_id=name)], at(0))
        judge.take(name, crowd(nodes, 512, random), at(900))
    small = rss_mb()
    wide = [f"node-{n:05d}" for n in range(10_000)]
    for number in range(10):
        name = f"wide-{number}"
        judge.take(name, [job("RUNNING", 0, nodes=wide, job_id=name)], at(0))
        judge.take(name, crowd(wide, 20_000, random), at(900))
    gc.collect()
    return {
        "rss_before_mb": before, "rss_with_1000_mb": small, "rss_with_ten_wide_more_mb": rss_mb(),
        "largest_state_bytes": judge.largest,
    }  # fmt: skip


def nothing(_key: str, _events: Sequence[Event[Any]], _now: int) -> list[Any]:
    return []


def timed(work: Callable[[], Any]) -> float:
    """Seconds of CPU time."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "one_large_attempt": one_large_attempt,
    "many_attempts": many_attempts,
}


if __name__ == "__main__":
    main_of_cases(CASES, __doc__)
