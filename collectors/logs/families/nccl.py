"""NCCL: settings at start-up, results, and what is neither InfiniBand nor a socket."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.families import nccl_ib, nccl_sockets
from collectors.logs.pattern import Code, Family, Found, named, pattern
from collectors.logs.prefix import Line
from collectors.logs.tables import cuda_error

CODES: Final = (
    Code(
        "nccl.version",
        "setting",
        "The NCCL version that a rank runs (`details.version`).",
        "NCCL init.cc, showVersion",
    ),
    Code(
        "nccl.env",
        "setting",
        "An NCCL_* setting in force, under its own name in `details`.",
        "NCCL misc/param.cc, debug.cc; `env` and `export` lines of job scripts",
    ),
    Code(
        "nccl.bootstrap",
        "setting",
        "The rank's own bootstrap address (`details.address`): maps the peers that other ranks print to "
        "nodes.",
        "NCCL bootstrap.cc",
    ),
    Code(
        "nccl.net",
        "setting",
        "Transport and devices in use (`details.net`: IB, RoCE, Socket, a plugin's name).",
        "NCCL net.cc, net_ib.cc, net_socket.cc; aws-ofi-nccl",
    ),
    Code("nccl.init_start", "progress", "A rank began to join a communicator.", "NCCL init.cc"),
    Code(
        "nccl.init_complete",
        "progress",
        "A rank joined a communicator; its rank there, GPU and PCI address are in `details`.",
        "NCCL init.cc",
    ),
    Code(
        "nccl.remote_error",
        "blame",
        "ncclRemoteError: a peer exited or the network failed.",
        "NCCL nccl.h, init.cc; PyTorch NCCLUtils.cpp",
    ),
    Code(
        "nccl.system_error",
        "effect",
        "ncclSystemError: a system or library call failed.",
        "NCCL nccl.h, init.cc; PyTorch NCCLUtils.cpp",
    ),
    Code(
        "nccl.internal_error",
        "effect",
        "ncclInternalError: an inner check failed, or memory was corrupted.",
        "NCCL nccl.h, init.cc; PyTorch NCCLUtils.cpp",
    ),
    Code(
        "nccl.invalid_usage",
        "cause",
        "ncclInvalidUsage or ncclInvalidArgument: the program is wrong.",
        "NCCL nccl.h, init.cc",
    ),
    Code(
        "nccl.cuda_error",
        "effect",
        "A CUDA call inside NCCL failed, with an error that has no `cuda.*` code of its own.",
        "NCCL include/checks.h; PyTorch NCCLUtils.cpp",
    ),
    Code(
        "nccl.nvls_error",
        "effect",
        "NVLink SHARP or multi-node NVLink could not be set up: Fabric Manager or NVSwitch.",
        "NCCL transport/nvls.cc, mnnvl.cc",
    ),
    Code(
        "nccl.shm_error",
        "effect",
        "Shared memory could not be had: /dev/shm is full or too small.",
        "NCCL misc/shmutils.cc",
    ),
    Code("nccl.ofi_error", "blame", "A request of the libfabric plugin (EFA) failed.", "aws-ofi-nccl"),
    Code(
        "nccl.local_rank_closed",
        "teardown",
        "Another rank of this node closed its proxy connection.",
        "NCCL proxy.cc, service thread",
    ),
    Code("nccl.abort", "teardown", "A communicator was aborted.", "NCCL init.cc"),
    Code("nccl.warning", "info", "An NCCL WARN line of another kind.", "NCCL debug.h"),
    *nccl_ib.CODES,
    *nccl_sockets.CODES,
)

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
_ANY_RESULT: Final = "|".join(sorted(map(re.escape, _RESULTS), key=len, reverse=True))
_RESULT: Final = re.compile(_ANY_RESULT)
_BARE: Final = "|".join(re.escape(r) for r in _RESULTS if r.startswith(("nccl", "remote", "unhandled")))
"""The results that are unmistakable without `NCCL error` in front."""
_VERSION: Final = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)")


def result_code(text: str) -> str | None:
    """The code of a result name or result string anywhere in `text`."""
    seen = _RESULT.search(text)
    return _RESULTS[seen[0]] if seen else None


def nccl_version(text: str) -> str | None:
    """The version in `..., NCCL version 2.21.5`."""
    seen = _VERSION.search(text)
    return seen[1] if seen else None


def _result(match: re.Match[str], _line: Line) -> Found | None:
    seen = _RESULT.search(match[0])
    if seen is None:
        return None
    found = Found(_RESULTS[seen[0]])
    if (version := nccl_version(match.string)) is not None:
        found.details["version"] = version
    return found


def _env(match: re.Match[str], _line: Line) -> Found:
    value = match["value"].strip().strip('"').rstrip(".")
    number = value.isascii() and value.isdecimal() and len(value) < 16
    return Found("nccl.env", details={match["name"]: int(value) if number else value[:200]})


def _cuda(match: re.Match[str], _line: Line) -> Found:
    number, text = match["number"], match["text"].strip()
    known = cuda_error(text) or (cuda_error(number) if number else None)
    found = Found(known.code if known else "nccl.cuda_error", details={"via": "nccl", "error": text[:200]})
    if number:
        found.details["number"] = int(number)
    if known:
        found.details["means"] = known.means
    return found


_DEVICE: Final = re.compile(r"\[\d{1,3}\] ?([\w.-]{1,40}:\d{1,3})/(IB|RoCE)")
_OOB: Final = re.compile(r"OOB ([\w.-]{1,40}):([^\s<]{2,80})<\d{1,6}>")


def _net(match: re.Match[str], _line: Line) -> Found:
    devices = _DEVICE.findall(match["devices"])
    found = Found("nccl.net", details={"net": "RoCE" if any(d[1] == "RoCE" for d in devices) else "IB"})
    found.details["devices"] = ",".join(d[0] for d in devices[:32])
    if (oob := _OOB.search(match["devices"])) is not None:
        found.details["oob_ifname"], found.details["address"] = oob[1], oob[2].strip("[]")
    return found


def _warning(_match: re.Match[str], line: Line) -> Found | None:
    """Whatever else NCCL says at WARN."""
    return Found("nccl.warning") if line.nccl_level == "WARN" and line.message else None


_COMM: Final = (
    r"(?:ncclComm\w{0,40} )?comm 0x(?P<comm>[0-9a-f]{1,16}) "
    r"rank (?P<comm_rank><INT>) n[rR]anks (?P<nranks><INT>)"
)

PATTERNS: Final = (
    pattern(
        "NCCL version",
        r"NCCL version (?P<version>\d{1,3}\.\d{1,3}[\w.+-]{0,30})(?: compiled with .{0,60})?\s*$",
        "nccl.version",
    ),
    pattern(
        "set by environment to",
        r"(?P<name>NCCL_\w{2,60}) set by environment to (?P<value>.{1,300})",
        _env,
        nccl=True,
    ),
    pattern("NCCL_", r"(?P<name>NCCL_\w{2,60}) set to (?P<value>\S{1,300})\s*$", _env, nccl=True),
    pattern(
        "NCCL_",
        r"(?:\+ )?(?:export |declare -x )?(?P<name>NCCL_\w{2,60})=(?P<value>\"?[\w.,:^=*/-]{1,200}\"?)\s*$",
        _env,
        on="body",
    ),
    pattern(
        "ootstrap",
        r"Bootstrap ?: ?Using (?:\[\d{1,2}\])?(?P<ifname>[\w.-]{1,40}):\[?(?P<address>[^\s<\]%]{2,80})\]?"
        r"(?:%[\w.-]{1,40})?<<INT>>",
        "nccl.bootstrap",
        nccl=True,
    ),
    pattern("NET/IB", r"NET/IB\w{0,8} ?: ?Using (?P<devices>\[\d{1,3}\].{3,3000})", _net, nccl=True),
    pattern("NET/IB", r"NET/IB ?: ?No device found", named("nccl.net", ib_devices=0), nccl=True),
    pattern("NET/Socket", r"NET/Socket ?: ?Using \[\d", named("nccl.net", net="Socket"), nccl=True),
    pattern(
        "NET/OFI",
        r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w-]{1,40})",
        named("nccl.net", net="OFI"),
        nccl=True,
    ),
    pattern("Using network", r"Using network (?P<net>[\w ./-]{1,40})", "nccl.net", nccl=True),
    pattern(
        "Init COMPLETE",
        _COMM + r"(?: cudaDev (?P<cuda_dev><INT>))?(?: nvmlDev (?P<nvml_dev><INT>))?"
        r"(?: busId (?P<bus_id>[0-9a-f]{1,16}))?(?: .{0,160}?)? ?- ?Init COMPLETE",
        "nccl.init_complete",
        nccl=True,
    ),
    pattern("Init START", _COMM + r".{0,160}? ?- ?Init START", "nccl.init_start", nccl=True),
    pattern(
        "Abort COMPLETE",
        _COMM + r".{0,160}? ?- ?Abort COMPLETE",
        named("nccl.abort", teardown=True),
        nccl=True,
    ),
    pattern(
        "losed by localRank",
        r"(?:\[[^\]]{1,60}\] )?Connection closed by localRank (?P<closed_local_rank><INT>)",
        named("nccl.local_rank_closed", teardown=True),
        nccl=True,
    ),
    *nccl_ib.PATTERNS,
    *nccl_sockets.PATTERNS,
    pattern(
        "uda failure",
        r"Cuda failure (?:(?P<number>\d{1,5}) )?'(?P<text>[^']{1,200})'",
        _cuda,
    ),
    pattern(
        ("NVLS", "MNNVL", "ulticast"),
        r"(?:Failed to (?:bind|create|map|set access|get|add|export).{0,60}?(?:NVLS|[Mm]ulticast)"
        r"|(?:MNNVL|NVLS)\b.{0,80}?(?:fail|error|not (?:available|initialized)|unhealthy))"
        r"(?P<error>.{0,200})",
        "nccl.nvls_error",
        nccl=True,
    ),
    pattern(
        "shared memory",
        r"(?:Error|error|Failed to|Unable to|unable to|Could not).{0,80}?shared memory(?: segment)?"
        r"(?: (?P<path>/\S{1,120}))?",
        "nccl.shm_error",
        nccl=True,
    ),
    pattern(
        "ailed",
        r"Call to (?P<call>posix_fallocate|ftruncate|mmap|shm_open) failed ?:? ?(?P<error>.{1,120})",
        "nccl.shm_error",
        nccl=True,
    ),
    pattern(
        "NET/OFI",
        r"NET/OFI .{0,120}?(?:completed with error|[Uu]nresponsive|failed with|Failed to)(?P<error>.{0,200})",
        "nccl.ofi_error",
        nccl=True,
    ),
    pattern(
        ("NCCL error", "NCCL Error", "NCCL failure"),
        rf"(?:Test )?NCCL (?:[Ee]rror|failure)\b.{{0,300}}?(?:{_ANY_RESULT})(?=[,:.\s]|$)",
        _result,
    ),
    pattern(
        (
            "ncclRemoteError",
            "ncclSystemError",
            "ncclInternalError",
            "ncclUnhandledCudaError",
            "network error",
            "unhandled system error",
            "unhandled cuda error",
        ),
        rf"(?:{_BARE})(?=[,:.\s]|$)",
        _result,
    ),
    pattern("NCCL WARN", r"", _warning, nccl=True),
)

FAMILY: Final = Family("nccl", CODES, PATTERNS)
