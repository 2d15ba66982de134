"""The final verdict is a function of the set of evidence: order, repeats, batches and restarts don't show."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from streams.engine.api import SourceRef
from tests.captures.harness import AFTER_NS, Ran, run
from topics.derived import Attribution
from topics.events import Event

NAMES = [
    "xid48-double-bit",
    "xid149-blames-the-peer",
    "outage-45s-nccl-2.27",
    "outage-only-in-the-workload-log",
    "leaf-switch-dies",
    "two-faults-well-apart",
    "rank-never-joins",
    "loss-becomes-nan",
    "shared-file-system-hangs",
    "power-loss",
    "second-attempt-succeeds",
    "time-limit-of-a-healthy-run",
]


def finals(
    ran: Ran, job: str, batches: list[list[Event[Any]]], restart_at: frozenset[int] = frozenset()
) -> dict[int, str]:
    """Attempt -> its final verdict as written, after handing the batches in and letting time pass."""
    settings = CorrelatorSettings(cluster=ran.cluster)
    processor = JobProcessor(settings)
    said: dict[int, str] = {}
    state: bytes | None = None

    def hand_in(events: list[Event[Any]], now: int) -> None:
        nonlocal state
        effects = processor.on_record(job, SourceRef("evidence", 0, 0), events, now)
        state = effects.state if effects.state is not None else state
        for output in effects.outputs:
            if isinstance(output.event.data, Attribution) and output.event.data.phase == "final":
                said[output.event.data.attempt] = output.event.data.model_dump_json()

    for number, batch in enumerate(batches):
        if number in restart_at and state is not None:
            processor = JobProcessor(settings)
            processor.load(job, state)
        hand_in(batch, ran.end)
    while (due := processor.next_due()) is not None and due <= ran.end + AFTER_NS:
        for output in processor.on_due(due):
            hand_in([output.event], max(due, ran.end))
    return said


def shuffled(events: list[Event[Any]], rng: random.Random, *, most: int = 7) -> list[list[Event[Any]]]:
    """The same events in another order, some of them twice, in batches of different sizes."""
    mixed = [*events, *rng.sample(events, len(events) // 2)]
    rng.shuffle(mixed)
    batches = []
    while mixed:
        size = rng.randint(1, most)
        batches.append(mixed[:size])
        del mixed[:size]
    return batches


@pytest.mark.parametrize("name", NAMES)
def test_the_final_verdict_is_the_same_bytes_in_any_order(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path)
    for job, events in ran.evidence.items():
        plain = finals(ran, job, [[e] for e in events])
        assert plain, f"no final verdict on {job}"

        assert finals(ran, job, [events]) == plain, "chunk by chunk differs from all at once"
        for seed in range(4):
            rng = random.Random(f"{name}/{seed}")
            batches = shuffled(events, rng)
            restarts = frozenset(rng.sample(range(len(batches)), min(3, len(batches))))
            assert finals(ran, job, batches, restarts) == plain, f"seed {seed}"


@pytest.mark.parametrize("name", ["ib-port", "job-first"])
def test_evidence_before_the_job_record_counts_as_much_as_after_it(name: str, tmp_path: Path) -> None:
    ran = run("outage-45s-nccl-2.27", tmp_path)
    (job, events), *_ = ran.evidence.items()
    records = [e for e in events if e.kind == "job"]
    others = [e for e in events if e.kind != "job"]
    first, second = (others, records) if name == "ib-port" else (records, others)

    assert finals(ran, job, [first, second]) == finals(ran, job, [events])
