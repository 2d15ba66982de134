"""Launchers: torchelastic first, then DeepSpeed, MPI, shells and plain start scripts."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line
from collectors.logs.signals import BY_WORD, number_of, signed

_ERRORS: Final = "torch elastic multiprocessing/errors"

CODES: Final = (
    Code("elastic.start", "progress", "A launcher started a node's workers.", "start scripts"),
    Code(
        "elastic.child_failed",
        "effect",
        "A worker process ended badly: `exit_code`, `signal`, `details.local_rank`.",
        "torch elastic multiprocessing/api.py; DeepSpeed launch.py; mpirun; accelerate",
    ),
    Code(
        "elastic.root_cause",
        "effect",
        "torchelastic's `Root Cause (first observed failure)` block: `rank`, `exit_code`, `signal`, "
        "`details.time`, `details.host`. First on that agent only: a local order.",
        _ERRORS,
    ),
    Code("elastic.listed_failure", "effect", "Another failure that the same report lists.", _ERRORS),
    Code("elastic.failed", "effect", "The launcher gives up on the program.", _ERRORS),
    Code("elastic.signal", "effect", "A worker died of a signal.", _ERRORS),
    Code(
        "elastic.killed",
        "effect",
        "A shell reports that a process was killed by a signal.",
        "bash job control",
    ),
    Code(
        "elastic.sigterm",
        "teardown",
        "The launcher ends the remaining workers.",
        "torch elastic multiprocessing/api.py; DeepSpeed launch.py",
    ),
    Code(
        "elastic.death_signal",
        "teardown",
        "The launcher or a worker was told to end from outside.",
        "torch elastic agent/server/api.py; Lightning",
    ),
    Code(
        "elastic.not_exiting",
        "effect",
        "A process survives SIGKILL: it hangs in the kernel, a strong hint at a wedged GPU or NIC.",
        "torch elastic multiprocessing/api.py",
    ),
    Code(
        "elastic.rendezvous",
        "effect",
        "Rendezvous failed or lost a node; after another failure a consequence.",
        "torch elastic rendezvous/dynamic_rendezvous.py",
    ),
    Code(
        "elastic.restart",
        "progress",
        "The worker group is started again.",
        "torch elastic agent/server/api.py",
    ),
)


def _failed(match: re.Match[str], _line: Line) -> Found:
    found = Found("elastic.child_failed")
    take(found, match.groupdict())
    return signed(found)


def _died(match: re.Match[str], _line: Line) -> Found:
    signal = int(match["number"]) if match["number"] else None
    found = Found("elastic.child_failed", signal=signal, exit_code=-signal if signal else None)
    if match["status"]:
        found.exit_code = int(match["status"])
    return signed(found)


def _shell(match: re.Match[str], _line: Line) -> Found:
    found = Found("elastic.killed", signal=BY_WORD[match["how"]])
    take(found, {"pid": match["pid"], "program": match["program"]})
    if found.signal == 15:
        found.details["teardown"] = True
    return found


def _death(match: re.Match[str], _line: Line) -> Found:
    return Found("elastic.death_signal", signal=number_of(match["what"]), details={"teardown": True})


PATTERNS: Final = (
    pattern(
        "failed (exitcode:",
        r"failed \(exitcode: (?P<exit_code>-?\d{1,5})\)(?: local_rank: (?P<local_rank><INT>))?"
        r"(?: \(pid: (?P<pid><INT>)\))?(?: of (?:binary|fn): ?(?P<binary>\S{1,300}))?",
        _failed,
    ),
    pattern(
        "closing signal",
        r"Sending process (?P<pid><INT>) closing signal (?:Signals\.)?(?P<name>SIG\w{2,8})",
        named("elastic.sigterm", teardown=True),
    ),
    pattern(
        "SIG",
        r"(?:\w{1,20} )?[Pp]rocess (?P<pid><INT>)(?: \([^)]{1,60}\))? did not exit after SIGKILL(?: within "
        r"(?P<waited_s><INT>) "
        r"?s)?",
        "elastic.not_exiting",
    ),
    pattern(
        "SIG",
        r"Unable to shutdown process (?P<pid><INT>) via \S{1,20}, forcefully exiting",
        named("elastic.sigterm", teardown=True, forced=True),
    ),
    pattern("death signal", r"Received (?P<what>\d{1,2}|(?:Signals\.)?SIG\w{2,8}) death signal", _death),
    pattern("got signal", r"Process <INT> got signal: (?P<what>\d{1,2})", _death),
    pattern("Received SIG", r"Received (?P<what>SIG\w{2,8})(?:: \d{1,2})?\s*(?:$|[,.])", _death),
    pattern(
        "(SIG",
        r"Signal (?P<signal>\d{1,2}) \((?P<name>SIG\w{2,8})\) received by PID (?P<pid><INT>)",
        "elastic.signal",
    ),
    pattern(" FAILED", r"(?P<program>[\w./+-]{1,300}\.(?:py|sh)) FAILED\s*$", "elastic.failed", on="body"),
    pattern(
        "failed to send a keep-alive heartbeat",
        r"The node '(?P<host>[^']{1,200}?)(?:_<INT>_<INT>)?' has failed to send a keep-alive heartbeat to "
        r"the rendezvous "
        r"'(?P<run>[^']{0,200})'(?: due to an error of type (?P<error>\w{1,80}))?",
        "elastic.rendezvous",
    ),
    pattern(
        "failed to shutdown the rendezvous",
        r"The node '(?P<host>[^']{1,200}?)(?:_<INT>_<INT>)?' has failed to shutdown the rendezvous '"
        r"(?P<run>[^']{0,200})'"
        r"(?: due to an error of type (?P<error>\w{1,80}))?",
        named("elastic.rendezvous", teardown=True),
    ),
    pattern(
        (
            "RendezvousTimeoutError",
            "RendezvousClosedError",
            "RendezvousConnectionError",
            "RendezvousStateError",
        ),
        r"(?:torch\.distributed\.elastic\.rendezvous\.api\.)?"
        r"(?P<error>Rendezvous(?:Timeout|Closed|Connection|State)Error)(?:: |\s*$)",
        "elastic.rendezvous",
        on="body",
    ),
    pattern(
        "Worker group FAILED",
        r"(?:\[\w{1,40}\] )?Worker group FAILED\. (?P<left><INT>)/(?P<most><INT>) attempts left",
        "elastic.restart",
    ),
    pattern(
        "launcher: ",
        r"launcher: (?P<workers><INT>) workers? on (?P<node>[^\s,]{1,80})(?:, rendezvous "
        r"(?P<rendezvous>[^\s,]{1,100}))?"
        r"(?:, program (?P<program>\S{1,300}))?\s*$",
        "elastic.start",
        on="body",
    ),
    pattern(
        "launcher: ",
        r"launcher: forwarding (?P<name>SIG\w{2,8}) to (?P<workers><INT>) workers? on (?P<node>[^\s,]{1,80})",
        named("elastic.sigterm", teardown=True),
        on="body",
    ),
    pattern(
        "sigkill_handler",
        r"\['.{0,1000}?'\] exits with return code = (?P<exit_code>-?\d{1,5})",
        _failed,
    ),
    pattern(
        "sigkill_handler",
        r"Killing subprocess (?P<pid><INT>)",
        named("elastic.sigterm", teardown=True),
    ),
    pattern(
        "exited on signal",
        r"(?:mpirun|prterun|orterun|mpiexec) noticed that process rank (?P<rank><INT>) with PID "
        r"(?P<pid><INT>) on node "
        r"(?P<node>\S{1,80}) exited on signal (?P<signal>\d{1,2})",
        "elastic.child_failed",
        on="body",
    ),
    pattern(
        "MPI_ABORT",
        r"MPI_ABORT was invoked on rank (?P<rank><INT>) in communicator",
        "elastic.child_failed",
        on="body",
    ),
    pattern(
        "rror: Command ",
        r"Command .{1,2000}?(?:died with <Signals\.SIG\w{2,8}: (?P<number>\d{1,2})>"
        r"|returned non-zero exit status (?P<status>-?\d{1,5}))",
        _died,
    ),
    pattern(
        ": line ",
        r"[\w./+-]{1,200}: line <INT>: +(?P<pid><INT>) (?P<how>Killed|Terminated|Aborted|Segmentation fault"
        r"|Bus error)\b"
        r"(?: +\(core dumped\))?(?: +(?P<program>\S.{0,100}))?",
        _shell,
        on="body",
    ),
)

FAMILY: Final = Family("elastic", CODES, PATTERNS)
