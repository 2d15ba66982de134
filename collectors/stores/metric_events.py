"""Readings of one node as raw events of its GPUs and links. Pure.

Port states become levels of heartbeats instead (`beats`): a sample is a level, not a transition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal

from collectors.inventory import EMPTY, GpuDevice, Inventory, PortDevice
from collectors.nvml.tables import tables
from collectors.parsers.xid import GpuName, XidLine, xid_payload
from collectors.stores.metric_readings import Fields, GpuKey, NodeReadings
from collectors.stores.promql_answers import Sample
from topics import ids
from topics.events import Event, make
from topics.payloads import Gpu, IbPort, Nvlink, Payload, Throttle
from topics.time import NS_PER_S

COLLECTOR: Final = "metrics"
SAMPLE_EVERY_NS: Final = 300 * NS_PER_S
"""A GPU of which nothing changes is told of this often."""
_TELLING: Final = ("ecc.", "remapped_rows.", "pcie.")
_NUMBERS: Final = ("temperature_c", "memory_temperature_c", "power_w")
_STATES: Final = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
"""IB_PORT_* of include/rdma/ib_verbs.h."""


def state_name(value: float) -> str | None:
    """The state behind `node_infiniband_state_id`; None for "no change", which says nothing."""
    return _STATES.get(int(value))


@lru_cache(maxsize=1024)
def reasons_of(mask: int) -> tuple[str, ...]:
    """Names of the bits of a throttle mask."""
    return tuple(tables().reasons_of(mask))


class MetricEvents:
    """Events of one node; ids are made of what was sampled, so that fetching again gives the same."""

    def __init__(self, cluster: str, node: str, inventory: Inventory = EMPTY) -> None:
        self._cluster = cluster
        self._node = node
        self._inventory = inventory
        self._source = f"/{cluster}/{node}/{COLLECTOR}"
        self.unaddressed: set[str] = set()
        """GPUs of which neither labels nor inventory tell the address: no event can name them."""

    def read(self, readings: NodeReadings) -> Iterator[Event[Any]]:
        """Everything but port levels and signs of life."""
        for device, port in sorted(readings.ports):
            yield from self._port(device, port, readings.ports[device, port])
        for uuid, fields in sorted(readings.gpus.items()):
            key = self._known(readings.keys[uuid])
            if key.bdf is None or key.index is None:
                self.unaddressed.add(uuid)
                continue
            yield from self._xids(key, fields.get("xid", []))
            yield from self._throttles(key, fields)
            yield from self._samples(key, fields)
        for (uuid, link), counters in sorted(readings.links.items()):
            yield from self._link(uuid, link, counters)

    def _known(self, key: GpuKey) -> GpuKey:
        device: GpuDevice | None = self._inventory.gpu_with_uuid(key.uuid)
        if device is None:
            return key
        return replace(
            key, index=key.index if key.index is not None else device.index, bdf=key.bdf or device.bdf
        )

    def _port(self, device: str, port: int, fields: Fields) -> Iterator[Event[Any]]:
        """One event that says what the port is connected to, where the inventory knows it."""
        known = self._inventory.port_named(device, port)
        first = next((s for s in fields.get("state", ()) if state_name(s.value) == "ACTIVE"), None)
        if known is None or first is None:
            return
        layer = _layer(known)
        if layer is None:
            return
        data = IbPort(
            device=device, port=port, netdev=known.netdev, link_layer=layer, state="ACTIVE",
            switch=known.switch, switch_port=known.switch_port, pci_bdf=known.bdf, via="sysfs",
        )  # fmt: skip
        yield self._event(data, known.entity, first.time, "ACTIVE")

    def _xids(self, key: GpuKey, samples: list[Sample]) -> Iterator[Event[Any]]:
        """The gauge holds the last XID: a change tells of one, which came since the sample before.

        It is placed half-way, so that it is wrong by half a scrape at most. One that stood there from the
        beginning is of unknown age and not told; the same code twice in a row can't be seen.
        """
        for before, sample in pairwise(samples):
            code = int(sample.value)
            if sample.value == before.value or code <= 0:
                continue
            time = (before.time + sample.time) // 2 // 1000 * 1000
            said = f"XID {code} is the last one of {key.uuid}, not yet {_s(sample.time - before.time)} before"
            payload = xid_payload(
                XidLine(key.bdf or "", code, "", said), gpu=GpuName(key.uuid, key.index), via="nvml"
            )
            details = {**(payload.details or {}), "after_ns": before.time, "by_ns": sample.time}
            data = payload.model_copy(update={"details": details})
            yield self._event(data, f"gpu/{key.uuid}", time, str(code), timequality="backfill")

    def _throttles(self, key: GpuKey, fields: Fields) -> Iterator[Event[Any]]:
        """At the first sample, at each change of the mask, and while a counter grows."""
        masks = {s.time: int(s.value) for s in fields.get("throttle.mask", ())}
        counters = {
            name.removeprefix("throttle."): {s.time: int(s.value) for s in samples}
            for name, samples in fields.items()
            if name.startswith("throttle.") and name != "throttle.mask"
        }
        bits = {name: bit for bit, name in tables().reasons}
        mask: int | None = None
        counted: dict[str, int] = {}
        first = True
        for time in sorted({*masks, *(t for c in counters.values() for t in c)}):
            now = {name: values[time] for name, values in counters.items() if time in values}
            grown = [name for name, value in now.items() if value > counted.get(name, value)]
            counted |= now
            if time in masks:
                changed, mask = masks[time] != mask, masks[time]
                reasons = list(reasons_of(mask))
            elif mask is None:  # only counters: what grew, held the clocks down
                changed, reasons = False, sorted(grown)
            else:
                continue
            if not (changed or grown or first):
                continue
            first = False
            told = mask if mask is not None else sum(bits[name] for name in reasons)
            data = Throttle(
                gpu_uuid=key.uuid, reasons=reasons, mask=told, cumulative_ns=dict(sorted(now.items())) or None
            )
            yield self._event(data, f"gpu/{key.uuid}", time, f"{told} {sorted(now.items())}")

    def _samples(self, key: GpuKey, fields: Fields) -> Iterator[Event[Any]]:
        """Health counters as full samples: at the first, at each change, and every now and then."""
        wanted = {
            n: s for n, s in fields.items() if n.startswith(_TELLING) or n in (*_NUMBERS, "sm_clock_mhz")
        }
        rows: dict[int, dict[str, float]] = {}
        for name, samples in wanted.items():
            for sample in samples:
                rows.setdefault(sample.time, {})[name] = sample.value
        last: dict[str, float] = {}
        told_at: int | None = None
        for time, row in sorted(rows.items()):
            changed = any(last.get(n) != v for n, v in row.items() if n.startswith(_TELLING))
            last |= row
            if not changed and told_at is not None and time - told_at < SAMPLE_EVERY_NS:
                continue
            told_at = time
            data = _gpu(key, last)
            yield self._event(data, f"gpu/{key.uuid}", time, data.model_dump_json(exclude_none=True))

    def _link(self, uuid: str, link: int, fields: Fields) -> Iterator[Event[Any]]:
        """Only where an error counter grew: a link that repeats transfers is up; others are not known."""
        rows: dict[int, dict[str, int]] = {}
        for name, samples in fields.items():
            for sample in samples:
                rows.setdefault(sample.time, {})[name] = int(sample.value)
        before: tuple[int, dict[str, int]] | None = None
        told = 0
        for time, row in sorted(rows.items()):
            if before is not None and any(v > before[1].get(n, v) for n, v in row.items()):
                for at, counters in (before, (time, row)):
                    if at > told:
                        data = Nvlink(gpu_uuid=uuid, link=link, state="active", counters=counters)
                        state = f"active {sorted(counters.items())}"
                        yield self._event(data, f"nvlink/{uuid}/{link}", at, state)
                told = time
            before = (time, row)

    def _event(self, data: Payload, subject: str, time: int, state: str, **more: Any) -> Event[Any]:
        return make(
            data,
            id=ids.transition_id(self._cluster, self._node, subject, f"metric-{data.kind}", time, state),
            source=self._source,
            subject=subject,
            time=time,
            key=self._node,
            provenance="replay",
            **more,
        )


def _gpu(key: GpuKey, values: Mapping[str, float]) -> Gpu:
    def group(prefix: str) -> dict[str, int] | None:
        found = {n.removeprefix(prefix): int(v) for n, v in values.items() if n.startswith(prefix)}
        return dict(sorted(found.items())) or None

    rows: dict[str, Any] = dict(group("remapped_rows.") or {})
    for flag in ("pending", "failed"):
        if flag in rows:
            rows[flag] = bool(rows[flag])
    clock = values.get("sm_clock_mhz")
    return Gpu(
        gpu_uuid=key.uuid,
        index=key.index or 0,
        pci_bdf=key.bdf or "",
        model=key.model,
        ecc=group("ecc."),
        remapped_rows=rows or None,
        pcie=group("pcie."),
        sm_clock_mhz=None if clock is None else int(clock),
        temperature_c=values.get("temperature_c"),
        memory_temperature_c=values.get("memory_temperature_c"),
        power_w=values.get("power_w"),
    )


def _layer(port: PortDevice) -> Literal["InfiniBand", "Ethernet"] | None:
    """As the inventory says it, or its netdev's name; the metrics do not."""
    if port.link_layer is None:
        return "InfiniBand" if (port.netdev or "").startswith("ib") else None
    return "Ethernet" if port.link_layer == "Ethernet" else "InfiniBand"


def _s(ns: int) -> str:
    return f"{ns / NS_PER_S:.0f} s"
