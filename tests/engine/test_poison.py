"""Nothing that anybody writes to a source topic stops a worker: it goes to `dead-letter`, and on it goes."""

from __future__ import annotations

import random
from base64 import b64decode
from collections import Counter, defaultdict

import orjson

from streams.engine.deadletters import MAX_KEPT_BYTES
from tests.engine.counting import kernel_event, output_id
from tests.engine.harness import Fleet, ids
from topics.catalog import TOPICS
from topics.events import decode, encode, encode_batch, to_dict

RAW = [name for name, spec in TOPICS.items() if spec.batched]
TEN_MB = 10 * 1024 * 1024


def poisons(count: int) -> list[tuple[str, bytes, set[str]]]:
    """Topic, value and the reasons that fit it, over all raw topics."""
    rng = random.Random(20)
    good = encode_batch([kernel_event("node-1", 0)])
    wrong = to_dict(kernel_event("node-1", 0))
    kinds = [
        lambda: (rng.randbytes(rng.randrange(1, 2000)), {"not_json", "not_an_event"}),
        lambda: (good[: rng.randrange(1, len(good) - 1)], {"not_json"}),
        lambda: (orjson.dumps([{**wrong, "time": 12.5, "data": {"category": 7}}]), {"wrong_shape"}),
        lambda: (orjson.dumps([{**wrong, "type": "faultwire.surprise.v9"}]), {"unknown_type"}),
        lambda: (orjson.dumps(rng.choice([None, True, 3, "text", [1], [[]]])), {"not_an_event"}),
        lambda: (b"[" * 100_000, {"not_json"}),
    ]
    found = []
    for number in range(count - len(RAW)):
        value, reasons = kinds[number % len(kinds)]()
        found.append((RAW[number % len(RAW)], value, reasons))
    found += [(topic, b'["' + b"x" * TEN_MB + b'"]', {"too_large"}) for topic in RAW]
    return found


async def test_a_thousand_poisoned_records_are_dead_letters_and_the_next_good_one_is_processed(
    workers: Fleet,
) -> None:
    sent = poisons(1000)
    async with workers.kafka.producer() as producer:
        for number, (topic, value, _) in enumerate(sent):
            future = await producer.send(workers.prefix + topic, value, key=f"node-{number % 7}".encode())
            if len(value) > TEN_MB:  # a broker refuses requests of more than 100 MB
                await future
        await producer.flush()
    good = [kernel_event("node-3", f"good-{topic}") for topic in RAW]
    for topic, event in zip(RAW, good, strict=True):
        await workers.kafka.send_events(workers.prefix + topic, [event])

    worker = await workers.start("every-raw-topic")
    told = ids(await workers.kafka.read(workers.prefix + "signals", len(RAW), timeout_s=60))
    assert set(told) == {output_id(event.id) for event in good}
    letters = [decode(r.value).data for r in await workers.kafka.read(workers.prefix + "dead-letter", 1000)]
    assert len({(a.topic, a.partition, a.offset) for a in letters}) == 1000
    assert Counter(a.topic for a in letters) == Counter(topic for topic, _, _ in sent)
    reasons: defaultdict[bytes, set[str]] = defaultdict(set)
    for _, value, fitting in sent:
        reasons[value[:MAX_KEPT_BYTES]] |= fitting
    for letter in letters:
        kept = b64decode(letter.value)
        assert letter.reason in reasons[kept], letter
        assert letter.kept_bytes == len(kept) <= letter.size_bytes
    assert max(a.size_bytes for a in letters) > TEN_MB
    assert worker.process.returncode is None


async def test_one_bad_event_of_a_batch_does_not_take_its_neighbours_with_it(workers: Fleet) -> None:
    before, after = kernel_event("node-1", 1), kernel_event("node-1", 2)
    other = kernel_event("node-2", 3)  # says that it belongs to another node
    value = b"[" + b",".join([encode(before), b'{"type": "nonsense"}', encode(other), encode(after)]) + b"]"
    await workers.kafka.send(workers.prefix + "raw.node", [value], key="node-1")
    await workers.start()
    told = ids(await workers.kafka.read(workers.prefix + "signals", 2))
    assert told == [output_id(before.id), output_id(after.id)]
    [letter] = [decode(r.value).data for r in await workers.kafka.read(workers.prefix + "dead-letter", 1)]
    assert letter.reason == "unknown_type"
    assert "node-2" in letter.error


async def test_records_without_a_key_or_a_value(workers: Fleet) -> None:
    raw = workers.prefix + "raw."
    value = encode_batch([kernel_event("node-1", 1)])
    await workers.kafka.send(raw + "node", [value], partition=0)  # no key
    await workers.kafka.send(raw + "node", [None], key="node-1")  # nothing is deleted from an event log
    await workers.kafka.send(raw + "placement", [None], key="node-1")  # how a compacted topic deletes
    await workers.kafka.send(raw + "placement", [value], key="node-1")
    worker = await workers.start("every-raw-topic")
    assert len(await workers.kafka.read(workers.prefix + "signals", 1)) == 1
    letters = [decode(r.value).data for r in await workers.kafka.read(workers.prefix + "dead-letter", 2)]
    assert sorted(a.reason for a in letters) == ["no_key", "no_value"]
    assert await worker.metric("tombstones") == 1


async def test_an_output_too_large_for_its_readers_becomes_a_dead_letter(workers: Fleet) -> None:
    wide, next_one = kernel_event("node-1", 1, "wide"), kernel_event("node-1", 2)
    await workers.kafka.send_events(workers.prefix + "raw.node", [wide, next_one])
    await workers.start()
    assert ids(await workers.kafka.read(workers.prefix + "signals", 1)) == [output_id(next_one.id)]
    [letter] = [decode(r.value).data for r in await workers.kafka.read(workers.prefix + "dead-letter", 1)]
    assert (letter.topic, letter.reason) == ("signals", "output_too_large")
    assert output_id(wide.id) in letter.error


async def test_a_record_on_the_wrong_partition_is_moved_to_that_of_its_key(workers: Fleet) -> None:
    """Clients of librdkafka partition by another hash unless told otherwise."""
    topic = workers.prefix + "raw.node"
    events = [kernel_event("node-1", number) for number in range(4)]
    for partition, event in enumerate(events):
        await workers.kafka.send(topic, [encode_batch([event])], key="node-1", partition=partition)
    first = await workers.start()
    await workers.start()
    told = await workers.kafka.read(workers.prefix + "signals", 4)
    assert sorted(ids(told)) == sorted(output_id(event.id) for event in events)
    assert len({decode(record.value).data.detail["who"] for record in told}) == 1  # one worker, one state
    await workers.come_to({"node-1": 4})
    assert first.process.returncode is None
