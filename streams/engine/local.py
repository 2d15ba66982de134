"""Run cores in memory: the same code as on Kafka, without Kafka.

Used by `faultwire replay` (event time drives), by tests, and by the demo where no broker can be had.
Records are handed to every core that reads their topic; a core's outputs on a topic that another core
reads go there in turn. Output ids already seen are dropped, as a subscriber would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from streams.engine.api import Output, Processor, SourceRef
from streams.engine.due import Due
from topics.events import Event


class LocalRuntime:
    """An in-process stand-in for the broker and the workers.

    `on_output` sees each distinct output once, in the order in which it came to be.
    """

    def __init__(
        self, processors: Sequence[Processor], on_output: Callable[[Output, int], None] | None = None
    ) -> None:
        self._processors = tuple(processors)
        self._due = {p.name: Due(p) for p in self._processors}
        self._on_output = on_output
        self._readers: dict[str, list[Processor]] = {}
        for processor in self._processors:
            for topic in processor.sources:
                self._readers.setdefault(topic, []).append(processor)
        self._queue: deque[tuple[str, str, Sequence[Event[Any]], int]] = deque()
        self._offsets: dict[str, int] = {}
        self._seen: set[str] = set()
        self._running = False

    def publish(self, topic: str, key: str, events: Sequence[Event[Any]], now: int) -> None:
        """Hand one record in and everything that follows from it through, at time `now`."""
        self._queue.append((topic, key, events, now))
        self._drain()

    def advance(self, until: int, only: Sequence[str] | None = None) -> None:
        """Fire every deadline up to `until`, each at its own time.

        `only` names the cores whose clock goes on: after the last record of a replay nobody listens to
        the nodes any more, so their silence means nothing, while verdicts still have to be finished.
        """
        clocks = [p for p in self._processors if only is None or p.name in only]
        while (due := _earliest(clocks)) is not None and due <= until:
            for processor in clocks:
                for output in self._due[processor.name].whole(due):
                    self._emit(output, due)
            self._drain()

    def next_due(self) -> int | None:
        """The earliest deadline of any core, in nanoseconds since the epoch."""
        return _earliest(self._processors)

    def _drain(self) -> None:
        """Deliver until nothing is waiting; a call from within (`on_output` publishing) only queues."""
        if self._running:
            return
        self._running = True
        try:
            while self._queue:
                self._deliver(*self._queue.popleft())
        finally:
            self._running = False

    def _deliver(self, topic: str, key: str, events: Sequence[Event[Any]], now: int) -> None:
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        source = SourceRef(topic, 0, offset, now)
        for processor in self._readers.get(topic, ()):
            for output in processor.on_record(key, source, events, now).outputs:
                self._emit(output, now)

    def _emit(self, output: Output, now: int) -> None:
        identity = f"{output.topic} {output.key} {output.event.id} {output.event.attempt}"
        if identity in self._seen:
            return
        self._seen.add(identity)
        if self._on_output is not None:
            self._on_output(output, now)
        if output.topic in self._readers:
            self._queue.append((output.topic, output.key, (output.event,), now))


def _earliest(processors: Sequence[Processor]) -> int | None:
    return min((due for p in processors if (due := p.next_due()) is not None), default=None)
