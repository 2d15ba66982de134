"""What a pattern is: a shape of line, the stable code that it means, and the fields taken from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from collectors.logs.prefix import Line

Detail = str | int | float | bool
Role = Literal["cause", "effect", "blame", "teardown", "progress", "setting", "info"]
"""What a code is to an attribution.

`cause` says why something broke, `effect` that it broke elsewhere, `blame` names a peer (an edge, not a
verdict), `teardown` is the noise of a job being taken down.
"""

INT: Final = r"\d{1,15}"
"""Digits that fit a 64-bit integer: longer runs in a log are no numbers of ours."""
PEER: Final = r"[^\s,]{1,200}"


@dataclass(slots=True)
class Found:
    """One recognised fact; the fields are those of `topics.payloads.Log`."""

    code: str
    rank: int | None = None
    peer: str | None = None
    device: str | None = None
    wc_status: int | None = None
    collective: str | None = None
    seq: int | None = None
    timeout_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    details: dict[str, Detail] = field(default_factory=dict)


Build = Callable[["re.Match[str]", Line], "Found | tuple[Found, ...] | None"]


@dataclass(frozen=True, slots=True)
class Code:
    """A stable name with its documentation: what it means and where the line's shape was read."""

    name: str
    role: Role
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """`regex` is matched at the start of the line's `on` view; one of `anchors` must be in the line.

    Matching at the start is what keeps quotations out: advice, comments and the output of a log viewer
    have their own words before the quoted ones.
    """

    anchors: tuple[str, ...]
    regex: re.Pattern[str]
    build: Build
    on: Literal["body", "message"] = "message"
    nccl: bool = False
    """Only in lines with NCCL's own prefix: the words alone are too common."""


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    codes: tuple[Code, ...]
    patterns: tuple[Pattern, ...]


_INTS: Final = frozenset({"rank", "seq", "wc_status", "exit_code", "signal"})
_FLOATS: Final = frozenset({"timeout_s"})
_TEXTS: Final = frozenset({"peer", "device", "collective"})
_INT_DETAILS: Final = frozenset(
    {
        "aborted_rank", "attempts", "closed_local_rank", "comm_rank", "count", "cuda_dev",
        "device_index", "epoch", "errno", "expected", "gpu", "group_rank", "ib_devices", "joined",
        "last_completed", "last_enqueued", "left", "length", "local_rank", "missing_seq", "most",
        "node_index", "nranks", "number", "nvml_dev", "ok_rank", "one_rank", "opcode", "other_rank",
        "pg_id", "pid", "port", "ran_ms", "received", "tries", "vendor_err", "waited_ms",
        "waited_s", "workers", "world_size",
    }
)  # fmt: skip
"""Details that are numbers; every other one is text, also when it looks like a number."""


def named(code: str, **details: Detail) -> Build:
    """A builder that takes the named groups: `Log`'s fields by their names, all others as details."""

    def build(match: re.Match[str], _line: Line) -> Found:
        found = Found(code, details=dict(details))
        take(found, match.groupdict())
        return found

    return build


def take(found: Found, groups: Mapping[str, str | None]) -> None:
    """Put captured texts where they belong; what did not take part in the match stays absent."""
    for name, text in groups.items():
        if text is None:
            continue
        if name in _INTS:
            setattr(found, name, int(text))
        elif name in _FLOATS:
            setattr(found, name, float(text))
        elif name in _TEXTS:
            setattr(found, name, text)
        else:
            found.details[name] = int(text) if name in _INT_DETAILS else text.strip()[:500]


def fill(regex: str) -> str:
    """`<INT>` and `<PEER>` stand for the two shapes that every family uses."""
    return regex.replace("<INT>", INT).replace("<PEER>", PEER)


def pattern(
    anchor: str | tuple[str, ...],
    regex: str,
    build: Build | str,
    *,
    on: Literal["body", "message"] = "message",
    nccl: bool = False,
) -> Pattern:
    """A pattern with `<INT>` and `<PEER>` filled in; a text as `build` is the code of a `named` builder."""
    return Pattern(
        anchors=(anchor,) if isinstance(anchor, str) else anchor,
        regex=re.compile(fill(regex)),
        build=named(build) if isinstance(build, str) else build,
        on=on,
        nccl=nccl,
    )
