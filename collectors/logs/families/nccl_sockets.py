"""NCCL's sockets: the out-of-band connections of every transport, and the bootstrap over them.

A peer's name is a blame edge: it closed its end, or died, or was taken down.
"""

from __future__ import annotations

from typing import Final

from collectors.logs.pattern import Code, pattern

CODES: Final = (
    Code(
        "nccl.socket_closed",
        "blame",
        "A peer closed its connection: it died or was taken down.",
        "NCCL misc/socket.cc, include/socket.h before 2.13",
    ),
    Code(
        "nccl.socket_error",
        "blame",
        "A socket call towards a peer failed (`details.error`).",
        "NCCL misc/socket.cc, os/linux.cc",
    ),
    Code(
        "nccl.message_truncated",
        "effect",
        "Two ends disagree on a message's size: mismatched collectives.",
        "NCCL misc/socket.cc, transport/net_socket.cc",
    ),
    Code(
        "nccl.bootstrap_error", "effect", "Ranks could not find each other at start-up.", "NCCL bootstrap.cc"
    ),
)

_F: Final = r"(?:[A-Za-z_]\w{1,40} ?: ?)?"
"""The function that speaks: `socketProgress: `, `Net : `."""
PATTERNS: Final = (
    pattern(
        "losed by remote peer",
        _F + r"Connection closed by remote peer (?P<peer><PEER>)",
        "nccl.socket_closed",
    ),
    pattern(
        "ailed",
        _F
        + r"Call to (?P<call>recv|send|read|write|recvmsg|sendmsg) (?:from|to) (?P<peer><PEER>) failed ?: ?"
        r"(?P<error>.{1,200})",
        "nccl.socket_error",
    ),
    pattern(
        "exceeded error retry count",
        _F
        + r"[Cc]onnect(?: to (?P<peer><PEER>))? returned (?P<error>[^,]{1,120}),? exceeded error retry count"
        r"(?: ?\((?P<tries><INT>)\)| after (?P<attempts><INT>) attempts)?",
        "nccl.socket_error",
    ),
    pattern(
        "exceeded error retry count",
        _F + r"exceeded error retry count(?: \(<INT>\)| after (?P<attempts><INT>) attempts)?, "
        r"(?P<error>.{1,120})",
        "nccl.socket_error",
    ),
    pattern(
        "ailed",
        _F + r"[Cc]onnect to (?P<peer><PEER>) failed(?: with error)? ?:? ?(?P<error>.{1,120})",
        "nccl.socket_error",
        nccl=True,
    ),
    pattern(
        "ailed",
        _F + r"(?:Call to (?P<call>bind|listen|accept|connect|poll|getsockname|setsockopt|socket|recv|send)"
        r"|Accept) failed ?:? ?(?:with )?(?P<error>.{1,200})",
        "nccl.socket_error",
        nccl=True,
    ),
    pattern(
        "essage truncated",
        _F + r"(?:NET/Socket : )?(?:From |peer )?(?:(?P<peer>[^\s:][^\s]{0,120}) )?[Mm]essage truncated ?: "
        r"receiv(?:ed|ing) (?P<received><INT>) bytes instead of (?P<expected><INT>)",
        "nccl.message_truncated",
        nccl=True,
    ),
    pattern(
        "ootstrap",
        r"Bootstrap ?:? ?(?:no socket interface found|Root ?: (?P<error>.{1,200}))",
        "nccl.bootstrap_error",
        nccl=True,
    ),
    pattern(
        "ootstrap",
        r"bootstrap\w{0,30}\b.{0,60}?\b(?P<error>(?:timed out|timeout|failed|mismatch).{0,120})",
        "nccl.bootstrap_error",
        nccl=True,
    ),
)
