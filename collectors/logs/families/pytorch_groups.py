"""PyTorch distributed beside the watchdog: desync reports, barriers, the store, gloo, options of groups."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Code, Found, named, pattern
from collectors.logs.prefix import Line

CODES: Final = (
    Code(
        "pytorch.desync",
        "effect",
        "Ranks (`details.ranks`) that did not join (`details.state` = not_joined) or did not finish "
        "(not_finished) a collective.",
        "PyTorch TraceUtils.h, TORCH_NCCL_DESYNC_DEBUG; the flight-recorder analyser",
    ),
    Code(
        "pytorch.collective_mismatch",
        "cause",
        "Ranks run different collectives.",
        "PyTorch ProcessGroupWrapper.cpp, TORCH_DISTRIBUTED_DEBUG",
    ),
    Code(
        "pytorch.monitored_barrier",
        "blame",
        "Ranks (`details.ranks`) that did not reach a monitored barrier.",
        "PyTorch ProcessGroupGloo.cpp",
    ),
    Code(
        "pytorch.store_error",
        "effect",
        "The rendezvous store could not be reached or timed out: a consequence unless it comes first.",
        "PyTorch TCPStore.cpp, socket.cpp",
    ),
    Code(
        "pytorch.gloo_error", "blame", "A gloo (CPU) collective lost its peer.", "gloo transport/tcp/pair.cc"
    ),
    Code(
        "pytorch.pg_options",
        "setting",
        "The timeout of a process group (`timeout_s`).",
        "PyTorch ProcessGroupNCCL.cpp at INFO; Megatron-LM arguments",
    ),
)


def _pg_options(match: re.Match[str], _line: Line) -> Found:
    return Found("pytorch.pg_options", timeout_s=int(match["timeout_ms"]) / 1000)


def _megatron_timeout(match: re.Match[str], _line: Line) -> Found:
    return Found("pytorch.pg_options", timeout_s=int(match["minutes"]) * 60.0)


_RANKS: Final = r"\s{0,8}(?:- )?(?:Ranks? )?\[(?P<ranks>[\d, -]{1,400})\] "

PATTERNS: Final = (
    pattern(
        "join collective #",
        _RANKS + r"finished collective #(?P<seq><INT>), but didn't join collective #(?P<missing_seq><INT>)",
        named("pytorch.desync", state="not_joined"),
    ),
    pattern(
        "collective",
        _RANKS + r"(?:joined but )?didn't (?:join|start) (?:any )?collective",
        named("pytorch.desync", state="not_joined"),
    ),
    pattern(
        "finish collective #",
        _RANKS + r"joined but didn't finish collective #(?P<seq><INT>)",
        named("pytorch.desync", state="not_finished"),
    ),
    pattern(
        "ot all ranks joined collective",
        r"Not all ranks joined collective,? ?(?:sequence number: (?P<seq><INT>))?"
        r"(?:.{0,200}?missing ranks:? ?\{?(?P<ranks>[\d, ]{1,400}))?",
        named("pytorch.desync", state="not_joined"),
    ),
    pattern(
        "mismatch between collectives",
        r"Detected mismatch between collectives on ranks\. Rank (?P<one_rank><INT>) is running collective: "
        r".{0,400}?(?:but Rank (?P<other_rank><INT>) is running collective|$)",
        "pytorch.collective_mismatch",
    ),
    pattern(
        "failed to pass monitoredBarrier",
        r"Ranks? (?P<ranks>[\d, ]{1,400}) failed to pass monitoredBarrier in (?P<waited_ms><INT>) ms",
        "pytorch.monitored_barrier",
    ),
    pattern(
        "monitoredBarrier, but received errors",
        r"Rank (?P<ok_rank><INT>) successfully reached monitoredBarrier, but received errors while waiting "
        r"for "
        r"send/recv from rank (?P<ranks><INT>)",
        "pytorch.monitored_barrier",
    ),
    pattern(
        ("client socket has timed out", "client socket has failed"),
        r"(?:\[c10d\] )?The client socket has (?P<error>timed out after (?P<waited_ms><INT>)ms"
        r"|failed to connect to any network address)[^(]{0,80}\(?(?P<peer>[^)]{0,120})",
        "pytorch.store_error",
    ),
    pattern(
        "imed out after",
        r"Timed out after (?P<waited_s><INT>) seconds waiting for clients\. (?P<joined><INT>)/"
        r"(?P<expected><INT>) "
        r"clients joined",
        "pytorch.store_error",
    ),
    pattern(
        " failed on SocketImpl",
        r"(?:TCPStore: )?(?:recv|send)\w{1,20} failed on SocketImpl\("
        r"(?:.{0,200}?remote=\[?(?P<peer>[^\],)]{1,100}))?",
        "pytorch.store_error",
    ),
    pattern(
        "rror: wait timeout after",
        r"wait timeout after (?P<waited_ms><INT>)ms, keys: (?P<keys>.{1,200})",
        "pytorch.store_error",
    ),
    pattern("rror: Socket Timeout", r"(?P<error>Socket Timeout)\s*$", "pytorch.store_error"),
    pattern(
        ("DistNetworkError: ", "DistStoreError: "),
        r"(?:torch\.distributed\.)?Dist(?:Network|Store)Error: (?P<error>.{1,300})",
        "pytorch.store_error",
        on="body",
    ),
    pattern(
        "failed to bind",
        r"(?:\[c10d\] )?The server socket has failed to (?P<error>bind to \S{1,80}.{0,120})",
        "pytorch.store_error",
    ),
    pattern(
        ("by peer", "imed out waiting", "FullMesh failed"),
        r"(?:\[\S{0,120}gloo/\S{1,120}\] |[Gg]loo )(?P<error>.{0,80}?(?:by peer|[Tt]imed out"
        r"|failed)[^\[]{0,60})"
        r"(?:\[(?P<peer>[^\]]{1,80})\])?",
        "pytorch.gloo_error",
    ),
    pattern(
        ("ProcessGroupNCCL initialization", "ProcessGroupNCCL created"),
        r"ProcessGroupNCCL (?:initialization options|created).{0,400}?TIMEOUT\(ms\): ?(?P<timeout_ms><INT>)",
        _pg_options,
    ),
    pattern(
        "  distributed_timeout",
        r"\s{0,4}distributed_timeout_minutes \.{2,80} ?(?P<minutes>\d{1,7})\s*$",
        _megatron_timeout,
    ),
)
