"""NCCL: settings at start-up, sockets and bootstrap, results, everything but the InfiniBand transport."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.families import nccl_ib
from collectors.logs.pattern import INT, PEER, Code, Family, Found, named, pattern
from collectors.logs.prefix import Line
from collectors.logs.tables import cuda_error

_F: Final = r"(?:[A-Za-z_]\w{1,40} ?: ?)?"
"""The function that speaks: `socketProgress: `, `Net : `."""

CODES: Final = (
    Code("nccl.version", "setting", "The NCCL version that a rank runs (`details.version`).",
         "NCCL init.cc, showVersion"),
    Code("nccl.env", "setting", "An NCCL_* setting in force, under its own name in `details`.",
         "NCCL misc/param.cc and debug.cc"),
    Code("nccl.bootstrap", "setting",
         "The rank's own bootstrap address: maps the peers that other ranks print to nodes.",
         "NCCL bootstrap.cc"),
    Code("nccl.net", "setting", "Transport and devices in use: IB, RoCE, Socket, EFA or another plugin.",
         "NCCL net.cc, net_ib.cc, net_socket.cc; aws-ofi-nccl"),
    Code("nccl.init_start", "progress", "A rank began to join a communicator.", "NCCL init.cc"),
    Code("nccl.init_complete", "progress",
         "A rank joined a communicator; its rank there, GPU and PCI address are in `details`.", "NCCL init.cc"),
    Code("nccl.socket_closed", "blame", "A peer closed its connection: it died or was taken down.",
         "NCCL misc/socket.cc, include/socket.h before 2.13"),
    Code("nccl.socket_error", "blame", "A socket call towards a peer failed (`details.error`).",
         "NCCL misc/socket.cc"),
    Code("nccl.message_truncated", "effect", "Two ends disagree on a message's size: mismatched collectives.",
         "NCCL misc/socket.cc, transport/net_socket.cc"),
    Code("nccl.bootstrap_error", "effect", "Ranks could not find each other at start-up.", "NCCL bootstrap.cc"),
    Code("nccl.remote_error", "blame", "ncclRemoteError: a peer exited or the network failed.", "NCCL nccl.h"),
    Code("nccl.system_error", "effect", "ncclSystemError: a system or library call failed.", "NCCL nccl.h"),
    Code("nccl.internal_error", "effect", "ncclInternalError: an inner check failed, or memory was corrupted.",
         "NCCL nccl.h"),
    Code("nccl.invalid_usage", "cause", "ncclInvalidUsage or ncclInvalidArgument: the program is wrong.",
         "NCCL nccl.h"),
    Code("nccl.cuda_error", "effect", "A CUDA call inside NCCL failed, without a CUDA code of its own.",
         "NCCL checks.h"),
    Code("nccl.nvls_error", "effect",
         "NVLink SHARP or multi-node NVLink could not be set up: Fabric Manager or NVSwitch.",
         "NCCL transport/nvls.cc, mnnvl.cc"),
    Code("nccl.shm_error", "effect", "Shared memory could not be had: /dev/shm is full or too small.",
         "NCCL misc/shmutils.cc"),
    Code("nccl.ofi_error", "blame", "A request of the libfabric plugin (EFA) failed.", "aws-ofi-nccl"),
    Code("nccl.local_rank_closed", "teardown", "Another rank of this node closed its proxy connection.",
         "NCCL proxy.cc, service thread"),
    Code("nccl.abort", "teardown", "A communicator was aborted.", "NCCL init.cc"),
    Code("nccl.warning", "info", "An NCCL WARN line of another kind.", "NCCL debug.h"),
    *nccl_ib.CODES,
)  # fmt: skip

_RESULTS: Final = {
    "ncclRemoteError": "nccl.remote_error",
    "remote process exited or there was a network error": "nccl.remote_error",
    "ncclSystemError": "nccl.system_error",
    "unhandled system error": "nccl.system_error",
    "ncclInternalError": "nccl.internal_error",
    "internal error": "nccl.internal_error",
    "ncclUnhandledCudaError": "nccl.cuda_error",
    "unhandled cuda error": "nccl.cuda_error",
    "ncclInvalidUsage": "nccl.invalid_usage",
    "invalid usage": "nccl.invalid_usage",
    "ncclInvalidArgument": "nccl.invalid_usage",
    "invalid argument": "nccl.invalid_usage",
}
RESULT: Final = "|".join(sorted(map(re.escape, _RESULTS), key=len, reverse=True))
_BARE: Final = "|".join(re.escape(r) for r in _RESULTS if r.startswith(("nccl", "remote", "unhandled")))
"""The results that are unmistakable without `NCCL error` in front."""


def result_code(text: str) -> str | None:
    """The code of a result name or result string anywhere in `text`."""
    seen = re.search(RESULT, text)
    return _RESULTS[seen[0]] if seen else None


def _result(match: re.Match[str], _line: Line) -> Found:
    found = Found(_RESULTS[match["result"]])
    if (version := re.search(r"NCCL version (\d+\.\d+(?:\.\d+)?)", match.string)) is not None:
        found.details["version"] = version[1]
    return found


def _env(match: re.Match[str], _line: Line) -> Found:
    value = match["value"].strip().strip('"').rstrip(".")
    return Found(
        "nccl.env",
        details={match["name"]: int(value) if value.isdecimal() and len(value) < 16 else value[:200]},
    )


def _cuda(match: re.Match[str], _line: Line) -> Found:
    text = match["text"] or ""
    known = cuda_error(text) or (cuda_error(match["number"]) if match["number"] else None)
    found = Found(known.code if known else "nccl.cuda_error", details={"via": "nccl"})
    if text:
        found.details["error"] = text[:200]
    if match["number"]:
        found.details["number"] = int(match["number"])
    if known:
        found.details["means"] = known.means
    return found


def _net(match: re.Match[str], _line: Line) -> Found:
    devices = re.findall(r"\[\d{1,3}\]\{?(?:\[\d\] )?([\w.-]{1,40}:\d{1,3}/(?:IB|RoCE))", match["devices"])
    found = Found("nccl.net", details={"net": "RoCE" if any(d.endswith("/RoCE") for d in devices) else "IB"})
    found.details["devices"] = ",".join(d.rpartition("/")[0] for d in devices[:32])
    if (oob := re.search(rf"OOB ([\w.-]{{1,40}}):({PEER}?)<{INT}>", match["devices"])) is not None:
        found.details["oob_ifname"], found.details["address"] = oob[1], oob[2].strip("[]")
    return found


def _warning(_match: re.Match[str], line: Line) -> Found | None:
    """Whatever else NCCL says at WARN (its version line also comes at VERSION)."""
    if line.nccl_level != "WARN" or not line.message:
        return None
    return Found("nccl.warning")


PATTERNS: Final = (
    pattern("NCCL version", r"(?:NCCL )?NCCL version (?P<version>\d+\.\d+[\w.+-]{0,30})\s*$", "nccl.version"),
    pattern("NCCL version", r"NCCL version (?P<version>\d+\.\d+[\w.+-]{0,30})(?: compiled with .{0,60})?$", "nccl.version"),
    pattern("set by environment to", r"(?P<name>NCCL_\w{2,60}) set by environment to (?P<value>.{1,300})", _env),
    pattern("NCCL_", r"(?P<name>NCCL_\w{2,60}) set to (?P<value>\S{1,300})\s*$", _env),
    pattern("NCCL_", r"(?:\+ )?(?:export |declare -x )?(?P<name>NCCL_\w{2,60})=(?P<value>\"?[\w.,:^=*/-]{1,200}\"?)\s*$", _env),
    pattern("Bootstrap",
            rf"Bootstrap ?: ?Using (?P<ifname>[\w.-]{{1,40}}):\[?(?P<address>[^\s<\]]{{2,80}})\]?(?:%[\w.-]{{1,40}})?<(?P<port>{INT})>",
            "nccl.bootstrap"),
    pattern("NET/IB", r"NET/IB\w{0,8} ?: ?Using (?P<devices>\[\d{1,3}\].{3,2000})", _net),
    pattern("NET/Socket", r"NET/Socket ?: ?Using (?P<devices>\[\d.{3,300})", named("nccl.net", net="Socket")),
    pattern("NET/IB", r"NET/IB ?: ?No device found", named("nccl.net", ib_devices=0)),
    pattern("Using network", r"Using network (?P<net>[\w ./-]{1,40})", "nccl.net"),
    pattern("NET/OFI", r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w-]{1,40})", named("nccl.net", net="OFI")),
    pattern("Init COMPLETE",
            rf"(?:ncclComm\w* )?comm 0x(?P<comm>[0-9a-f]{{1,16}}) rank (?P<comm_rank>{INT}) n[rR]anks (?P<nranks>{INT})"
            rf"(?: cudaDev (?P<cuda_dev>-?{INT}))?(?: nvmlDev (?P<nvml_dev>-?{INT}))?(?: busId (?P<bus_id>[0-9a-f]{{1,16}}))?"
            r"(?: .{0,80}?)? ?- ?Init COMPLETE", "nccl.init_complete"),
    pattern("Init START",
            rf"(?:ncclComm\w* )?comm 0x(?P<comm>[0-9a-f]{{1,16}}) rank (?P<comm_rank>{INT}) n[rR]anks (?P<nranks>{INT})"
            r".{0,160}? ?- ?Init START", "nccl.init_start"),
    pattern("Abort COMPLETE", r"(?:\w{1,40} )?comm 0x(?P<comm>[0-9a-f]{1,16}).{0,200}? ?- ?Abort COMPLETE",
            named("nccl.abort", teardown=True)),
    pattern("losed by localRank", rf"(?:\[[^\]]{{1,60}}\] )?Connection closed by localRank (?P<closed_local_rank>{INT})",
            named("nccl.local_rank_closed", teardown=True)),
    *nccl_ib.PATTERNS,
    pattern("losed by remote peer", rf"{_F}Connection closed by remote peer (?P<peer>{PEER})", "nccl.socket_closed"),
    pattern("Call to ", rf"{_F}Call to (?P<call>recv|send|read|write|recvmsg|sendmsg) (?:from|to) (?P<peer>{PEER}) failed ?: ?(?P<error>.{{1,200}})",
            "nccl.socket_error"),
    pattern("onnect to ",
            rf"{_F}[Cc]onnect to (?P<peer>{PEER}) (?:failed(?: with error)? ?:? ?|returned )(?P<error>(?:(?!retrying).){{1,120}}?)"
            rf"(?:, exceeded error retry count(?: limit)?(?: after (?P<attempts>{INT}) attempts)?.{{0,40}})?$", "nccl.socket_error"),
    pattern("exceeded", rf"{_F}[Cc]onnect to (?P<peer>{PEER}) returned (?P<error>.{{1,120}}?),? exceeded", "nccl.socket_error"),
    pattern("Call to ", rf"{_F}Call to (?P<call>bind|listen|accept|connect|poll|getsockname|setsockopt|socket|recv|send) failed ?:? ?(?:with )?(?P<error>.{{1,200}})",
            "nccl.socket_error"),
    pattern("essage truncated", rf"{_F}(?:From \S{{1,80}} )?[Mm]essage truncated ?: received (?P<received>{INT}) bytes instead of (?P<expected>{INT})",
            "nccl.message_truncated"),
    pattern("ootstrap", rf"{_F}Bootstrap ?:? ?(?:no socket interface found|Root ?: .{{1,200}})", "nccl.bootstrap_error"),
    pattern("ootstrap", r"(?:bootstrap\w{0,30}|Bootstrap\w{0,30})\b.{0,60}?\b(?:timed out|timeout|failed|mismatch)(?P<error>.{0,120})", "nccl.bootstrap_error"),
    pattern("ismatch in rank count", rf"{_F}.{{0,60}}?mismatch in rank count from procs (?P<expected>{INT}) : (?P<received>{INT})", "nccl.bootstrap_error"),
    pattern("Cuda failure", r"Cuda failure (?P<number>\d{1,5})? ?'(?P<text>[^']{1,200})'", _cuda),
    pattern("uda failure", r"(?:NCCL )?[Cc]uda failure .{0,200}?:? ?(?P<number>\d{1,5})? ?'?(?P<text>[a-zA-Z][^']{3,120})'?$", _cuda),
    pattern(("NVLS", "MNNVL", "Multicast", "CliqueId"),
            r"(?:Failed to (?:bind|create|map|set access|get|add).{0,60}?(?:NVLS|Multicast|multicast)|(?:MNNVL|NVLS)\b.{0,80}?(?:fail|error|not (?:available|initialized)|unhealthy))(?P<error>.{0,200})",
            "nccl.nvls_error"),
    pattern("shared memory", r"(?:Error(?: while)?|error|Failed to|Unable to|unable to|Could not).{0,60}?shared memory(?: segment)? ?(?P<path>/\S{1,120})?.{0,120}", "nccl.shm_error"),
    pattern("posix_fallocate", r"Call to posix_fallocate failed ?:? ?(?P<error>.{1,120})", "nccl.shm_error"),
    pattern("NET/OFI", r"NET/OFI .{0,120}?(?:completed with error|Unresponsive|unresponsive|failed with|Failed to)(?P<error>.{0,200})", "nccl.ofi_error"),
    pattern(("NCCL error", "NCCL Error", "NCCL failure"),
            rf"NCCL (?:[Ee]rror|failure)(?: in)?:? ?(?:(?!{RESULT}).){{0,240}}?(?P<result>{RESULT})(?=[,:.\s]|$)", _result),
    pattern(("nccl", "network error", "unhandled "), rf"(?P<result>{_BARE})(?=[,:.\s]|$)", _result),
    pattern("NCCL WARN", r"", _warning),
)  # fmt: skip

FAMILY: Final = Family("nccl", CODES, PATTERNS)
