"""No record stops anybody: mutated ones go through each consumer as it reads them from Kafka.

10,000 each in the normal run, a million each with FAULTWIRE_NIGHTLY=1. What a consumer can't read it must
dead-letter or pass over; whatever else it raises would end its process, again and again, at the same offset.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from itertools import islice

import orjson
import pytest

from controllers.journal import Journal
from controllers.judge import judge
from controllers.limits import Entry, Standing
from controllers.limits import Ledger as Limits
from controllers.limits import Limits as LimitSettings
from controllers.quarantine import QuarantineKeeper
from correlator.processor import JobProcessor
from correlator.settings import CorrelatorSettings
from streams.engine.api import Processor
from streams.engine.deadletters import Letters
from streams.engine.ledger import Ledger, Record
from streams.engine.outbox import to_messages
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from tests.chaos.mutants import EXAMPLES, Mutant, mutants
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.derived import Action
from topics.errors import DecodeError
from topics.events import decode
from topics.time import NS_PER_S, parse_rfc3339

RECORDS = 1_000_000 if os.environ.get("FAULTWIRE_NIGHTLY") == "1" else 10_000
NOW = parse_rfc3339("2026-03-14T09:27:00Z")
Take = Callable[[Mutant, int], None]


def core(processor: Processor) -> tuple[Take, Iterable[str]]:
    """As the engine does it: decode, core, outputs to records; timers in between."""
    letters = Letters("alps", processor.name)
    ledger = Ledger(processor, letters)

    def take(mutant: Mutant, number: int) -> None:
        now = NOW + number * NS_PER_S // 20
        step = ledger.apply(Record(mutant.topic, 0, number, mutant.key, mutant.value, now), now)
        to_messages(step.outputs, "t.", letters)
        if number % 16 == 0:
            to_messages(list(ledger.on_due(now)), "t.", letters)

    return take, processor.sources


def controller() -> tuple[Take, Iterable[str]]:
    """Judging and limits, whatever stands on `actions`."""
    limits = Limits(LimitSettings())

    def take(mutant: Mutant, number: int) -> None:
        try:
            event = decode(mutant.value)
        except DecodeError:
            return
        if not isinstance(event.data, Action):
            return
        now = NOW + number
        judge(event, now, (), ("drain",), None)
        action = event.data
        if limits.excess(action.action, action.job_id, action.nodes, now, Standing(frozenset(), 10)) is None:
            limits.add(Entry(now, action.action, action.job_id, tuple(action.nodes)))

    return take, ("actions",)


def journal() -> tuple[Take, Iterable[str]]:
    reading = Journal("slurm", "127.0.0.1:1", "t.", "t.controller-slurm", {})
    return lambda mutant, _: reading._take(mutant.value), ("controller-state",)


def quarantine() -> tuple[Take, Iterable[str]]:
    keeper = QuarantineKeeper("127.0.0.1:1")
    return lambda mutant, _: keeper._read(mutant.value) and None, ("health",)


@pytest.mark.timeout(3600 if RECORDS > 10_000 else 180)
@pytest.mark.parametrize(
    "make",
    [
        lambda: core(NodeProcessor(SignalSettings(cluster="alps"))),
        lambda: core(JobProcessor(CorrelatorSettings(cluster="alps"))),
        controller,
        journal,
        quarantine,
    ],
    ids=["streams", "correlator", "controller", "journal", "quarantine"],
)
def test_no_record_stops_a_consumer(
    make: Callable[[], tuple[Take, Iterable[str]]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # each unreadable one is told
    take, topics = make()
    for number, mutant in enumerate(islice(mutants(20, topics), RECORDS)):
        take(mutant, number)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("gpu", {"remapped_rows": {"histogram": {"none": {"a": 1}, "low": "many"}, "uncorrectable": 1e308}}),
        ("gpu", {"remapped_rows": {"histogram": [1, 2]}}),
        ("throttle", {"gpu_uuid": "GPU of node-07 is away"}),
        ("heartbeat", {"interval_s": 1e308}),
        ("heartbeat", {"interval_s": -1.0}),
        ("heartbeat", {"uptime_s": 1e308}),
        ("nvlink", {"gpu_uuid": "GPU/with/strokes", "state": "inactive"}),
        ("nvlink", {"link": 3000, "state": "active"}),
        ("heartbeat", {"state": {"nvlinks": {"GPU-1/²": "active", "GPU-1/" + "9" * 5000: "active"}}}),
        ("log", {"job_id": "ns/job/7", "code": "training.step"}),
    ],
)
def test_what_the_fuzzing_has_found_once(kind: str, change: dict[str, object]) -> None:
    """Each ended a worker, at every start again: it followed the contract, and nobody had thought of it."""
    take, _ = core(NodeProcessor(SignalSettings(cluster="alps")))
    example = next(e for e in EXAMPLES if e["type"] == f"faultwire.{kind}.v1")
    topic = RAW_TOPIC_OF_KIND[kind]
    for number in range(64):
        at = f"2026-03-14T09:{number % 60:02}:00.000000Z"
        event = {**example, "time": at, "id": f"{number:032x}", "data": {**example["data"], **change}}
        take(Mutant(topic, example["partitionkey"].encode(), orjson.dumps([event])), number)


def test_the_mutants_try_more_than_the_decoder() -> None:
    """Else the fuzzing would say nothing about what stands behind it."""
    read = 0
    for mutant in islice(mutants(20), 2000):
        try:
            decode(mutant.value)
        except DecodeError:
            continue
        read += 1
    assert read > 150  # single events of derived topics alone
