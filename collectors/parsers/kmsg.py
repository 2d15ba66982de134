r"""Records of `/dev/kmsg` (kernel ABI document `dev-kmsg`).

`6,339,5140900,-;text` and then, on lines that begin with a space, ` KEY=value` properties. The first
number is facility * 8 + level. Bytes that can't be printed stand as `\xNN`, the backslash itself too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from collectors.parsers.records import writer_of
from topics.payloads import WrittenBy

HEADER: Final = re.compile(r"(\d{1,6}),(\d{1,19}),(\d{1,15}),([^;]{0,256});(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\x([0-9a-fA-F]{2})")


class KmsgRecord(NamedTuple):
    """One record as the device gives it; `time_us` is microseconds on printk's clock since boot."""

    facility: int
    level: int
    seq: int
    time_us: int
    flags: str
    """`-` alone, `c` a fragment that continues an earlier record; then e.g. `caller=T1946`."""
    text: str
    properties: Mapping[str, str]

    @property
    def written_by(self) -> WrittenBy:
        return writer_of(self.facility)


def unescape(text: str) -> str:
    r"""`\xNN` back to bytes, those read as UTF-8; what is no UTF-8 becomes U+FFFD."""
    if "\\x" not in text:
        return text
    raw = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), text.encode("utf-8", "replace"))
    return raw.decode("utf-8", "replace")


def parse_kmsg_record(data: bytes | str) -> KmsgRecord | None:
    """What one `read()` of `/dev/kmsg` returned; None when it has not the form of a record."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    first, _, rest = text.partition("\n")
    found = HEADER.fullmatch(first)
    if not found:
        return None
    prefix = int(found[1])
    properties: dict[str, str] = {}
    if rest:
        for line in rest.split("\n"):
            key, equals, value = line.lstrip(" ").partition("=")
            if equals:
                properties[key] = unescape(value)
    return KmsgRecord(
        prefix >> 3, prefix & 7, int(found[2]), int(found[3]), found[4], unescape(found[5]), properties
    )
