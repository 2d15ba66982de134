"""Port downtime as one writes it first in Faust: an agent, a table for each thing to remember.

Stock Faust in every respect: one event a record, `table[key] = value`, `topic.send`. Used by `bench.rivals`.
"""

from __future__ import annotations

import sys

import faust

WINDOW_S = 60.0


def build(bootstrap: str, source: str, target: str, folder: str) -> faust.App:
    app = faust.App(
        f"naive-{target}",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        topic_partitions=4,
        topic_replication_factor=1,
        consumer_auto_offset_reset="earliest",
        web_enabled=False,
        datadir=folder,
        value_serializer="json",
    )
    transitions = app.topic(source, value_type=None, value_serializer="json", key_serializer="raw")
    signals = app.topic(target, value_serializer="json", key_serializer="raw")
    down_since = app.Table("down-since", default=float, partitions=4)
    downtime = app.Table("downtime", default=list, partitions=4)
    flaps = app.Table("flaps", default=int, partitions=4)
    last_state = app.Table("last-state", default=str, partitions=4)

    @app.agent(transitions)
    async def watch(stream: faust.StreamT) -> None:
        async for key, events in stream.items():
            for event in events:
                port = f"{event['partitionkey']}/{event['data']['device']}"
                at, state = float(event["data"]["counters"]["at_ms"]) / 1000, event["data"]["state"]
                last_state[port] = state
                if state != "ACTIVE":
                    down_since[port] = at
                    flaps[port] += 1
                    continue
                spans = [s for s in downtime[port] if s[1] > at - WINDOW_S]
                spans.append((down_since[port], at))
                downtime[port] = spans
                total = sum(end - max(begin, at - WINDOW_S) for begin, end in spans)
                await signals.send(key=key, value={"port": port, "downtime_s": total, "flaps": flaps[port]})

    return app


if __name__ == "__main__":
    _, bootstrap, source, target, folder = sys.argv
    app = build(bootstrap, source, target, folder)
    faust.Worker(app, loglevel="warning").execute_from_commandline()
