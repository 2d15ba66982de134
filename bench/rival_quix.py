"""Port downtime in Quix Streams: a stateful function over a keyed stream. Used by `bench.rivals`.

Runs in an environment of its own (`requirements-bench.lock`) and imports nothing of this project.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application, State

WINDOW_S = 60.0


def watch(events: list[dict[str, Any]], state: State) -> dict[str, Any] | None:
    """The downtime of the port's last minute when it comes back, else None."""
    told = None
    for event in events:
        port = event["data"]["device"]
        at, now = float(event["data"]["counters"]["at_ms"]) / 1000, event["data"]["state"]
        known = state.get(port, default={"since": 0.0, "spans": [], "flaps": 0})
        if now != "ACTIVE":
            known["since"] = at
            known["flaps"] += 1
        else:
            known["spans"] = [s for s in known["spans"] if s[1] > at - WINDOW_S] + [[known["since"], at]]
            total = sum(end - max(begin, at - WINDOW_S) for begin, end in known["spans"])
            told = {"port": port, "downtime_s": total, "flaps": known["flaps"]}
        state.set(port, known)
    return told


def main() -> None:
    _, bootstrap, source, target, folder = sys.argv
    app = Application(
        broker_address=bootstrap, consumer_group=f"quix-{target}", auto_offset_reset="earliest",
        state_dir=folder, loglevel="WARNING",
    )  # fmt: skip
    frame = app.dataframe(app.topic(source, value_deserializer="json"))
    frame = frame.apply(watch, stateful=True).filter(lambda told: told is not None)
    frame.to_topic(app.topic(target, value_serializer="json"))
    app.run()


if __name__ == "__main__":
    main()
