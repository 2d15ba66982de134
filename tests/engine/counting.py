"""A core for the engine's own tests: it counts, naively, and does what the events' messages tell it.

The count has no defence against repeats of its own, so it is exact only if the engine applies every record
to the surviving state exactly once. Messages: `emit` gives an output whose id is the event's; `due <ns>`
opens a deadline, `off <ns>` ends it, `far <n>` opens that many in the year 2100; `boom` raises; `quiet` and
`quiet-emit` change nothing; `keep <text>` keeps it in the state; `forget` deletes the key; `wide` gives an
output that is too large to send.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from typing import Any

from streams.engine.api import NOTHING, Effects, Output, SourceRef
from topics.derived import Signal
from topics.events import Event, make
from topics.ids import fact_id
from topics.payloads import Kernel

RETRY_NS = 50_000_000
FAR_NS = 4_102_444_800_000_000_000


class BoomError(Exception):
    """What a defect in a core looks like."""


class Counting:
    name = "counting"
    sources: tuple[str, ...] = ("raw.node", "raw.check")

    def __init__(self, who: str = "test") -> None:
        self.who = who
        self.state: dict[str, dict[str, Any]] = {}
        self._heap: list[tuple[int, str]] = []
        self._open: set[tuple[int, str]] = set()
        self._unread: Mapping[int, int] = {}
        self._again = 0

    def on_record(
        self,
        key: str,
        source: SourceRef,  # noqa: ARG002
        events: Sequence[Event[Any]],
        now: int,  # noqa: ARG002
    ) -> Effects:
        state = self.state.get(key)
        outputs: list[Output] = []
        changed = False
        for event in events:
            word, _, argument = getattr(event.data, "message", "").partition(" ")
            if word == "boom":
                raise BoomError(event.id)
            if word == "forget":
                self.drop(key)
                return Effects([self._signal(key, event.id, event.time)], delete=True)
            if word in {"emit", "quiet-emit"}:
                outputs.append(self._signal(key, event.id, event.time))
            if word == "wide":
                outputs.append(self._signal(key, event.id, event.time, detail={"wide": "x" * 2_000_000}))
            if word.startswith("quiet"):
                continue
            state = self.state.setdefault(key, {"count": 0, "due": []})
            state["count"] += 1
            changed = True
            if word == "keep":
                state["kept"] = argument
            if word == "far":
                state["far"] = int(argument)
                self._await_far(key, state)
            if word == "due":
                state["due"].append(int(argument))
                self._await(key, int(argument))
            if word == "off":
                self._open.discard((int(argument), key))
        if not changed or state is None:
            return Effects(outputs) if outputs else NOTHING
        return Effects(outputs, json.dumps(state).encode())

    def on_due(self, now: int) -> Sequence[Output]:
        outputs = []
        come = min([now, *self._unread.values()])
        self._again = now + RETRY_NS if come < now else 0
        while (due := self._first()) is not None and due <= come:
            entry = heapq.heappop(self._heap)
            self._open.discard(entry)
            key = entry[1]
            outputs.append(self._signal(key, fact_id("due", key, due), due))
        return outputs

    def next_due(self) -> int | None:
        due = self._first()
        return None if due is None else max(due, self._again)

    def _first(self) -> int | None:
        while self._heap and self._heap[0] not in self._open:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def unread(self, partitions: Mapping[int, int]) -> None:
        self._unread = partitions

    def load(self, key: str, state: bytes) -> None:
        self.state[key] = json.loads(state)
        for due in self.state[key]["due"]:
            self._await(key, due)
        self._await_far(key, self.state[key])

    def drop(self, key: str) -> None:
        state = self.state.pop(key, {"due": []})
        for due in (*state["due"], *_far(state)):
            self._open.discard((due, key))

    def _await_far(self, key: str, state: dict[str, Any]) -> None:
        for due in _far(state):
            self._await(key, due)

    def _await(self, key: str, due: int) -> None:
        self._open.add((due, key))
        heapq.heappush(self._heap, (due, key))

    def _signal(self, key: str, id: str, time: int, detail: dict[str, Any] | None = None) -> Output:
        data = Signal(
            signal="counted",
            entity="node",
            state="open",
            severity="info",
            since=time,
            unit="1",
            evidence=[id],
            detail=detail or {"who": self.who},
        )
        event = make(
            data, id=fact_id("counted", id), source="/test/counting", subject="node", time=time, key=key
        )
        return Output("signals", key, event)


def _far(state: dict[str, Any]) -> range:
    return range(FAR_NS, FAR_NS + state.get("far", 0))


def output_id(event_id: str) -> str:
    """The id of the output that an `emit` event causes."""
    return fact_id("counted", event_id)


def kernel_event(
    key: str, number: int | str, message: str = "emit", time: int = 1_700_000_000_000_000_000
) -> Event[Any]:
    data = Kernel(category="other", message=message)
    return make(data, id=f"{key}-{number}", source=f"/test/{key}/kmsg", subject="node", time=time, key=key)
