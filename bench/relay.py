"""A plain aiokafka hop: what it reads on one topic it sends to another. The comparison of `bench.e2e`."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def relay(bootstrap: str, source: str, target: str) -> None:
    consumer = AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", compression_type="lz4"
    )
    await producer.start()
    await consumer.start()
    print("ready", flush=True)
    async for message in consumer:
        await producer.send_and_wait(target, message.value, key=message.key)


if __name__ == "__main__":
    asyncio.run(relay(*sys.argv[1:4]))
