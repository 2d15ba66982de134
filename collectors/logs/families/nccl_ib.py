"""NCCL's InfiniBand/RoCE transport: completion errors, async events, verbs calls, port failover.

The shapes of 2.4 to 2.30 stand side by side: a fleet runs many versions. The peer is the bootstrap socket
address, not the RDMA address, and either end or the path may be at fault: a peer is a blame edge.
"""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Found, fill, named, pattern, take
from collectors.logs.prefix import Line
from collectors.logs.tables import async_events, wc_numbers, wc_statuses
from topics.numbers import whole

_NET: Final = r"(?:NET/(?:IB\w{0,12}|gIB|IB-CAST) ?: ?)?(?:(?:nccl|wrap)\w{2,60}: )?"

CODES: Final = (
    Code(
        "nccl.ib_completion_error",
        "blame",
        "A work request ended with an error status (`wc_status`, `details.status_name`); status 5 only "
        "follows "
        "an earlier one (`details.follows`). With `details.failover` the communicator may go on.",
        "NCCL src/transport/net_ib.cc, net_ib/p2p.cc, p2p_resiliency.cc; 2.4 to 2.30",
    ),
    Code(
        "nccl.port_error",
        "cause",
        "The device reported its port down (verbs event 10). The port may be named wrongly: the node's own "
        "port event decides.",
        "NCCL net_ib.cc async thread, 2.8 to 2.30",
    ),
    Code(
        "nccl.port_active",
        "info",
        "The device reported its port up again (verbs event 9).",
        "NCCL net_ib.cc async thread, 2.8 to 2.30",
    ),
    Code(
        "nccl.async_event",
        "info",
        "Another verbs event; `details.fatal` says whether it ends the communicator.",
        "NCCL net_ib.cc async thread, 2.8 to 2.30",
    ),
    Code(
        "nccl.async_fatal",
        "effect",
        "The communicator fails fast because of a fatal verbs event.",
        "NCCL 2.23 and later, NCCL_IB_RETURN_ASYNC_EVENTS",
    ),
    Code(
        "nccl.port_failover",
        "info",
        "A device of the communicator was marked as failed and its traffic moves to another one.",
        "NCCL 2.30 p2p_resiliency.cc, NCCL_IB_RESILIENCY_PORT_FAILOVER",
    ),
    Code(
        "nccl.port_recovered",
        "info",
        "A device that had failed over is used again.",
        "NCCL 2.30 p2p_resiliency_recovery.cc, NCCL_IB_RESILIENCY_PORT_RECOVERY",
    ),
    Code(
        "nccl.failover_fatal",
        "effect",
        "Port failover cannot go on: the error ends the communicator.",
        "NCCL 2.30 p2p_resiliency.cc",
    ),
    Code(
        "nccl.qp_setup_error",
        "effect",
        "A queue pair could not be created or brought up: configuration or fabric.",
        "NCCL misc/ibvwrap.cc, 2.8 to 2.30",
    ),
    Code("nccl.verbs_error", "effect", "Another verbs call failed.", "NCCL misc/ibvwrap.cc"),
)

_OPCODE: Final = re.compile(fill(r"opcode[ =](?:(?P<opcode_name>[A-Z_]{1,40})\()?(?P<opcode><INT>)"))
_LEN: Final = re.compile(fill(r"(?:len|reqSize)[ =](?P<length><INT>)"))
_VENDOR: Final = re.compile(fill(r"vendor[ _]err[ =](?P<vendor_err><INT>)"))
_REQUEST: Final = re.compile(
    r"(?:\(|reqType[ =]|req_type[ =])(?P<request>Send|Recv|Flush|Unused|Put|Get|IPut)\b"
)
_LOCAL_GID: Final = re.compile(r"localGid[ =]?(?P<local_gid>[0-9a-fA-F:.]{2,60})")
_REMOTE_GID: Final = re.compile(r"remoteGids?[ =]?(?P<remote_gid>[0-9a-fA-F:.]{2,60})")
_HCA: Final = re.compile(r"\bhca[ =](?P<device>[\w.-]{1,60})")
_PARTS: Final = (_OPCODE, _LEN, _VENDOR, _REQUEST, _LOCAL_GID, _REMOTE_GID, _HCA)


def _status(found: Found, number: int | None) -> None:
    found.wc_status = number
    status = wc_statuses().get(number) if number is not None else None
    if status is not None:
        found.details["status_name"] = status.name
        if status.follows:
            found.details["follows"] = True


def _completion(match: re.Match[str], _line: Line) -> Found:
    found = Found("nccl.ib_completion_error", peer=match["peer"])
    number = match["number"] or match["in_brackets"]
    if number is not None:
        _status(found, int(number))
    else:
        _status(found, wc_numbers().get(match["name"].strip().lower().removeprefix("ibv_wc_")))
    for part in _PARTS:
        if (seen := part.search(match["rest"])) is not None:
            take(found, seen.groupdict())
    return found


def _survived(match: re.Match[str], _line: Line) -> Found:
    """With failover on, a failed completion is first an INFO line: alone it ends nothing."""
    found = Found("nccl.ib_completion_error", details={"failover": True})
    _status(found, int(match["number"]))
    found.details["device_index"] = int(match["device_index"])
    return found


def _recovery(match: re.Match[str], _line: Line) -> Found:
    good = match["outcome"] == "succeeded"
    found = Found("nccl.port_recovered" if good else "nccl.port_failover")
    found.details["device_index"] = int(match["device_index"])
    if not good:
        found.details["recovery"] = "failed"
    return found


def _device(found: Found, text: str | None) -> None:
    """`mlx5_3:1` -> device `mlx5_3`, port 1."""
    if text:
        found.device, _, port = text.partition(":")
        if (number := whole(port)) is not None:
            found.details["port"] = number


_NUMBERED: Final = re.compile(r"\s{0,4}\(\d{1,4}\)$")


def _async(match: re.Match[str], _line: Line) -> Found:
    text = _NUMBERED.sub("", match["event"].strip().rstrip("."))
    event = async_events().get(text.lower())
    found = Found(event.code if event else "nccl.async_event", details={"event": text[:100]})
    said = match["kind"]
    if said.startswith("async fatal") or (event is not None and event.fatal and "non-fatal" not in said):
        found.details["fatal"] = True
    if match["on"]:
        found.details["object"] = match["on"]
    _device(found, match["device"])
    return found


_SETUP: Final = frozenset({"ibv_modify_qp", "ibv_create_qp", "ibv_create_qp_ex"})
_ERRNO: Final = re.compile(r"(?:with (?:error )?|errno )(\d{1,5})\b")
_ERROR: Final = re.compile(r"with (?:error )?(?:\d{1,5} )?([A-Za-z][^,:]{2,60}?)(?:,| errno|$)")
_ON_DEV: Final = re.compile(r"\bdev (?!null)([\w.-]{1,40}(?::\d{1,3})?)")
_STATES: Final = re.compile(r"curr state (\w{1,12}), next state (\w{1,12})")
_GIDS: Final = (
    ("local_gid", re.compile(r"local GID:? ([0-9a-fA-F:.]{3,60})")),
    ("remote_gid", re.compile(r"remote GID:? ([0-9a-fA-F:.]{3,60})")),
)


def _verbs(match: re.Match[str], _line: Line) -> Found:
    call, rest = match["call"], match["rest"]
    found = Found("nccl.qp_setup_error" if call in _SETUP else "nccl.verbs_error", details={"call": call})
    if (seen := _ERRNO.search(rest)) is not None:
        found.details["errno"] = int(seen[1])
    if (seen := _ERROR.search(rest)) is not None:
        found.details["error"] = seen[1].strip()
    if (seen := _ON_DEV.search(rest)) is not None:
        _device(found, seen[1])
    if (seen := _STATES.search(rest)) is not None:
        found.details["from_state"], found.details["to_state"] = seen[1], seen[2]
    for name, shape in _GIDS:
        if (seen := shape.search(rest)) is not None:
            found.details[name] = seen[1]
    return found


def _open(match: re.Match[str], _line: Line) -> Found:
    found = Found("nccl.verbs_error", details={"call": "ibv_open_device"})
    _device(found, match["device"])
    return found


PATTERNS: Final = (
    pattern(
        ("ompletion from peer", "ompletion with error"),
        _NET + r"Got completion (?:from peer (?P<peer><PEER>) )?with (?:error|status)[ =]"
        r"(?:(?P<number><INT>)\b|(?P<name>[A-Za-z_][\w ]{1,60}?)(?:\((?P<in_brackets><INT>)\))?(?=[ ,]|$))"
        r"(?P<rest>.*)",
        _completion,
    ),
    pattern(
        "ompletion with error",
        _NET + r"Got completion with error \(devIndex=(?P<device_index><INT>), "
        r"wc->status=\(\w{1,40}\)(?P<number><INT>),",
        _survived,
    ),
    pattern(
        "completion status",
        _NET + r"Unsupported completion status (?P<status_name>\w{1,40}) \((?P<wc_status><INT>)\)",
        named("nccl.failover_fatal", why="unsupported status"),
        nccl=True,
    ),
    pattern(
        "error is not fatal",
        _NET + r"The error is not fatal\. Trying to continue",
        named("nccl.port_failover", why="not fatal"),
    ),
    pattern(
        "error is fatal",
        _NET + r"The error is fatal(?: \((?P<why>[^)]{1,200})\))?\.? *(?:Cannot|Can't) continue",
        "nccl.failover_fatal",
    ),
    pattern(
        "marked as failed",
        _NET + r"Device (?P<device_index><INT>) (?:was )?marked as failed"
        r"(?:\.? *Initiating recovery\? *(?P<recovery>\w{1,10}))?",
        "nccl.port_failover",
    ),
    pattern(
        "ort recovery",
        _NET + r"Port recovery (?P<outcome>succeeded|failed) for devIndex=(?P<device_index><INT>)",
        _recovery,
        nccl=True,
    ),
    pattern(
        "recovered",
        _NET + r"(?:Marking device|Device) (?P<device_index><INT>) (?:as|(?:has been )?)\s?recovered",
        "nccl.port_recovered",
        nccl=True,
    ),
    pattern(
        "async",
        _NET + r"(?:(?P<device>[\w.-]{1,40}(?::\d{1,3})?) ?:? )?"
        r"(?P<kind>Got async(?: error)? event|Got (?:non-fatal|fatal) async event|async fatal event)"
        r"(?: on (?P<on>CQ|QP|SRQ|WQ)\b[^:]{0,120}?)? ?: ?(?P<event>.{1,200})",
        _async,
        nccl=True,
    ),
    pattern(
        "encountered a fatal error",
        _NET + r"(?:[\w.:-]{1,60} )?communicator encountered a fatal error"
        r"(?: \(detected in (?P<detected_in>[\w:]{1,80})\))?",
        "nccl.async_fatal",
    ),
    pattern("ailed", _NET + r"(?:Call to )?(?P<call>ibv_\w{3,40}) failed(?P<rest>.*)", _verbs),
    pattern(
        "Unable to open device",
        _NET + r"Unable to open device (?P<device>[\w.:-]{1,40})",
        _open,
        nccl=True,
    ),
)
