"""Lines from Loki, and which nodes' logs it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.http import StoreClient
from collectors.stores.loki import LokiFetch
from collectors.stores.names import NodeNames
from collectors.stores.slices import SliceCache, Span
from faultwire.blueprint.connectors.reading import Reading
from faultwire.blueprint.gather import Connector, Gathering
from faultwire.blueprint.query import fill, uses
from faultwire.blueprint.settings import LokiCollect
from topics.time import from_seconds


class LokiConnector(Connector):
    kind = "loki"

    def __init__(self, name: str, settings: LokiCollect) -> None:
        super().__init__(name, settings.bounds, settings.content)
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        settings = self._settings
        many = uses(settings.query, "nodes")
        groups = gathering.groups(settings.nodes_a_query) if many else [list(gathering.names.nodes)]
        total = sum(span.length for span in gathering.spans) * len(groups)
        done = 0

        def on_slice(span: Span) -> None:
            nonlocal done
            done += span.length
            gathering.progress(self.name, done / total if total else 1.0, meter.lines)

        async with StoreClient(settings.store, meter) as client:
            for nodes in groups:
                query = fill(settings.query, gathering.values(nodes))
                fetch = LokiFetch(
                    client,
                    query,
                    settings.limit,
                    from_seconds(settings.slice_s),
                    self._cache(gathering, query),
                    on_slice,
                )
                reading = Reading(settings.content, settings.rules, gathering, self.found)
                for span in gathering.spans:
                    async for page in fetch.lines(span):
                        reading.feed(page, f"loki:{self.name}")
                reading.end()
                for gap in fetch.gaps:
                    self.gap(gap)
                for loss in fetch.losses:
                    self.found.report.problem(loss)
                await self._streams(fetch, nodes, gathering)

    async def _streams(self, fetch: LokiFetch, nodes: Sequence[str], gathering: Gathering) -> None:
        """Of nodes without a line: whether their log was kept at all. A quiet kernel says little."""
        missing = [node for node in nodes if node not in self.found.report.nodes]
        within = from_seconds(self._settings.streams_within_s)
        if not missing or not within or self._settings.content != "kernel" or fetch.gaps:
            return
        span = Span(gathering.spans[0].start - within, gathering.spans[-1].end)
        try:
            kept = await fetch.streams(span)
        except StoreError as exc:
            self.found.report.problem(f"streams of the nodes without lines: {exc}")
            return
        names = NodeNames(gathering.names.nodes, self._settings.rules.node_labels)
        self.found.alive |= {node for labels in kept if (node := names.of(labels)) in missing and node}

    def _cache(self, gathering: Gathering, query: str) -> SliceCache | None:
        if gathering.work is None:
            return None
        store = self._settings.store
        return SliceCache(gathering.work, ("loki", store.url, store.tenant or "", query), gathering.now)
