"""One evidence event -> the finding that it belongs to and what to remember of it.

Only what a rule may want is kept; the full line stays reachable by the event's id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from correlator.evidence.sketch import Occurrence
from topics.errors import DecodeError
from topics.events import Event, source_parts
from topics.lines import finding
from topics.payloads import Aer, Check, IbPort, Kernel, Log, Sxid, Xid

MESSAGE_CHARS: Final = 240
_KEPT_DETAILS: Final = 12

PER_PEER: Final = frozenset({"blame"})


@dataclass(frozen=True, slots=True)
class Fact:
    group: tuple[str, ...]
    found: Occurrence


def node_of(event: Event[Any]) -> str | None:
    """The node that an evidence event speaks of."""
    if event.node is not None:
        return event.node
    try:
        return source_parts(event.source)[1]
    except DecodeError:
        return None


def fact_of(event: Event[Any]) -> Fact | None:
    """None for kinds that are no findings (signals and ticks are folded elsewhere)."""
    make = _MAKERS.get(event.kind)
    if make is None:
        return None
    node = node_of(event)
    key, rank, attrs = make(node or "", event.data)
    if event.drill:
        attrs["drill"] = True
    repeats = getattr(event.data, "repeats", None)
    last = repeats.last if repeats is not None else 0
    return Fact(key, Occurrence(event.time, event.id, node, rank, attrs, last))


_Made = tuple[tuple[str, ...], int | None, dict[str, Any]]


def _xid(node: str, data: Xid) -> _Made:
    gpu = data.gpu_uuid or (str(data.gpu_index) if data.gpu_index is not None else data.pci_bdf)
    decoded = (data.nvlink5.decoded or "") if data.nvlink5 else ""
    peer = data.nvlink5.peer if data.nvlink5 else None
    attrs = _present(
        uuid=data.gpu_uuid,
        index=data.gpu_index,
        bdf=data.pci_bdf,
        mnemonic=data.mnemonic,
        severity=data.severity,
        attribution=data.attribution,
        resolution=data.resolution,
        pid=data.pid,
        process=data.process,
        caused_by=data.caused_by_xid,
        recovery=data.recovery_action,
        link=data.link if data.link is not None else (data.nvlink5.link if data.nvlink5 else None),
        unit=data.nvlink5.unit if data.nvlink5 else None,
        subcode=data.nvlink5.subcode if data.nvlink5 else None,
        fatal=data.nvlink5.fatal if data.nvlink5 else None,
        peer=peer.model_dump(exclude_none=True) if peer else None,
        details=data.details,
        by=data.written_by,
        message=data.message[:MESSAGE_CHARS],
    )
    extra = data.recovery_action or str(attrs.get("subcode", ""))
    return ("xid", node, gpu, str(data.xid), decoded, extra, data.written_by or ""), None, attrs


def _sxid(node: str, data: Sxid) -> _Made:
    attrs = _present(
        bdf=data.pci_bdf,
        link=data.link,
        by=data.written_by,
        via=data.via,
        message=data.message[:MESSAGE_CHARS],
    )
    fatal = "fatal" if data.fatal else "nonfatal"
    return ("sxid", node, data.nvswitch, str(data.sxid), fatal, data.written_by or ""), None, attrs


def _aer(node: str, data: Aer) -> _Made:
    attrs = _present(
        driver=data.driver,
        errors=data.errors,
        attached=data.attached_to,
        port=data.port,
        by=data.written_by,
        message=(data.message or "")[:MESSAGE_CHARS] or None,
    )
    key = ("aer", node, data.pci_bdf, data.severity, data.recovery or "", data.written_by or "")
    return key, None, attrs


def _kernel(node: str, data: Kernel) -> _Made:
    attrs = _present(
        device=data.device,
        process=data.process,
        pid=data.pid,
        server=data.server,
        cgroup=data.cgroup,
        code=data.code,
        by=data.written_by,
        message=data.message[:MESSAGE_CHARS],
    )
    where = data.device or data.server or ""
    return ("kernel", node, data.category, data.code or "", where, data.written_by or ""), None, attrs


def _ib_port(node: str, data: IbPort) -> _Made:
    return ("ib_port", node, f"{data.device}/{data.port}", data.state), None, {}


def _check(node: str, data: Check) -> _Made:
    attrs = _present(message=data.message[:MESSAGE_CHARS], group=data.group)
    return ("check", node, data.check, data.verdict), None, attrs


def _log(_node: str, data: Log) -> _Made:
    details = dict(sorted((data.details or {}).items())[:_KEPT_DETAILS])
    attrs = _present(
        peer=data.peer,
        device=data.device,
        status=data.wc_status,
        collective=data.collective,
        seq=data.seq,
        timeout_s=data.timeout_s,
        exit_code=data.exit_code,
        signal=data.signal,
        details=details or None,
        message=data.message[:MESSAGE_CHARS],
    )
    return ("log", *finding(data)), data.rank, attrs


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_MAKERS: Final[dict[str, Callable[[str, Any], _Made]]] = {
    "xid": _xid,
    "sxid": _sxid,
    "aer": _aer,
    "kernel": _kernel,
    "ib_port": _ib_port,
    "check": _check,
    "log": _log,
}
