"""Storage as a workload meets it: errno texts, data loaders, checkpoints, file-server complaints."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.pattern import INT, Code, Family, Found, named, pattern, take
from collectors.logs.prefix import Line

CODES: Final = (
    Code("storage.enospc", "cause", "No space left on a file system (`details.path`).", "errno 28"),
    Code("storage.equota", "cause", "A disk quota is used up.", "errno 122"),
    Code("storage.erofs", "cause", "A file system is read-only.", "errno 30"),
    Code("storage.estale", "cause", "A network file system forgot a file handle.", "errno 116"),
    Code("storage.eio", "cause", "A file system returned an input/output error.", "errno 5, 121"),
    Code("storage.unreachable", "cause", "A mount's server is gone: endpoint shut down, host down, not connected.",
         "errno 107, 108, 112"),
    Code("storage.timeout", "cause", "A file operation timed out.", "errno 110; application messages with a path"),
    Code("storage.nfs_not_responding", "cause", "An NFS server does not answer (`details.server`).", "Linux fs/nfs, net/sunrpc"),
    Code("storage.nfs_ok", "info", "An NFS server answers again.", "Linux net/sunrpc"),
    Code("storage.lustre_error", "cause", "A Lustre client lost a target, or was evicted (`details.server`).", "Lustre client"),
    Code("storage.bus_error", "cause", "A data-loader worker died of SIGBUS: /dev/shm or a memory-mapped file.",
         "torch.utils.data signal handling"),
    Code("storage.worker_killed", "effect", "A data-loader worker was killed by a signal.", "torch.utils.data signal handling"),
    Code("storage.shm", "cause", "A shared-memory file could not be written or opened.", "PyTorch MapAllocator.cpp"),
    Code("storage.checkpoint_write", "cause", "A checkpoint could not be written (`details.path`).",
         "PyTorch inline_container.cc, torch.distributed.checkpoint; application messages"),
    Code("storage.checkpoint_read", "cause", "A checkpoint could not be read.", "PyTorch inline_container.cc; safetensors"),
    Code("storage.read_error", "cause", "Training data could not be read (`details.path`).", "application messages"),
)  # fmt: skip

_ERRNO: Final = {
    28: "storage.enospc", 122: "storage.equota", 30: "storage.erofs", 116: "storage.estale", 5: "storage.eio",
    121: "storage.eio", 107: "storage.unreachable", 108: "storage.unreachable", 112: "storage.unreachable",
}  # fmt: skip
_TEXT: Final = {
    "No space left on device": 28, "Disk quota exceeded": 122, "Read-only file system": 30,
    "Stale file handle": 116, "Stale NFS file handle": 116, "Input/output error": 5, "Remote I/O error": 121,
    "Transport endpoint is not connected": 107, "Cannot send after transport endpoint shutdown": 108,
    "Host is down": 112,
}  # fmt: skip
_TEXTS: Final = "|".join(map(re.escape, _TEXT))
_PATH: Final = re.compile(r"(?P<path>/[\w.@+=-]{1,80}(?:/[\w.@+=%:-]{0,120}){0,20})")


def place(found: Found, text: str) -> Found:
    """Add the first absolute path of `text`, and the mount or server it begins with."""
    if "path" not in found.details and (seen := _PATH.search(text)) is not None:
        found.details["path"] = seen["path"]
    return found


def _errno(match: re.Match[str], line: Line) -> Found | None:
    number = int(match["number"]) if match["number"] else _TEXT[match["text"]]
    if number == 110:
        found = Found("storage.timeout")
        if _PATH.search(match["rest"]) is None:
            return None  # a network time-out, not a file's
    elif number in _ERRNO:
        found = Found(_ERRNO[number])
    else:
        return None
    found.details["errno"] = number
    if line.exception:
        found.details["exception"] = line.exception
    return place(found, match["rest"])


def _tool(match: re.Match[str], _line: Line) -> Found:
    number = _TEXT[match["text"]]
    found = Found(_ERRNO[number], details={"errno": number, "program": match["program"]})
    return place(found, match.string)


def _worker(match: re.Match[str], _line: Line) -> Found:
    how = match["how"]
    bus = how.startswith("Bus error")
    found = Found("storage.bus_error" if bus else "storage.worker_killed")
    found.signal = (
        7 if bus else {"Killed": 9, "Segmentation fault": 11, "Aborted": 6, "Terminated": 15}.get(how)
    )
    found.details["pid"] = match["pid"]
    return found


def _checkpoint(match: re.Match[str], _line: Line) -> Found:
    found = Found("storage.checkpoint_write")
    take(found, {k: v for k, v in match.groupdict().items() if k != "rest"})
    _errno_of(found, match.string)
    return place(found, match.string)


def _read(match: re.Match[str], _line: Line) -> Found:
    found = Found("storage.read_error")
    _errno_of(found, match.string)
    return place(found, match.string)


def _errno_of(found: Found, text: str) -> None:
    if (seen := re.search(rf"\[Errno (\d{{1,3}})\]|{_TEXTS}", text)) is not None:
        found.details["errno"] = int(seen[1]) if seen[1] else _TEXT[seen[0]]
    elif re.search(r"[Tt]imed out|[Tt]imeout", text):
        found.details["errno"] = 110


_FAIL: Final = (
    r"(?:failed|failure|FAILED|[Ee]rror|timed out|stalled|gave up|giving up|aborted|could not|cannot|unable)"
)
_FINE: Final = (
    r"(?!.*(?:\b0 errors|retried|retrying|will retry|recovered|succeeded|succeeds|transient|policy))"
)

PATTERNS: Final = (
    pattern("[Errno", r"\[Errno (?P<number>\d{1,3})\](?P<text>) (?P<rest>.{0,1000})", _errno),
    pattern(tuple(_TEXT), rf"(?P<number>)(?P<text>{_TEXTS})\b(?P<rest>.{{0,1000}})$", _errno),
    pattern(tuple(_TEXT), rf"(?P<program>cp|mv|tar|rsync|rm|ls|cat|dd|mkdir|touch|ln|bash|sh|df|stat|find|zstd|gzip|aws|git|wget|curl)(?:: line \d{{1,6}})?: .{{0,400}}?(?P<text>{_TEXTS})(?: \(\d{{1,3}}\))?\s*$", _tool),
    pattern("is killed by signal", r"DataLoader worker \(pid\(?s?\)? (?P<pid>[\d, ]{1,60})\) is killed by signal: (?P<how>Bus error|Killed|Segmentation fault|Aborted|Terminated|[\w ]{1,40})", _worker),
    pattern("bus error encountered in worker", r"(?:ERROR: )?Unexpected bus error encountered in worker", named("storage.bus_error", errno=0)),
    pattern(("torch_", "shared memory object"), r"unable to (?:write to file|open shared memory object|mmap .{0,40}?) ?<?(?P<path>/\S{0,120}?)>?(?: in read-write mode)?: (?P<error>[\w ]{3,80})(?: \((?P<errno>\d{1,3})\))?", "storage.shm"),
    pattern("nfs: server", r"nfs: server (?P<server>\S{1,120}) not responding, (?P<state>still trying|timed out)", "storage.nfs_not_responding"),
    pattern("nfs: server", r"nfs: server (?P<server>\S{1,120}) OK", "storage.nfs_ok"),
    pattern("LustreError", rf"LustreError: (?:[\w.-]{{1,40}}: )?(?:{INT}:\d:\S{{1,120}} )?(?:(?P<server>[\w-]{{1,80}}-(?:OST|MDT)[0-9a-fA-F]{{4}})[\w@.-]{{0,80}}: )?(?P<error>.{{1,300}})", "storage.lustre_error"),
    pattern("Lustre: ", r"Lustre: (?P<server>[\w-]{1,80}-(?:OST|MDT)[0-9a-fA-F]{4})\S{0,80}: (?P<error>Connection to .{1,120} was lost.{0,200})", "storage.lustre_error"),
    pattern("PytorchStreamWriter", r".{0,200}?PytorchStreamWriter failed writing file (?P<file>\S{1,200}): file write failed", _checkpoint),
    pattern("unexpected pos", rf".{{0,200}}?inline_container\.cc.{{0,20}}?\] \. unexpected pos {INT} vs {INT}", _checkpoint),
    pattern("CheckpointException", r"CheckpointException ranks:.{0,300}", _checkpoint),
    pattern("PytorchStreamReader", r".{0,120}?PytorchStreamReader failed.{0,200}", "storage.checkpoint_read"),
    pattern("Error while deserializing header", r"Error while deserializing header: .{1,80}", "storage.checkpoint_read"),
    pattern(("DCP", "heckpoint", "ckpt"),
            rf"(?:(?:DCP|[Cc]heckpoint\w{{0,20}}|ckpt|[Ss]aver)(?: ?: |\] ?))?{_FINE}(?:[Aa]sync |[Ff]ailed to |[Ee]rror |[Cc]ould not |[Uu]nable to |[Cc]annot )?"
            rf"(?:(?:save|saving|write|writing|upload|flush|persist|store|storing)\b.{{0,200}}?{_FAIL}|(?<=ailed to )(?:save|write|upload|flush|store)\b.{{0,200}}|(?<=rror )(?:saving|writing|storing)\b.{{0,200}}|(?<=ould not )(?:save|write)\b.{{0,200}}|(?<=nable to )(?:save|write)\b.{{0,200}})(?P<rest>.{{0,600}})",
            _checkpoint),
    pattern("heckpoint", rf"{_FINE}[Cc]heckpoint(?:ing)? (?:save |write |upload |of step \d{{1,12}} |at step \d{{1,12}} )?{_FAIL}\b(?P<rest>.{{0,600}})", _checkpoint),
    pattern(("dataloader", "dataset", "DataLoader", "data loader"),
            rf"(?:dataloader|dataset|DataLoader|data loader)\b{_FINE}(?=.{{0,400}}?{_FAIL}\b)(?=.{{0,400}}?\s['\"]?/[\w.-]{{1,80}}/)", _read),
)  # fmt: skip

FAMILY: Final = Family("storage", CODES, PATTERNS)
