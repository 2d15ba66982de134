"""Raw events that the agents sent."""

from __future__ import annotations

from collectors.stores.bounds import Meter
from collectors.stores.kafka import KafkaFetch
from faultwire.blueprint.gather import Connector, Gathering
from faultwire.blueprint.settings import KafkaCollect


class KafkaConnector(Connector):
    kind = "kafka"

    def __init__(self, name: str, settings: KafkaCollect) -> None:
        super().__init__(name, settings.bounds, "events")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        kafka = gathering.kafka
        fetch = KafkaFetch(
            self._settings.bootstrap or kafka.bootstrap,
            self._settings.prefix if self._settings.prefix is not None else kafka.prefix,
            meter,
            kafka.options,
        )
        report = self.found.report
        keys = frozenset(gathering.names.nodes)
        for span in gathering.spans:
            async for events in fetch.events(span, keys):
                for event in events:
                    self.found.events.append(event.model_copy(update={"provenance": "replay"}))
                    report.nodes[event.partitionkey] = report.nodes.get(event.partitionkey, 0) + 1
        report.kept = len(self.found.events)
        if fetch.unreadable:
            report.problem(f"{fetch.unreadable} events could not be read")
