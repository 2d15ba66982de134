"""Samples from a store that speaks PromQL."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.http import StoreClient
from collectors.stores.metric_table import MetricTable, MetricTableError, packaged, read_table
from collectors.stores.names import NodeNames
from collectors.stores.promql import PromFetch, selector
from collectors.stores.promql_answers import Series, joined, squeezed
from collectors.stores.slices import Span
from faultwire.blueprint.gather import Connector, Gathering
from faultwire.blueprint.query import fill
from faultwire.blueprint.settings import PromCollect
from topics.time import NS_PER_S, from_seconds

WHOLE: Final = frozenset({"up"})
"""Tells when a node was scraped: all of it is kept."""
SQUEEZE_NS: Final = 60 * NS_PER_S
"""Of other series, what says nothing new is kept this often: a fleet's samples fill the memory otherwise."""


class PromConnector(Connector):
    kind = "promql"

    def __init__(self, name: str, settings: PromCollect) -> None:
        super().__init__(name, settings.bounds, "metrics")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        settings = self._settings
        families = _families(settings)
        groups = gathering.groups(settings.nodes_a_query)
        total = sum(span.length for span in gathering.spans) * len(groups) * len(families)
        done = 0

        def on_slice(span: Span) -> None:
            nonlocal done
            done += span.length
            gathering.progress(self.name, done / total if total else 1.0, meter.lines)

        pieces: list[Series] = []
        async with StoreClient(settings.store, meter) as client:
            for family, names in families.items():
                for nodes in groups:
                    matchers = fill(settings.families[family], gathering.values(nodes))
                    fetch = PromFetch(
                        client,
                        selector(names, matchers),
                        settings.way,
                        settings.step_s,
                        from_seconds(settings.slice_s),
                        on_slice,
                    )
                    for span in gathering.spans:
                        async for answer in fetch.series(span):
                            pieces += [s if s.name in WHOLE else squeezed(s, SQUEEZE_NS) for s in answer]
                    for gap in fetch.gaps:
                        self.gap(gap)
                    for warning in fetch.warnings:
                        self.found.report.problem(f"the store warns: {warning}")
        self.found.series = joined(pieces)
        self.found.report.kept = len(self.found.series)
        names_of = NodeNames(gathering.names.nodes, settings.node_labels)
        for series in self.found.series:
            node = names_of.of(series.labels)
            if node is not None:
                self.found.report.nodes[node] = self.found.report.nodes.get(node, 0) + 1


def _families(settings: PromCollect) -> dict[str, list[str]]:
    """Metrics by family, of the packaged table and the site's own."""
    families = packaged().families()
    for family, names in _own_table(settings.table).families().items():
        families.setdefault(family, []).extend(names)
    unknown = settings.families.keys() - families.keys()
    if unknown:
        raise StoreError(f"no metric is of the family {', '.join(sorted(unknown))}")
    return {family: names for family, names in families.items() if family in settings.families}


def _own_table(path: Path | None) -> MetricTable:
    if path is None:
        return MetricTable({})
    try:
        return read_table(tomllib.loads(path.read_text("utf-8")))
    except (OSError, tomllib.TOMLDecodeError, MetricTableError) as exc:
        raise StoreError(f"{path}: {exc}") from exc
