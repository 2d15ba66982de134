"""`fabricmanager.log` of NVIDIA's Fabric Manager: local time, whole seconds, no zone.

    [Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci
    bus id 00000000:86:00.0 physical id 3 port 33

Its codes are SXIDs. Nothing in it is the kernel's word, so its events are marked as user space's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from collectors.inventory import normalise_bdf
from collectors.parsers.site import Site
from collectors.parsers.stamps import calendar_ns, month_number
from topics.events import Event, make
from topics.ids import log_line_id
from topics.payloads import Kernel, Payload, Sxid
from topics.time import NS_PER_S

COLLECTOR: Final = "fabricmanager"

_LINE: Final = re.compile(
    r"\[(\w{3}) (\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)\] \[(\w{1,12})\] \[tid (\d{1,10})\] (.*)",
    re.DOTALL | re.ASCII,
)
_ERROR: Final = re.compile(
    r"detected NVSwitch (fatal|non-fatal) error (\d{1,6}) on fid (\d{1,4}) on NVSwitch pci bus id (\S{7,20})"
    r" physical id (\d{1,4}) port (\d{1,4})",
    re.ASCII,
)
_SETUP: Final = re.compile(
    r"failed to find the (?:member )?GPU handle \d{1,20} in the multicast team", re.ASCII
)


class FabricManagerParser:
    """Share the `site` of the node's kernel log where there is one: it knows the switches' numbers."""

    def __init__(
        self,
        site: Site,
        utc_offset_s: int = 0,
        provenance: Literal["live", "replay", "synthetic"] | None = None,
    ) -> None:
        self.site = site
        self._offset_ns = utc_offset_s * NS_PER_S
        self._provenance = provenance
        self.skipped = 0
        """Lines without the form of this log."""

    def feed(self, line: str, recorded: int | None = None) -> list[Event[Any]]:
        line = line.rstrip("\r\n")
        found = _LINE.fullmatch(line)
        month = month_number(found[1]) if found else None
        when = calendar_ns(int(found[3]), month, int(found[2]), found[4]) if found and month else None
        if not found or when is None:
            self.skipped += bool(line.strip())
            return []
        said = self._said(found[7])
        if said is None:
            return []
        payload, subject = said
        site, when = self.site, when - self._offset_ns
        event = make(
            payload,
            id=log_line_id(site.cluster, site.node, when, line),
            source=f"/{site.cluster}/{site.node}/{COLLECTOR}",
            subject=subject,
            time=when,
            key=site.node,
            recordedtime=recorded,
            provenance=self._provenance,
        )
        return [event]

    def read(self, lines: Iterable[str | bytes]) -> Iterator[Event[Any]]:
        for line in lines:
            yield from self.feed(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)

    def _said(self, body: str) -> tuple[Payload, str] | None:
        error = _ERROR.match(body)
        bdf = normalise_bdf(error[4]) if error else None
        if error and bdf:
            name = self.site.switch_name(bdf)
            return Sxid(
                nvswitch=name,
                pci_bdf=bdf,
                sxid=int(error[2]),
                fatal=error[1] == "fatal",
                link=int(error[6]),
                message=body,
                via="file",
                written_by="userspace",
            ), f"nvswitch/{name}"
        if _SETUP.match(body):
            return Kernel(
                category="other",
                code="fabric_manager.multicast_setup_failed",
                message=body,
                written_by="userspace",
            ), "node"
        return None
