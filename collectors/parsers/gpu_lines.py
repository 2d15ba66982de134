"""`NVRM:` lines: XIDs, the address-to-UUID map, lost GPUs without a code, the driver's version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectors.parsers import xid
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.time import NS_PER_S

SAME_LOSS_NS: Final = 10 * NS_PER_S
"""The driver says that a GPU fell off the bus two or three times in a row: one fact."""


class GpuLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._lost: dict[str, int] = {}
        """BDF -> when its loss was last said."""
        self._probing: tuple[str, KernelRecord] | None = None

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        found = xid.parse_xid(line)
        if found:
            return self._xid(found, record)
        self._learn(line)
        return self._loss(record, line)

    def due(self, now: int | None) -> Sequence[Found]:
        if self._probing and (now is None or now - self._probing[1].time_ns > SAME_LOSS_NS):
            self._probing = None
        return NOTHING

    def oldest(self) -> KernelRecord | None:
        return self._probing[1] if self._probing else None

    def _learn(self, line: str) -> None:
        pair = xid.parse_uuid_map(line)
        if pair:
            self._site.learn_uuid(*pair)
        version = xid.parse_driver_version(line)
        if version:
            self._site.driver_version = version

    def _loss(self, record: KernelRecord, line: str) -> Sequence[Found]:
        bdf = xid.parse_lost_gpu(line)
        if bdf is None and (start := xid.parse_probe_start(line)):
            self._probing = (start, record)
            return NOTHING
        first = record
        if bdf is None and self._probing and xid.is_probe_end(line):
            bdf, first = self._probing
            self._probing = None
        if bdf is None or record.time_ns - self._lost.get(bdf, -SAME_LOSS_NS) < SAME_LOSS_NS:
            return NOTHING
        return self._xid(xid.lost_line(bdf, line), first)

    def _xid(self, line: xid.XidLine, record: KernelRecord) -> Sequence[Found]:
        site = self._site
        if line.code == xid.LOST:
            self._lost[line.bdf] = record.time_ns
        known = site.gpu(line.bdf)
        payload = xid.xid_payload(
            line,
            gpu=xid.GpuName(site.gpu_uuid(line.bdf), known.index if known else None),
            via=site.via,
            driver_version=site.driver_version,
            written_by=record.written_by,
            kmsg_seq=record.seq,
            peer_of=lambda link: site.nvlink_peer(line.bdf, link),
        )
        return (Found(payload, site.gpu_subject(line.bdf), record),)
