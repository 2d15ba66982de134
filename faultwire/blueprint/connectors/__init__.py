"""The connectors: each fetches from one store and hands what it got to the mapping that is pure."""

from __future__ import annotations

from collections.abc import Sequence

from faultwire.blueprint.connectors.files import FilesConnector
from faultwire.blueprint.connectors.kafka import KafkaConnector
from faultwire.blueprint.connectors.loki import LokiConnector
from faultwire.blueprint.connectors.pods import PodsConnector
from faultwire.blueprint.connectors.promql import PromConnector
from faultwire.blueprint.gather import Connector
from faultwire.blueprint.settings import (
    Collect,
    FilesCollect,
    KafkaCollect,
    LokiCollect,
    PodsCollect,
    PromCollect,
)


def build(collects: Sequence[Collect]) -> list[Connector]:
    """One connector for each `[[collect]]`, with a name of its own."""
    made: list[Connector] = []
    for number, collect in enumerate(collects, 1):
        name = collect.name or f"{collect.kind} {number}"
        match collect:
            case LokiCollect():
                made.append(LokiConnector(name, collect))
            case FilesCollect():
                made.append(FilesConnector(name, collect))
            case PodsCollect():
                made.append(PodsConnector(name, collect))
            case PromCollect():
                made.append(PromConnector(name, collect))
            case KafkaCollect():
                made.append(KafkaConnector(name, collect))
    return made
