"""Launchers: torchelastic first, then DeepSpeed, MPI, shells and plain start scripts."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line

CODES: Final = (
    Code("elastic.start", "progress", "A launcher started a node's workers.", "torch.distributed.run, start scripts"),
    Code("elastic.child_failed", "effect", "A worker process ended badly: `exit_code`, `signal`, `details.local_rank`.",
         "torch elastic multiprocessing/api.py; DeepSpeed launch.py; mpirun; accelerate"),
    Code("elastic.root_cause", "effect",
         "torchelastic's `Root Cause (first observed failure)` block. First on that agent only: a local order.",
         "torch elastic multiprocessing/errors"),
    Code("elastic.listed_failure", "effect", "Another failure that the same report lists.",
         "torch elastic multiprocessing/errors"),
    Code("elastic.failed", "effect", "The launcher gives up on the program.", "torch elastic multiprocessing/errors"),
    Code("elastic.signal", "effect", "A worker died of a signal.", "torch elastic multiprocessing/errors"),
    Code("elastic.killed", "effect", "The shell reports that a process was killed by a signal.", "bash job control"),
    Code("elastic.sigterm", "teardown", "The launcher ends the remaining workers.", "torch elastic multiprocessing/api.py"),
    Code("elastic.death_signal", "teardown", "The launcher or a worker was told to end from outside.",
         "torch elastic agent/server/api.py; Lightning"),
    Code("elastic.not_exiting", "effect",
         "A process survives SIGKILL: it hangs in the kernel, a strong hint at a wedged GPU or NIC.",
         "torch elastic multiprocessing/api.py"),
    Code("elastic.rendezvous", "effect", "Rendezvous failed or lost a node; after another failure a consequence.",
         "torch elastic rendezvous/dynamic_rendezvous.py"),
    Code("elastic.restart", "progress", "The worker group is started again.", "torch elastic agent/server/api.py"),
)  # fmt: skip


def signed(found: Found) -> Found:
    """`-9` and `137` both mean signal 9."""
    code = found.exit_code
    if code is not None and found.signal is None:
        if -64 <= code < 0:
            found.signal = -code
        elif 128 < code <= 192:
            found.signal = code - 128
    return found


def _failed(match: re.Match[str], _line: Line) -> Found:
    found = Found("elastic.child_failed")
    take(found, match.groupdict())
    return signed(found)


def _died(match: re.Match[str], _line: Line) -> Found:
    found = Found("elastic.child_failed", signal=int(match["number"]) if match["number"] else None)
    found.exit_code = int(match["status"]) if match["status"] else (-found.signal if found.signal else None)
    return signed(found)


_SHELL: Final = {"Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11, "Bus error": 7}


def _shell(match: re.Match[str], _line: Line) -> Found:
    number = _SHELL[match["how"]]
    found = Found("elastic.killed", signal=number)
    take(found, {"pid": match["pid"], "program": match["program"]})
    if number == 15:
        found.details["teardown"] = True
    return found


def _death(match: re.Match[str], _line: Line) -> Found:
    text = match["what"]
    number = (
        int(text)
        if text.isdecimal()
        else {
            "SIGTERM": 15,
            "SIGINT": 2,
            "SIGHUP": 1,
            "SIGQUIT": 3,
            "SIGUSR1": 10,
            "SIGUSR2": 12,
            "SIGKILL": 9,
        }.get(text.removeprefix("Signals."))
    )
    return Found("elastic.death_signal", signal=number, details={"teardown": True})


PATTERNS: Final = (
    pattern("(exitcode:",
            rf"(?:\[.{{1,40}}\] )?failed \(exitcode: (?P<exit_code>-?\d{{1,5}})\)(?: local_rank: (?P<local_rank>{INT}))?(?: \(pid: (?P<pid>{INT})\))?(?: of (?:binary|fn): ?(?P<binary>\S{{1,300}}))?",
            _failed),
    pattern("closing signal", rf"Sending process (?P<pid>{INT}) closing signal (?:Signals\.)?(?P<name>SIG\w{{2,8}})", named("elastic.sigterm", teardown=True)),
    pattern("forcefully exiting", rf"Unable to shutdown process (?P<pid>{INT}) via (?:\d{{1,2}}|\S{{1,20}}), forcefully exiting", named("elastic.sigterm", teardown=True, forced=True)),
    pattern("did not exit after", rf"(?:.{{0,20}} )?[Pp]rocess (?P<pid>{INT}) did not exit after SIGKILL(?: within (?P<waited_s>{INT}) ?s)?", "elastic.not_exiting"),
    pattern("uninterruptible", rf".{{0,80}}?(?:[Pp]rocess|pid) (?P<pid>{INT}).{{0,80}}?uninterruptible (?:kernel )?sleep", "elastic.not_exiting"),
    pattern("death signal", r"Received (?P<what>\d{1,2}|(?:Signals\.)?SIG\w{2,8}) death signal", _death),
    pattern("got signal", rf"Process (?P<pid>{INT}) got signal: (?P<what>\d{{1,2}})", _death),
    pattern("Received SIG", r"Received (?P<what>SIG\w{2,8})(?:: \d{1,2})?\b", _death),
    pattern(") received by PID", rf"\s{{0,4}}(?:traceback ?: )?Signal (?P<signal>\d{{1,2}}) \((?P<name>SIG\w{{2,8}})\) received by PID (?P<pid>{INT})", "elastic.signal"),
    pattern(" FAILED", r"(?P<program>\S{1,300}\.(?:py|sh)|\w[\w.]{0,200}) FAILED\s*$", "elastic.failed"),
    pattern("keep-alive heartbeat", r"The node '(?P<host>[^']{1,200})' has failed to send a keep-alive heartbeat to the rendezvous '(?P<run>[^']{0,200})'(?: due to an error of type (?P<error>\w{1,80}))?", "elastic.rendezvous"),
    pattern("shutdown the rendezvous", r"The node '(?P<host>[^']{1,200})' has failed to shutdown the rendezvous '(?P<run>[^']{0,200})'(?: due to an error of type (?P<error>\w{1,80}))?", named("elastic.rendezvous", teardown=True)),
    pattern("Rendezvous", r"(?:torch\.distributed\.elastic\.rendezvous\.api\.)?(?P<error>Rendezvous(?:Timeout|Closed|Connection|State)Error)\b", "elastic.rendezvous"),
    pattern("Worker group FAILED", rf"(?:\[\w{{1,40}}\] )?Worker group FAILED\. (?P<left>{INT})/(?P<most>{INT}) attempts left", "elastic.restart"),
    pattern("attempts left; will restart", rf"(?:\[\w{{1,40}}\] )?Worker group \w{{1,20}}\. (?P<left>{INT})/(?P<most>{INT}) attempts left; will restart", "elastic.restart"),
    pattern("starting workers", r"(?:\[\w{1,40}\] )?starting workers for entrypoint: (?P<program>\S{1,200})", "elastic.start"),
    pattern("launcher: ", rf"launcher: (?P<workers>{INT}) workers? on (?P<node>\S{{1,80}}?)(?:, rendezvous (?P<rendezvous>[^\s,]{{1,100}}))?(?:, program (?P<program>\S{{1,300}}))?$", "elastic.start", on="body"),
    pattern("launcher: ", rf"launcher: forwarding (?P<name>SIG\w{{2,8}}) to (?P<workers>{INT}) workers? on (?P<node>\S{{1,80}})", named("elastic.sigterm", teardown=True), on="body"),
    pattern("exits with return code", r".{0,400}?exits with return code = (?P<exit_code>-?\d{1,5})", _failed),
    pattern("illing subprocess", rf"Killing subprocess (?P<pid>{INT})", named("elastic.sigterm", teardown=True)),
    pattern("noticed that process rank", rf"(?:mpirun|prterun|orterun|mpiexec)(?:\.\w{{1,20}})? noticed that process rank (?P<rank>{INT}) with PID (?P<pid>{INT}) on node (?P<node>\S{{1,80}}) exited on signal (?P<signal>\d{{1,2}})", "elastic.child_failed"),
    pattern("MPI_ABORT was invoked", rf"MPI_ABORT was invoked on rank (?P<rank>{INT}) in communicator", "elastic.child_failed"),
    pattern(("died with <Signals", "non-zero exit status"), r"Command .{1,2000}? (?:died with <Signals\.SIG\w{2,8}: (?P<number>\d{1,2})>|returned non-zero exit status (?P<status>-?\d{1,5}))", _died),
    pattern(("Killed", "Terminated", "Aborted", "Segmentation fault", "Bus error"),
            rf"(?:\S{{1,200}}: line {INT}: )(?P<pid>{INT}) (?P<how>Killed|Terminated|Aborted|Segmentation fault|Bus error)\b(?: +\(core dumped\))?(?: +(?P<program>\S.{{0,100}}))?", _shell),
)  # fmt: skip

FAMILY: Final = Family("elastic", CODES, PATTERNS)
