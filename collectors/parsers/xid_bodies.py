"""Bodies of XID lines: the fields that each code prints after its process.

Most of these texts are put together by firmware and differ a little between releases, so each decoder
takes what it recognises and leaves the rest; none ever fails. Values are text or numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from collectors.parsers import nvlink_words
from collectors.parsers.catalog import recovery_actions
from topics.payloads import Severity

Details = dict[str, str | int]


@dataclass(slots=True)
class Body:
    details: Details = field(default_factory=dict)
    link: int | None = None
    recovery_action: str | None = None
    severity: Severity | None = None
    """Where the body knows better than the catalogue."""


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


_SM: Final = _re(r"\(GPC (\d{1,3}), TPC (\d{1,3})(?:, SM (\d{1,3}))?\)(?:: ?([^,(]{1,80}))?")
_ESR: Final = _re(r"ESR (0x[0-9a-f]{1,16})=(0x[0-9a-f]{1,16})")
_CHANNEL: Final = _re(r"\bch(?:annel|id)? (?:0x)?([0-9a-f]{1,16})\b")
_MMU: Final = _re(
    r"ENGINE (\S{1,40})(?: (GPC\d{1,3}))?(?: (\S{1,60}))? faulted @ (0x[0-9a-f]{1,16}(?:_[0-9a-f]{1,8})?)"
)
_FAULT_TYPE: Final = _re(r"type (FAULT_\w{1,40})(?: (ACCESS_TYPE_\w{1,40}))?")
_PARTITION: Final = _re(r"partition (\d{1,4}), subpartition (\d{1,4})")
_FBPA: Final = _re(r"FBPA (\d{1,4}) subpartition (\d{1,4})")
_PHYSICAL: Final = _re(r"physaddr:? ?(0x[0-9a-f]{1,16})")
_ADDRESS: Final = _re(r"\((0x[0-9a-f]{1,16})\)")
_CONTAINMENT: Final = _re(r"(?:Un)?contained: ([\w /-]{1,60}?) ?\((0x[^)]{1,60})\)")
_RESET: Final = _re(r"\bRST: (Yes|No), D-RST: (Yes|No)")
_NVLINK: Final = _re(r"\blinks? (0x[0-9a-f]{1,16}|\d{1,4})\b(?: ?\((0x[^)]{1,200}))?")
_HEX: Final = _re(r"0x([0-9a-f]{1,16})")
_GSP_TIMEOUT: Final = _re(r"Timeout after (\d{1,6})s? of waiting for RPC response from GPU(\d{1,4}) GSP")
_GSP_FUNCTION: Final = _re(r"Expected function (\d{1,6}) \((\w{1,80})\)(?: sequence (\d{1,19}))?")
_GSP_TASK: Final = _re(r"GSP task exception: ([^,(@]{1,80})")
_COUNTS: Final = _re(r"\b(DRAM|LTC|MMU|PCIE): ?(\d{1,9})")
_STATUS: Final = _re(r"status (?:=|code)? ?(0x[0-9a-f]{1,16})")
_RECOVERY: Final = _re(r"from (0x[0-9a-f]{1,8}) \(([^)]{1,40})\) to (0x[0-9a-f]{1,8}) \(([^)]{1,40})\)")
_ERROR_STRING: Final = _re(r"errorString ([^,]{1,80})")
_MARKING: Final = _re(r"Marking LTS (\d{1,4}) in FPB? ?(\d{1,4})")
_MEMORY: Final = _re(r"^([\w-]{1,20}), Uncorrectable (DRAM|SRAM) error")


def decode(code: int, text: str) -> Body:
    """The fields of a body; empty for codes and texts that print none."""
    body = Body()
    decoder = _DECODERS.get(code)
    if decoder:
        decoder(text, body)
    return body


def _graphics(text: str, body: Body) -> None:
    sm = _SM.search(text)
    if sm:
        body.details.update(gpc=int(sm[1]), tpc=int(sm[2]))
        if sm[3]:
            body.details["sm"] = int(sm[3])
        if sm[4]:
            body.details["error"] = sm[4].strip()
    esr = _ESR.search(text)
    if esr:
        body.details.update(esr_register=esr[1].lower(), esr=esr[2].lower())
    _channel(text, body)


def _channel(text: str, body: Body) -> None:
    channel = _CHANNEL.search(text)
    if channel:
        body.details["channel"] = f"0x{int(channel[1], 16):x}"
    said = _ERROR_STRING.search(text)
    if said:
        body.details["error"] = said[1].strip()


def _mmu_fault(text: str, body: Body) -> None:
    _channel(text, body)
    mmu = _MMU.search(text)
    if mmu:
        body.details.update(engine=mmu[1], address=mmu[4].lower())
        if mmu[2]:
            body.details["gpc"] = int(mmu[2][3:])
        if mmu[3]:
            body.details["client"] = mmu[3]
    fault = _FAULT_TYPE.search(text)
    if fault:
        body.details["fault_type"] = fault[1].upper()
        if fault[2]:
            body.details["access_type"] = fault[2].upper()


def _double_bit(text: str, body: Body) -> None:
    _channel(text, body)
    place = _PARTITION.search(text)
    if place:
        body.details.update(partition=int(place[1]), subpartition=int(place[2]))
    _physical(text, body)


def _physical(text: str, body: Body) -> None:
    address = _PHYSICAL.search(text)
    if address:
        body.details["physical_address"] = address[1].lower()


def _repair(text: str, body: Body) -> None:
    lower = text.lower()
    if "row remap" in lower:
        body.details["repair"] = "row_remap"
    elif "retire" in lower:
        body.details["repair"] = "page_retirement"
    address = _ADDRESS.search(text)
    if address:
        body.details["physical_address"] = address[1].lower()
    if "reset gpu to activate" in lower or "reload the driver to activate" in lower:
        body.details["pending"] = 1


def _nvlink(text: str, body: Body) -> None:
    found = _NVLINK.search(text)
    if not found:
        return
    if found[1].lower().startswith("0x"):
        body.details["links"] = found[1].lower()
    else:
        body.link = int(found[1])
    if found[2]:
        body.details["words"] = " ".join(f"0x{word.lower()}" for word in _HEX.findall(found[2]))


def _nvlink_error(text: str, body: Body) -> None:
    _nvlink(text, body)
    words = [int(word, 16) for word in str(body.details.get("words", "")).split()]
    if words:
        said = nvlink_words.hint(words)
        body.details["hint"] = said
        if said in nvlink_words.HARMLESS:
            body.severity = "warning"


def _contained(text: str, body: Body) -> None:
    found = _CONTAINMENT.search(text)
    if found:
        body.details.update(unit=found[1].strip(), location=" ".join(found[2].lower().split()))
    _physical(text, body)
    reset = _RESET.search(text)
    if reset:
        body.details.update(
            reset_required=int(reset[1].lower() == "yes"), drain_and_reset=int(reset[2].lower() == "yes")
        )


def _gsp_rpc(text: str, body: Body) -> None:
    timeout = _GSP_TIMEOUT.search(text)
    if timeout:
        body.details.update(timeout_s=int(timeout[1]), gsp=int(timeout[2]))
    function = _GSP_FUNCTION.search(text)
    if function:
        body.details.update(function=int(function[1]), function_name=function[2])
        if function[3]:
            body.details["rpc_sequence"] = int(function[3])


def _gsp_error(text: str, body: Body) -> None:
    task = _GSP_TASK.search(text)
    if task:
        body.details["exception"] = task[1].strip()
    _channel(text, body)


def _escaped(text: str, body: Body) -> None:
    for unit, count in _COUNTS.findall(text):
        body.details[unit.lower()] = int(count)


def _init(text: str, body: Body) -> None:
    status = _STATUS.search(text)
    if status:
        body.details["status"] = status[1].lower()
    if "FSP" in text:
        body.details["unit"] = "FSP"


def _recovery(text: str, body: Body) -> None:
    found = _RECOVERY.search(text)
    if not found:
        return
    before, after = (recovery_actions().get(int(found[group], 16)) for group in (1, 3))
    body.details.update(
        previous_action=before.name if before else _slug(found[2]),
        recovery_code=int(found[3], 16),
    )
    body.recovery_action = after.name if after else _slug(found[4])
    body.severity = after.severity if after else "error"


def _slug(text: str) -> str:
    return "_".join(text.lower().split())


def _memory_location(text: str, body: Body) -> None:
    kind = _MEMORY.search(text)
    if kind:
        body.details.update(unit=kind[1], memory=kind[2].upper())
    place = _FBPA.search(text)
    if place:
        body.details.update(fbpa=int(place[1]), subpartition=int(place[2]))
    _physical(text, body)


def _channel_retirement(text: str, body: Body) -> None:
    found = _MARKING.search(text)
    if found:
        body.details.update(lts=int(found[1]), fbp=int(found[2]))


_DECODERS: Final[dict[int, Callable[[str, Body], None]]] = {
    13: _graphics,
    31: _mmu_fault,
    43: _channel,
    45: _channel,
    48: _double_bit,
    63: _repair,
    64: _repair,
    74: _nvlink_error,
    94: _contained,
    95: _contained,
    109: _channel,
    119: _gsp_rpc,
    120: _gsp_error,
    136: _nvlink,
    140: _escaped,
    143: _init,
    154: _recovery,
    160: _channel_retirement,
    171: _memory_location,
    172: _memory_location,
    175: _gsp_rpc,
}
DECODED_CODES: Final = frozenset(_DECODERS)
