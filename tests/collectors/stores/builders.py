"""Small things that tests of stores are built from."""

from __future__ import annotations

from typing import Any

from collectors.stores.bounds import Bounds, Meter
from collectors.stores.http import HttpSettings, StoreClient
from collectors.stores.loki import LokiFetch
from collectors.stores.loki_answers import Entry
from collectors.stores.metric_readings import NodeReadings, Readings, read_series
from collectors.stores.metric_table import packaged
from collectors.stores.names import NodeNames
from collectors.stores.promql_answers import Sample, Series
from collectors.stores.slices import Span

T0 = 1_777_881_600_000_000_000
"""2026-05-04T08:00:00Z in ns."""
S = 1_000_000_000
UUID = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
GPU = {"Hostname": "node-01", "gpu": "3", "UUID": UUID, "pci_bus_id": "00000000:52:00.0", "modelName": "H100"}
PORT = {"instance": "node-01:9100", "device": "mlx5_0", "port": "1"}


def at(seconds: float) -> int:
    return T0 + round(seconds * S)


def span(start: float, end: float) -> Span:
    return Span(at(start), at(end))


def client(url: str, bounds: Bounds | None = None, **more: Any) -> StoreClient:
    settings = HttpSettings(url=url, **{"backoff_s": 0.001, "timeout_s": 20.0, **more})
    return StoreClient(settings, Meter(bounds or Bounds()))


async def fetched(fetch: LokiFetch, over: Span) -> list[Entry]:
    return [entry async for page in fetch.lines(over) for entry in page]


def series(name: str, labels: dict[str, str], *samples: tuple[float, float]) -> Series:
    """Samples as (seconds after the start, value)."""
    return Series({"__name__": name, **labels}, [Sample(at(t), v) for t, v in samples])


def readings(*found: Series, nodes: tuple[str, ...] = ("node-01", "node-02")) -> Readings:
    return read_series(found, packaged(), NodeNames(nodes))


def node_readings(*found: Series) -> NodeReadings:
    return readings(*found).nodes["node-01"]
