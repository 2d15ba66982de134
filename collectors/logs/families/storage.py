"""Storage as a workload meets it: errno texts, data loaders, checkpoints, file-server complaints."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import Build, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line
from collectors.logs.signals import BY_WORD

CODES: Final = (
    Code("storage.enospc", "cause", "No space left on a file system (`details.path`).", "errno 28"),
    Code("storage.equota", "cause", "A disk quota is used up.", "errno 122"),
    Code("storage.erofs", "cause", "A file system is read-only.", "errno 30"),
    Code("storage.estale", "cause", "A network file system forgot a file handle.", "errno 116"),
    Code("storage.eio", "cause", "A file system returned an input/output error.", "errno 5, 121"),
    Code(
        "storage.unreachable",
        "cause",
        "A mount's server is gone: endpoint shut down, host down, not connected.",
        "errno 107, 108, 112",
    ),
    Code(
        "storage.timeout", "cause", "A file operation timed out.", "errno 110 with a path; torch.utils.data"
    ),
    Code(
        "storage.nfs_not_responding",
        "cause",
        "An NFS server does not answer (`details.server`).",
        "Linux net/sunrpc, fs/nfs",
    ),
    Code("storage.nfs_ok", "info", "An NFS server answers again.", "Linux net/sunrpc"),
    Code(
        "storage.lustre_error",
        "cause",
        "A Lustre client lost a target or was evicted (`details.server`).",
        "Lustre client",
    ),
    Code(
        "storage.bus_error",
        "cause",
        "A data-loader worker died of SIGBUS: /dev/shm or a memory-mapped file.",
        "torch.utils.data signal handling",
    ),
    Code(
        "storage.worker_killed",
        "effect",
        "A data-loader worker was killed by another signal.",
        "torch.utils.data signal handling",
    ),
    Code(
        "storage.shm",
        "cause",
        "A shared-memory file could not be written or opened.",
        "PyTorch MapAllocator.cpp",
    ),
    Code(
        "storage.checkpoint_write",
        "cause",
        "A checkpoint could not be written (`details.path`, `details.errno`).",
        "PyTorch inline_container.cc, torch.distributed.checkpoint; application messages",
    ),
    Code(
        "storage.checkpoint_read",
        "cause",
        "A checkpoint could not be read.",
        "PyTorch inline_container.cc; safetensors",
    ),
    Code(
        "storage.read_error",
        "cause",
        "Training data could not be read (`details.path`, `details.errno`).",
        "application messages",
    ),
)

_BY_NUMBER: Final = {
    28: "storage.enospc", 122: "storage.equota", 30: "storage.erofs", 116: "storage.estale", 5: "storage.eio",
    121: "storage.eio", 107: "storage.unreachable", 108: "storage.unreachable", 112: "storage.unreachable",
}  # fmt: skip
_BY_TEXT: Final = {
    "No space left on device": 28, "Disk quota exceeded": 122, "Read-only file system": 30,
    "Stale file handle": 116, "Stale NFS file handle": 116, "Input/output error": 5, "Remote I/O error": 121,
    "Transport endpoint is not connected": 107, "Cannot send after transport endpoint shutdown": 108,
    "Host is down": 112,
}  # fmt: skip
"""strerror() of glibc, Linux numbers."""
_TEXTS: Final = "|".join(map(re.escape, _BY_TEXT))
_SOME_ERRNO: Final = re.compile(rf"\[Errno (\d{{1,3}})\]|{_TEXTS}")
_SLOW: Final = re.compile(r"[Tt]imed out|[Tt]imeout")
_PATH: Final = re.compile(r"(?<![\w/])(?P<path>/[\w.@+=-]{1,80}(?:/[\w.@+=%:-]{0,120}){0,20})")


def place(found: Found, text: str) -> Found:
    """Add the first absolute path of `text`."""
    if "path" not in found.details and (seen := _PATH.search(text)) is not None:
        found.details["path"] = seen["path"].rstrip(":.")
    return found


def _errno_of(found: Found, text: str) -> None:
    if (seen := _SOME_ERRNO.search(text)) is not None:
        found.details["errno"] = int(seen[1]) if seen[1] else _BY_TEXT[seen[0]]
    elif _SLOW.search(text):
        found.details["errno"] = 110


def _errno(match: re.Match[str], line: Line) -> Found | None:
    number, rest = int(match["number"]), match["rest"]
    if number == 110:
        if _PATH.search(rest) is None:
            return None  # a network time-out, not a file's
        found = Found("storage.timeout")
    elif number in _BY_NUMBER:
        found = Found(_BY_NUMBER[number])
    else:
        return None
    found.details["errno"] = number
    if line.exception:
        found.details["exception"] = line.exception
    return place(found, rest)


def _tool(match: re.Match[str], _line: Line) -> Found:
    number = _BY_TEXT[match["text"]]
    found = Found(_BY_NUMBER[number], details={"errno": number, "program": match["program"]})
    return place(found, match.string)


def _worker(match: re.Match[str], _line: Line) -> Found:
    signal = next((n for word, n in BY_WORD.items() if match["how"].startswith(word)), None)
    found = Found("storage.bus_error" if signal == 7 else "storage.worker_killed", signal=signal)
    take(found, {"pid": match["pid"]})
    return found


_DEALT_WITH: Final = (
    " 0 errors", "(0 errors", "retried", "retrying", "will retry", "recovered", "succeeded", "transient",
    "policy",
)  # fmt: skip
"""Words of a failure that was dealt with, or of none at all."""


def _said(code: str) -> Build:
    """An application's own words: believed unless they say that it came out well."""

    def build(match: re.Match[str], _line: Line) -> Found | None:
        if any(map(match.string.__contains__, _DEALT_WITH)):
            return None
        found = Found(code)
        take(found, match.groupdict())
        _errno_of(found, match.string)
        return place(found, match.string)

    return build


_FAILS: Final = (
    r"(?:failed|failure|FAILED|[Ee]rror|[Tt]imed out|stalled|gave up|giving up|aborted"
    r"|could not|cannot|unable)\b"
)
_WRITES: Final = (
    r"(?:sav(?:e|ing)|writ(?:e|ing)|upload(?:ing)?|flush(?:ing)?|persist(?:ing)?|stor(?:e|ing)"
    r"|stag(?:e|ing))\b"
)

PATTERNS: Final = (
    pattern("rror: [Errno", r"\[Errno (?P<number>\d{1,3})\] (?P<rest>.{0,1000})", _errno),
    pattern(
        ("cp: ", "mv: ", "tar: ", "rsync: ", "bash: ", "mkdir: ", "cat: ", "dd: "),
        r"(?P<program>cp|mv|tar|rsync|bash|mkdir|cat|dd): (?:line <INT>: )?(?![^'\"/]{0,40}whether)"
        rf".{{0,400}}?(?P<text>{_TEXTS})(?: \(\d{{1,3}}\))?\s*$",
        _tool,
        on="body",
    ),
    pattern(
        "is killed by signal",
        r"DataLoader worker \(pid\(?s?\)? (?P<pid><INT>)[\d, ]{0,60}\) is killed by signal: "
        r"(?P<how>[A-Z][\w ]{2,40})",
        _worker,
    ),
    pattern(
        "bus error encountered in worker",
        r"Unexpected bus error encountered in worker",
        named("storage.bus_error"),
    ),
    pattern(
        "rror: DataLoader timed out",
        r"DataLoader timed out after (?P<waited_s><INT>) seconds",
        named("storage.timeout", via="dataloader"),
    ),
    pattern(
        ("rror: unable to write", "rror: unable to open shared", "rror: unable to mmap"),
        r"unable to (?:write to file|open shared memory object|mmap [^<]{0,40}) ?<?(?P<path>/[^\s>]{0,120})>?"
        r"(?: in read-write mode)?: (?P<error>[\w ]{3,80}?)(?: \((?P<errno>\d{1,3})\))?\s*$",
        "storage.shm",
    ),
    pattern(
        "nfs: ",
        r"nfs: server (?P<server>\S{1,120}) not responding, (?P<state>still trying|timed out)",
        "storage.nfs_not_responding",
    ),
    pattern("nfs: ", r"nfs: server (?P<server>\S{1,120}) OK", "storage.nfs_ok"),
    pattern(
        "LustreError: ",
        r"LustreError: (?:[\w-]{1,20}: )?(?:<INT>:\S{1,120} )?"
        r"(?=(?:.{0,200}?\b(?P<server>[\w]{1,60}-(?:OST|MDT)[0-9a-fA-F]{4}))?)(?P<error>.{1,300})",
        "storage.lustre_error",
        on="body",
    ),
    pattern(
        "Lustre: ",
        r"Lustre: (?P<server>\w{1,60}-(?:OST|MDT)[0-9a-fA-F]{4})\S{0,80}: (?P<error>Connection to .{1,120} "
        r"was lost)",
        "storage.lustre_error",
        on="body",
    ),
    pattern(
        "PytorchStreamWriter failed",
        r"\[enforce fail at inline_container.{0,120}?PytorchStreamWriter failed writing file "
        r"(?P<file>\S{1,200}): file write failed",
        _said("storage.checkpoint_write"),
    ),
    pattern(
        "enforce fail at inline_container",
        r"\[enforce fail at inline_container.{0,120}?unexpected pos <INT> vs <INT>",
        _said("storage.checkpoint_write"),
    ),
    pattern(
        "heckpointException", r"CheckpointException ranks:", _said("storage.checkpoint_write"), on="message"
    ),
    pattern(
        "PytorchStreamReader failed",
        r"PytorchStreamReader failed (?P<error>.{1,200})",
        "storage.checkpoint_read",
    ),
    pattern(
        "rror while deserializing header",
        r"Error while deserializing header: (?P<error>.{1,80})",
        "storage.checkpoint_read",
    ),
    pattern(
        ("ailed", "rror", "imed out", "eckpoint"),
        rf"(?:DCP|[Cc]heckpoint\w{{0,20}}|ckpt|[Ss]aver) ?[:\]] ?(?:async "
        rf")?{_WRITES}.{{0,200}}?{_FAILS}",
        _said("storage.checkpoint_write"),
    ),
    pattern(
        ("ailed", "rror", "imed out", "eckpoint"),
        rf"(?:[Ff]ailed to|[Ee]rror|[Cc]ould not|[Cc]annot|[Uu]nable to) {_WRITES}.{{0,40}}?"
        rf"(?:checkpoint|ckpt)",
        _said("storage.checkpoint_write"),
    ),
    pattern(
        "heckpoint",
        rf"[Cc]heckpoint(?:ing)? (?:{_WRITES} |(?:of|at) step <INT> )?{_FAILS}",
        _said("storage.checkpoint_write"),
    ),
    pattern(
        ("ailed", "rror", "imed out"),
        r"(?:dataloader|dataset|DataLoader|data loader)\b(?=[^/]{0,400}[\s'\"]/[\w.-]{1,80}/)"
        rf"(?=.{{0,400}}?{_FAILS})",
        _said("storage.read_error"),
    ),
)

FAMILY: Final = Family("storage", CODES, PATTERNS)
