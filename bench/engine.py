"""What the engine costs on a real broker: throughput, latency, recovery, beside plain aiokafka.

Run: `python -m bench.engine [throughput] [latency] [recovery] [--json] [--stock-drain]`. Starts a broker
unless FAULTWIRE_BOOTSTRAP names one. The core is the counting one of the tests: it does next to nothing, so
what is measured is the engine. The comparison, in the same run, is a loop that reads with aiokafka and
sends one record for each that it read, without state, offsets or ids.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiokafka import AIOKafkaConsumer

from faultwire import broker
from tests.engine.counting import Counting, kernel_event, output_id
from tests.engine.harness import Fleet, Worker, fleet
from tests.kafka import Kafka
from topics.events import decode, decode_record, encode, encode_batch

Result = dict[str, float | str]
PARTITIONS = 16


async def produce(
    workers: Fleet, records: int, keys: int, message: Callable[[int], str], events: int = 1, start: int = 0
) -> None:
    """Write records of some events each to `raw.node`, keyed in turn."""
    async with workers.kafka.producer(linger_ms=20, max_batch_size=1 << 18) as producer:
        for number in range(start, start + records):
            key = f"node-{number % keys:05}"
            batch = [kernel_event(key, f"{number}-{part}", message(part)) for part in range(events)]
            await producer.send(workers.prefix + "raw.node", encode_batch(batch), key=key.encode())
        await producer.flush()


async def throughput(workers: Fleet, switches: tuple[str, ...]) -> list[Result]:
    """A backlog of records of 20 events each; every record changes the state, one in ten has an output."""
    found: list[Result] = []
    for name, message in {
        "state written": lambda _: "count",
        "nothing changed": lambda _: "quiet",
        "state and output": lambda part: "count" if part else "emit",
    }.items():
        records = 10_000
        async with another(workers) as own:
            await produce(own, records, 1000, message, events=20)
            worker = await own.start(*switches)
            await worker.reaches("records", 1, timeout_s=60)
            begin, first = time.perf_counter(), await worker.metric("records")
            cpu = await cpu_seconds(worker)
            await worker.reaches("records", records, timeout_s=120, every_s=0.2)
            took = time.perf_counter() - begin
            cpu = await cpu_seconds(worker) - cpu
            done = records - first
            found.append(
                {
                    "what": f"backlog, 20 events a record, {name}",
                    "records/s": round(done / took),
                    "events/s": round(20 * done / took),
                    "CPU us/record": round(cpu / done * 1e6),
                }
            )
    return found


async def latency(workers: Fleet, switches: tuple[str, ...]) -> list[Result]:
    """Records of one event, each giving a state and an output; from the acknowledgement of the record to the
    reception of the output."""
    found: list[Result] = []
    for rate in (100, 1000):
        async with another(workers) as own:
            worker = await own.start(*switches)
            await worker.ready()
            cpu = await cpu_seconds(worker)
            engine = await measure_latency(own, own.prefix + "signals", rate)
            cpu = await cpu_seconds(worker) - cpu
            per_record = round(cpu / await worker.metric("records_total") * 1e6)
        async with another(workers) as own:
            task = asyncio.create_task(pass_through(own))
            plain = await measure_latency(own, own.prefix + "signals", rate)
            task.cancel()
        found += [
            {"what": f"{rate} events/s through the engine", **engine, "CPU us/record": per_record},
            {"what": f"{rate} events/s through plain aiokafka", **plain},
        ]
    return found


async def measure_latency(own: Fleet, topic: str, rate: int, seconds: float = 15.0) -> Result:
    acked: dict[str, float] = {}
    got: dict[str, float] = {}
    total = int(rate * seconds)

    async def read(consumer: AIOKafkaConsumer) -> None:
        while len(got) < total:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                now = time.perf_counter()
                for record in records:
                    got[decode(record.value).id] = now

    async with own.kafka.consumer(topic) as consumer, own.kafka.producer() as producer:
        reader = asyncio.create_task(read(consumer))
        begin = time.perf_counter()
        for number in range(total):
            event = kernel_event(f"node-{number % 500:03}", number, "emit")
            wanted = output_id(event.id)
            future = await producer.send(
                own.prefix + "raw.node", encode_batch([event]), key=event.partitionkey.encode()
            )
            future.add_done_callback(lambda _, id=wanted: acked.setdefault(id, time.perf_counter()))
            ahead = begin + number / rate - time.perf_counter()
            if ahead > 0.001:
                await asyncio.sleep(ahead)
        try:
            await asyncio.wait_for(reader, 30)
        except TimeoutError:
            print(f"only {len(got)} of {total} outputs came")
    skip = int(rate * 2)  # connections warm up
    took = sorted((got[id] - at) * 1000 for id, at in list(acked.items())[skip:] if id in got)
    return {
        "p50 ms": round(took[len(took) // 2], 2),
        "p99 ms": round(took[len(took) * 99 // 100], 2),
        "max ms": round(took[-1], 2),
    }


async def pass_through(own: Fleet) -> None:
    """One aiokafka loop: read, send, in batches; decoding and building the output as the core does."""
    async with own.kafka.consumer(own.prefix + "raw.node") as consumer, own.kafka.producer() as producer:
        core = Counting()
        while True:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    key = (record.key or b"").decode()
                    events, _ = decode_record(record.value)
                    for output in core.on_record(key, None, events, 0).outputs:  # type: ignore[arg-type]
                        await producer.send(own.prefix + "signals", encode(output.event), key=record.key)


async def recovery(workers: Fleet, switches: tuple[str, ...]) -> list[Result]:
    """12,500 keys of 2 KB; one of two workers goes by SIGKILL, then SIGTERM, until its keys speak again."""
    keys, found = 12_500, []
    padding = "x" * 2000
    async with another(workers) as own:
        await produce(own, keys, keys, lambda _: f"keep {padding}")
        first, second = await own.start(*switches, **PRODUCTION), await own.start(*switches, **PRODUCTION)
        await first.ready()
        await second.ready()
        await own.drained(120)
        for how in ("SIGKILL", "SIGTERM"):
            silence = asyncio.create_task(longest_silence(own, 40 if how == "SIGKILL" else 20))
            await asyncio.sleep(3)
            if how == "SIGKILL":
                await second.kill()
            else:
                await second.stop()
            gap = await silence
            found.append(
                {"what": f"one of two workers, {keys} keys, {how}", "longest silence s": round(gap, 2)}
            )
            second = await own.start(*switches, **PRODUCTION)
            await second.ready()
            await asyncio.sleep(3)
        await second.stop()
        begin = time.perf_counter()
        second = await own.start(*switches, **PRODUCTION)
        await second.ready()
        found.append(
            {"what": "start of the second worker until ready", "s": round(time.perf_counter() - begin, 2)}
        )
    return found


PRODUCTION: dict[str, Any] = {
    "session_timeout_s": 10.0, "heartbeat_interval_s": 2.0, "commit_interval_s": 1.0,
}  # fmt: skip


async def longest_silence(own: Fleet, seconds: float) -> float:
    """Probes for keys of all partitions each 100 ms; the longest that any of them waited for its output."""
    sent: dict[str, float] = {}
    worst = 0.0
    until = time.perf_counter() + seconds
    async with own.kafka.consumer(own.prefix + "signals") as consumer, own.kafka.producer() as producer:
        await consumer.seek_to_end()
        run, number = uuid4().hex[:6], 0
        while sent or time.perf_counter() < until:
            if time.perf_counter() < until:
                for key in range(40):
                    event = kernel_event(f"node-{key:05}", f"{run}-{number}-{key}", "quiet-emit")
                    sent[output_id(event.id)] = time.perf_counter()
                    await producer.send(
                        own.prefix + "raw.node", encode_batch([event]), key=event.partitionkey.encode()
                    )
                number += 1
            for records in (await consumer.getmany(timeout_ms=100)).values():
                now = time.perf_counter()
                for record in records:
                    worst = max(worst, now - sent.pop(decode(record.value).id, now))
            await asyncio.sleep(0.05)
    return worst


async def cpu_seconds(worker: Worker) -> float:
    _, page = await worker.get("metrics")
    return next(
        float(x.rsplit(" ", 1)[1]) for x in page.splitlines() if x.startswith("process_cpu_seconds_total")
    )


@asynccontextmanager
async def another(workers: Fleet) -> AsyncIterator[Fleet]:
    """The same, over fresh topics."""
    prefix = f"bench{uuid4().hex[:8]}."
    await workers.kafka.create_catalogue(prefix, partitions=PARTITIONS)
    folder = workers.folder / prefix
    folder.mkdir()
    async with fleet(workers.kafka, prefix, folder) as own:
        yield own
    await workers.kafka.delete_prefix(prefix)


PARTS: dict[str, Callable[[Fleet, tuple[str, ...]], Coroutine[Any, Any, list[Result]]]] = {
    "throughput": throughput, "latency": latency, "recovery": recovery,
}  # fmt: skip


async def run(bootstrap: str, parts: list[str], switches: tuple[str, ...]) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        workers = Fleet(Kafka(bootstrap), "", Path(folder))
        return [result for part in parts for result in await PARTS[part](workers, switches)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stock-drain", action="store_true", help="Faust's own drain loop instead of ours")
    told = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    with broker.ensure(jvm=broker.SERVING) as running:
        switches = ("stock-drain",) if told.stock_drain else ()
        results = asyncio.run(run(running.bootstrap, told.parts or list(PARTS), switches))
    machine = {
        "cpus": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine(),
        "load": os.getloadavg()[0],
    }  # fmt: skip
    if told.json:
        print(json.dumps({"machine": machine, "results": results}, indent=2))
        return
    print(machine)
    for result in results:
        print("  ".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
