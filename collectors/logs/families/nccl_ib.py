"""NCCL's InfiniBand/RoCE transport: completion errors, async events, verbs calls, port failover.

The shapes of 2.4 to 2.30 stand side by side: a fleet runs many versions. The peer is the bootstrap socket
address, not the RDMA address, and either end or the path may be at fault: a peer is a blame edge.
"""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, PEER, Code, Found, pattern, take
from collectors.logs.prefix import Line
from collectors.logs.tables import async_events, wc_numbers, wc_statuses

_NET: Final = r"(?:NET/(?:IB|IBext\w*|gIB) ?: ?)?"

CODES: Final = (
    Code("nccl.ib_completion_error", "blame",
         "A work request ended with an error status (`wc_status`); status 5 only follows an earlier one.",
         "NCCL src/transport/net_ib.cc, tags 2.4 to 2.30"),
    Code("nccl.port_error", "cause", "The device reported its port down (verbs event 10).",
         "NCCL net_ib.cc async thread, 2.8 to 2.30"),
    Code("nccl.port_active", "info", "The device reported its port up again (verbs event 9).",
         "NCCL net_ib.cc async thread, 2.8 to 2.30"),
    Code("nccl.async_event", "info", "Another verbs event; `details.fatal` says whether it ends the communicator.",
         "NCCL net_ib.cc async thread, 2.8 to 2.30"),
    Code("nccl.async_fatal", "effect", "The communicator fails fast because of a fatal verbs event.",
         "NCCL 2.23 and later, NCCL_IB_RETURN_ASYNC_EVENTS"),
    Code("nccl.port_failover", "info", "A device of the communicator was marked as failed; traffic moves over.",
         "NCCL 2.30, NCCL_IB_RESILIENCY_PORT_FAILOVER"),
    Code("nccl.port_recovered", "info", "A device that had failed over is used again.",
         "NCCL 2.30, NCCL_IB_RESILIENCY_PORT_RECOVERY"),
    Code("nccl.failover_fatal", "effect", "Port failover cannot go on: the error ends the communicator.",
         "NCCL 2.30, NCCL_IB_RESILIENCY_PORT_FAILOVER"),
    Code("nccl.qp_setup_error", "effect", "A queue pair could not be created or brought up: configuration or fabric.",
         "NCCL ibvwrap.cc, 2.18 and later"),
    Code("nccl.verbs_error", "effect", "Another verbs call failed.", "NCCL ibvwrap.cc"),
)  # fmt: skip

_OPCODE: Final = re.compile(rf"opcode[ =](?:(?P<opcode_name>[A-Z_]{{1,40}})\()?(?P<opcode>-?{INT})")
_LEN: Final = re.compile(rf"(?:len|reqSize)[ =](?P<length>{INT})")
_VENDOR: Final = re.compile(r"vendor[ _]err[ =](?P<vendor_err>(?:0x)?[0-9a-fA-F]{1,15})")
_REQUEST: Final = re.compile(
    r"(?:\(|reqType[ =]|req_type[ =])(?P<request>Send|Recv|Flush|Unused|Put|Get|GIN\w{0,20}|IPut)\b"
)
_LOCAL_GID: Final = re.compile(r"localGid[ =](?P<local_gid>[0-9a-fA-F:.]{2,60})")
_REMOTE_GID: Final = re.compile(r"remoteGids?[ =](?P<remote_gid>[0-9a-fA-F:.]{2,60})")
_HCA: Final = re.compile(r"\bhca[ =](?P<device>[\w.-]{1,60})")


def _completion(match: re.Match[str], _line: Line) -> Found:
    rest = match["rest"]
    found = Found("nccl.ib_completion_error", peer=match["peer"])
    number = match["number"] or match["in_brackets"]
    if number is not None:
        found.wc_status = int(number)
    elif match["name"]:
        found.wc_status = wc_numbers().get(match["name"].strip().lower().removeprefix("ibv_wc_"))
    status = wc_statuses().get(found.wc_status) if found.wc_status is not None else None
    if status is not None:
        found.details["status_name"] = status.name
        if status.follows:
            found.details["follows"] = True
    for part in (_OPCODE, _LEN, _VENDOR, _REQUEST, _LOCAL_GID, _REMOTE_GID, _HCA):
        if (seen := part.search(rest)) is not None:
            take(found, seen.groupdict())
    return found


def _device(found: Found, text: str | None) -> None:
    """`mlx5_3:1` -> device `mlx5_3`, port 1."""
    if not text:
        return
    name, _, port = text.partition(":")
    found.device = name
    if port.isdecimal():
        found.details["port"] = int(port)


def _async(match: re.Match[str], _line: Line) -> Found | None:
    text = match["event"].strip().rstrip(".")
    text = re.sub(rf"\s*\({INT}\)$", "", text)
    event = async_events().get(text.lower())
    fatal = match["kind"].startswith("async fatal") or (
        event is not None and event.fatal and "non-fatal" not in match["kind"]
    )
    found = Found(event.code if event else "nccl.async_event", details={"event": text[:100]})
    if fatal:
        found.details["fatal"] = True
    if match["on"]:
        found.details["object"] = match["on"]
    _device(found, match["device"])
    return found


def _verbs(match: re.Match[str], _line: Line) -> Found | None:
    call = match["call"]
    setup = call in ("ibv_modify_qp", "ibv_create_qp", "ibv_create_qp_ex", "ncclIbRtrQp", "ncclIbRtsQp")
    found = Found("nccl.qp_setup_error" if setup else "nccl.verbs_error", details={"call": call})
    rest = match["rest"]
    if (seen := re.search(r"(?:with (?:error )?|errno )(\d{1,5})\b", rest)) is not None:
        found.details["errno"] = int(seen[1])
    if (
        seen := re.search(r"with (?:error )?(?:\d{1,5} )?([A-Za-z][^,:]{2,60}?)(?:,| errno|$)", rest)
    ) is not None:
        found.details["error"] = seen[1].strip()
    if (seen := re.search(r"\bdev (?!null)([\w.-]{1,40}(?::\d{1,3})?)", rest)) is not None:
        _device(found, seen[1])
    if (seen := re.search(r"curr state (\w{1,12}), next state (\w{1,12})", rest)) is not None:
        found.details["from_state"], found.details["to_state"] = seen[1], seen[2]
    for name, shape in (
        ("local_gid", r"local GID:? ([0-9a-fA-F:.]{3,60})"),
        ("remote_gid", r"remote GID:? ([0-9a-fA-F:.]{3,60})"),
    ):
        if (seen := re.search(shape, rest)) is not None:
            found.details[name] = seen[1]
    return found


def _open(match: re.Match[str], _line: Line) -> Found:
    found = Found("nccl.verbs_error", details={"call": "ibv_open_device"})
    _device(found, match["device"])
    return found


PATTERNS: Final = (
    pattern("Got completion",
            rf"{_NET}Got completion (?:from peer (?P<peer>{PEER}) )?with (?:error|status)[ =]"
            rf"(?:(?P<number>{INT})\b|(?P<name>[A-Za-z_][\w ]{{1,60}}?)(?:\((?P<in_brackets>{INT})\))?(?=[ ,]|$))(?P<rest>.*)",
            _completion),
    pattern("async",
            rf"{_NET}(?:(?P<device>[\w.-]{{1,40}}(?::\d{{1,3}})?) ?:? )?"
            r"(?P<kind>Got async(?: error)? event|Got (?:non-fatal|fatal) async event|async fatal event)"
            r"(?: on (?P<on>CQ|QP|SRQ|WQ)\b[^:]{0,120}?)? ?: ?(?P<event>[^\n]{1,200})",
            _async),
    pattern("encountered a fatal error",
            rf"{_NET}(?:[\w.:-]{{1,60}} )?communicator encountered a fatal error(?: \(detected in (?P<detected_in>[\w:]{{1,80}})\))?",
            "nccl.async_fatal"),
    pattern("marked as failed",
            rf"{_NET}(?:[\w .:()-]{{0,80}}?\b)?[Dd]evice (?P<device_index>[\w.:-]{{1,40}}) (?:\([^)]{{0,60}}\) )?(?:was )?marked as failed"
            r"(?:\.? *Initiating recovery\? *(?P<recovery>\w+))?",
            "nccl.port_failover"),
    pattern("ecover",
            rf"{_NET}(?:[\w .:()-]{{0,80}}?\b)?[Dd]evice (?P<device_index>[\w.:-]{{1,40}}) (?:\([^)]{{0,60}}\) )?(?:has |was )?(?:been )?"
            r"(?:successfully )?(?:recovered|marked as (?:recovered|active|healthy))",
            "nccl.port_recovered"),
    pattern("error is fatal",
            rf"{_NET}(?:[\w .:-]{{0,60}}?\b)?[Tt]he error is fatal(?: \((?P<why>[^)]{{1,200}})\))?\.? *(?:Cannot|Can't) continue",
            "nccl.failover_fatal"),
    pattern("ibv_", rf"{_NET}(?:Call to )?(?P<call>ibv_\w{{3,40}}) failed(?P<rest>.*)", _verbs),
    pattern("Unable to open device", rf"{_NET}Unable to open device (?P<device>[\w.:-]{{1,40}})", _open),
)  # fmt: skip
