"""PyTorch distributed: what the NCCL watchdog and the flight recorder say."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.families import pytorch_groups
from collectors.logs.families.cuda import cuda_tail
from collectors.logs.families.nccl import nccl_version, result_code
from collectors.logs.pattern import Build, Code, Detail, Family, Found, fill, pattern, take
from collectors.logs.prefix import Line

_SOURCE: Final = "PyTorch ProcessGroupNCCL.cpp"

CODES: Final = (
    Code(
        "pytorch.watchdog_timeout",
        "effect",
        "A collective did not finish within `timeout_s`. The fault lies about that long before the line; the "
        "event keeps the line's time. `seq`, `collective`, `details.ran_ms`, `details.pg`.",
        f"{_SOURCE}, 1.10 to 2.9",
    ),
    Code(
        "pytorch.watchdog_status",
        "effect",
        "Last enqueued and completed collective of a rank in one process group: whoever is below the others "
        "in `last_enqueued` never joined.",
        f"{_SOURCE}, 2.2 and later",
    ),
    Code(
        "pytorch.watchdog_exception",
        "effect",
        "The watchdog thread ended with an exception; `details.cause` is the code of what it carried.",
        _SOURCE,
    ),
    Code(
        "pytorch.watchdog_stuck",
        "effect",
        "The watchdog itself hangs in a CUDA or NCCL call.",
        f"{_SOURCE}, heartbeat monitor, 2.2 and later",
    ),
    Code(
        "pytorch.flight_recorder_initiator",
        "effect",
        "This rank's own timeout began the flight-recorder dump.",
        f"{_SOURCE}, 2.3 and later",
    ),
    Code(
        "pytorch.flight_recorder_follower",
        "teardown",
        "This rank dumps because another one asked (`peer`, where told): never a root.",
        f"{_SOURCE}, 2.3 and later",
    ),
    Code(
        "pytorch.async_failure",
        "teardown",
        "The process group takes the process down after a failure.",
        _SOURCE,
    ),
    Code(
        "pytorch.comm_aborted",
        "teardown",
        "A collective failed because the communicator was aborted before.",
        f"{_SOURCE}, NCCLUtils.hpp",
    ),
    *pytorch_groups.CODES,
)

_STATUS: Final = re.compile(
    fill(
        r"[Ll]ast enqueued(?: NCCL)? work: (?P<last_enqueued>-?<INT>), "
        r"last completed(?: NCCL)? work: (?P<last_completed>-?<INT>)"
    )
)
_WORK: Final = re.compile(
    fill(
        r"WorkNCCL\((?:SeqNum=(?P<seq><INT>), )?(?:OpType=(?P<collective>\w{1,40}))?"
        r"(?:.{0,300}?Timeout\(ms\)=(?P<timeout_ms><INT>))?.{0,100}?\)"
        r"(?: ran for (?P<ran_ms><INT>) milliseconds)?"
    )
)
_GROUP: Final = re.compile(
    r"\[PG (?:ID )?(?P<pg_id>\d{1,7})?(?: ?PG GUID (?P<pg_guid>[^\s(\]]{1,40}))? ?(?:\((?P<pg>[^)]{0,60})\))?"
)


def _group(found: Found, line: Line) -> None:
    if (seen := _GROUP.search(line.body)) is not None:
        take(found, seen.groupdict())


def _in_group(code: str, **details: Detail) -> Build:
    """Like `named`, with the process group that the line's prefix names."""

    def build(match: re.Match[str], line: Line) -> Found:
        found = Found(code, details=dict(details))
        take(found, match.groupdict())
        _group(found, line)
        return found

    return build


def _work(code: str, text: str, line: Line) -> Found:
    found = Found(code)
    if (seen := _WORK.search(text)) is not None:
        groups = seen.groupdict()
        timeout = groups.pop("timeout_ms")
        take(found, groups)
        if timeout is not None:
            found.timeout_s = int(timeout) / 1000
    _group(found, line)
    return found


def _timeout(match: re.Match[str], line: Line) -> Found:
    return _work("pytorch.watchdog_timeout", match.string, line)


def _status(match: re.Match[str], line: Line) -> Found:
    found = Found("pytorch.watchdog_status")
    take(found, match.groupdict())
    _group(found, line)
    if (seen := _STATUS.search(match.string)) is not None:
        take(found, seen.groupdict())
    return found


def _exception(match: re.Match[str], line: Line) -> Found:
    """A tail that has a code of its own speaks for the line; the rest is `watchdog_exception`."""
    tail = match["tail"]
    if "Watchdog caught collective operation timeout" in tail:
        found = _work("pytorch.watchdog_timeout", tail, line)
        found.details["via"] = "watchdog_exception"
        return found
    if (cuda := cuda_tail(tail)) is not None:
        cuda.details["via"] = "watchdog_exception"
        return cuda
    found = Found("pytorch.watchdog_exception", details={"error": tail[:300]})
    if (cause := result_code(tail)) is not None:
        found.details["cause"] = cause
    if (version := nccl_version(tail)) is not None:
        found.details["nccl_version"] = version
    _group(found, line)
    return found


_OTHER_RANK: Final = re.compile(r"rank (\d{1,7})")


def _dump(match: re.Match[str], line: Line) -> Found:
    """`from this local rank` starts a dump, `from another rank` follows one."""
    rest = match["rest"]
    own = "this local rank" in rest
    found = Found("pytorch.flight_recorder_initiator" if own else "pytorch.flight_recorder_follower")
    if not own and (other := _OTHER_RANK.search(rest)) is not None:
        found.peer = f"rank/{other[1]}"
    if (seen := _STATUS.search(rest)) is not None:
        take(found, seen.groupdict())
    _group(found, line)
    return found


PATTERNS: Final = (
    pattern("Watchdog caught", r"Watchdog caught collective operation timeout\b", _timeout),
    pattern(
        "failure detected by watchdog",
        r"failure detected by watchdog at work sequence id: (?P<seq><INT>)",
        _status,
    ),
    pattern(
        "detected by watchdog",
        r"Exception \(either an error or timeout\) detected by watchdog(?: at work: (?P<seq><INT>))?",
        _status,
    ),
    pattern("Timeout at NCCL work", r"Timeout at NCCL work: (?P<seq><INT>)", _status),
    pattern(
        "atchdog thread terminated",
        r"(?:Process group|NCCL) watchdog thread terminated with exception: ?(?P<tail>.{0,1000})",
        _exception,
    ),
    pattern(
        "to signal dumping",
        r"First PG on this rank to signal dumping",
        _in_group("pytorch.flight_recorder_initiator"),
    ),
    pattern(
        "dump signal",
        r"(?:Observed flight recorder|Received an?|Observed an?) (?:flight recorder )?dump signal "
        r"(?P<rest>.{0,800})",
        _dump,
    ),
    pattern(
        "ast enqueued NCCL work",
        r"Received a (?:global )?timeout (?:signal )?(?P<rest>.{0,800})",
        _dump,
    ),
    pattern(
        "atchdog got stuck",
        r"ProcessGroupNCCL's watchdog got stuck for (?P<timeout_s><INT>) seconds",
        _in_group("pytorch.watchdog_stuck"),
    ),
    pattern(
        "eartbeat monitor timed out",
        r"[Hh]eartbeat monitor timed out",
        _in_group("pytorch.watchdog_stuck"),
    ),
    pattern(
        "atchdog hang",
        r"Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang",
        _in_group("pytorch.watchdog_stuck", terminating=True),
    ),
    pattern(
        "Some NCCL operations",
        r"Some NCCL operations have failed or timed out",
        _in_group("pytorch.async_failure", teardown=True),
    ),
    pattern(
        "NCCL communicator was aborted",
        r"NCCL communicator was aborted on rank (?P<aborted_rank><INT>)",
        _in_group("pytorch.comm_aborted", teardown=True),
    ),
    *pytorch_groups.PATTERNS,
)

FAMILY: Final = Family("pytorch", CODES, PATTERNS)
