"""rtnetlink link messages (Linux include/uapi/linux/{netlink,rtnetlink,if_link}.h). Pure: bytes in.

Read by hand: three attributes of one message do not justify a library that costs the agent a third of
its memory budget.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18
NLM_F_REQUEST: Final = 0x1
NLM_F_DUMP: Final = 0x300
NLM_F_DUMP_INTR: Final = 0x10
RTMGRP_LINK: Final = 1

IFF_UP: Final = 0x1
IFF_LOWER_UP: Final = 0x10000

_IFLA_IFNAME: Final = 3
_IFLA_EXT_MASK: Final = 29
_IFLA_CARRIER: Final = 33
_IFLA_CARRIER_UP_COUNT: Final = 47
_IFLA_CARRIER_DOWN_COUNT: Final = 48
_RTEXT_FILTER_SKIP_STATS: Final = 1 << 3

_HEADER: Final = struct.Struct("=IHHII")
_IFINFO: Final = struct.Struct("=BxHiII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_U32: Final = struct.Struct("=I")


class TruncatedError(ValueError):
    """A message that does not hold what its length says."""


@dataclass(frozen=True, slots=True)
class LinkMessage:
    """One network device as the kernel tells it."""

    index: int
    name: str
    flags: int
    removed: bool = False
    carrier: bool | None = None
    up_count: int | None = None
    down_count: int | None = None
    dump: bool = False
    """Part of an answer to a request, not a change."""

    @property
    def up(self) -> bool:
        """It can carry traffic: administratively up, and the link is there."""
        carrier = self.carrier if self.carrier is not None else bool(self.flags & IFF_LOWER_UP)
        return bool(self.flags & IFF_UP) and carrier

    @property
    def disabled(self) -> bool:
        return not self.flags & IFF_UP


def dump_request(sequence: int) -> bytes:
    """Ask for every link, without statistics."""
    body = (
        _IFINFO.pack(0, 0, 0, 0, 0) + _ATTRIBUTE.pack(8, _IFLA_EXT_MASK) + _U32.pack(_RTEXT_FILTER_SKIP_STATS)
    )
    return _HEADER.pack(_HEADER.size + len(body), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0) + body


def parse(data: bytes) -> Iterator[LinkMessage | int]:
    """Messages of one datagram: links, and the type of each end-of-dump or error message."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            raise TruncatedError(f"netlink message of {length} bytes in {len(data) - at}")
        if kind in {RTM_NEWLINK, RTM_DELLINK}:
            yield _link(data[at + _HEADER.size : at + length], kind == RTM_DELLINK, dump=sequence != 0)
        elif kind in {NLMSG_DONE, NLMSG_ERROR}:
            yield kind
        at += (length + 3) & ~3


def _link(body: bytes, removed: bool, dump: bool) -> LinkMessage:
    if len(body) < _IFINFO.size:
        raise TruncatedError("link message without its header")
    _, _, index, flags, _ = _IFINFO.unpack_from(body)
    name, carrier, up_count, down_count = "", None, None, None
    for kind, value in _attributes(body, _IFINFO.size):
        if kind == _IFLA_IFNAME:
            name = value.rstrip(b"\0").decode("utf-8", "replace")
        elif kind == _IFLA_CARRIER and value:
            carrier = value[0] == 1
        elif kind == _IFLA_CARRIER_UP_COUNT and len(value) == _U32.size:
            (up_count,) = _U32.unpack(value)
        elif kind == _IFLA_CARRIER_DOWN_COUNT and len(value) == _U32.size:
            (down_count,) = _U32.unpack(value)
    return LinkMessage(index, name, flags, removed, carrier, up_count, down_count, dump)


def _attributes(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size or at + length > len(body):
            raise TruncatedError(f"attribute {kind} of {length} bytes")
        yield kind & 0x3FFF, body[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
