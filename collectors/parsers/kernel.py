"""Lines of the kernel that are neither a GPU's, a switch's, PCIe's nor a port's, and still end jobs.

The lines stand in `data/kernel.toml`: a stable code, a category, a pattern whose named groups fill the
payload. Only those of an OOM kill belong together: the summary names the cgroup, the next line the victim.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from collectors.inventory import normalise_bdf
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.payloads import Kernel
from topics.time import NS_PER_S

OOM_NS: Final = 5 * NS_PER_S
"""The lines of one OOM kill come within this time."""

Category = Literal[
    "panic", "hard_lockup", "soft_lockup", "oom_kill", "storage_stall", "filesystem", "mce", "other"
]

_UNCORRECTED: Final = 1 << 61
"""Bit UC of a machine-check status register (Intel SDM 15.3.2.2)."""


class Shape(NamedTuple):
    code: str
    category: Category
    pattern: re.Pattern[str]


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """The lines of `data/kernel.toml`, in order."""
    text = files("collectors.parsers").joinpath("data/kernel.toml").read_text("utf-8")
    return tuple(
        Shape(row["code"], row["category"], re.compile(row["pattern"], re.ASCII))
        for row in tomllib.loads(text)["line"]
    )


WORDS: Final = frozenset({
    "Kill", "Killed", "Killing", "panic", "LOCKUP", "lockup", "INFO:", "blocked", "BUG:", "BUG", "Oops:",
    "protection", "Error]:", "hardware", "UE", "server", "Lustre:", "LustreError:", "conn", "ping",
    "recovery", "QID", "controller", "Device", "Removing", "Reconnecting", "starting", "reconnect",
    "keep-alive", "I/O", "critical", "EXT4-fs", "XFS", "BTRFS", "JBD2:", "Aborting", "temperature", "reboot:",
    "acpi_power_off", "S5", "sysrq:", "SysRq", "SIGTERM", "Syncing", "Power", "segfault", "traps:", "pciehp:",
    "ERROR", "NVRM:",
})  # fmt: skip
"""A line that this module reads has one of these words, or is an OOM summary, which is a single word."""


SUMMARY: Final = "oom-kill:"


_KILLED: Final = re.compile(
    r"(?:(?:Memory cgroup out|Out) of memory(?: \([^)]{1,40}\))?: )?"
    r"Kill(?:ed)? process (?P<pid>\d{1,10})(?:, UID \d{1,10},)? \((?P<process>[^)]{1,64})\)",
    re.ASCII,
)
_SUMMARY: Final = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w{1,40}),.{0,2000}?task_memcg=(?P<cgroup>[^,]{0,1024}),"
    r"task=(?P<process>.{1,64}?),pid=(?P<pid>\d{1,10}),",
    re.ASCII,
)


@dataclass(slots=True)
class _Oom:
    record: KernelRecord
    line: str
    process: str
    pid: int
    constraint: str | None = None
    cgroup: str | None = None


class KernelLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._summary: _Oom | None = None
        self._killed: tuple[int, int] | None = None
        """(pid, time) of the last kill that was told: old kernels print two lines for it."""

    def feed(self, record: KernelRecord, line: str) -> Sequence[Found]:
        if summary := _SUMMARY.match(line):
            before = self._unfinished()
            self._summary = _Oom(
                record,
                line,
                summary["process"],
                int(summary["pid"]),
                summary["constraint"],
                summary["cgroup"],
            )
            return before
        if killed := _KILLED.match(line):
            return self._kill(record, line, killed)
        for shape in shapes():
            found = shape.pattern.match(line)
            if found:
                return self._shape(record, line, shape, found)
        return NOTHING

    def due(self, now: int | None) -> Sequence[Found]:
        waiting = self._summary
        if waiting and (now is None or now - waiting.record.time_ns > OOM_NS):
            return self._unfinished()
        return NOTHING

    def oldest(self) -> KernelRecord | None:
        return self._summary.record if self._summary else None

    def _shape(self, record: KernelRecord, line: str, shape: Shape, found: re.Match[str]) -> Sequence[Found]:
        groups = found.groupdict()
        status = groups.get("status")
        if status and not groups["exception"] and not int(status, 16) & _UNCORRECTED:
            return NOTHING  # a corrected error: a trend at most
        address = groups.get("address")
        bdf = normalise_bdf(address) if address else None
        pid = groups.get("pid")
        payload = Kernel(
            category=shape.category,
            device=bdf or groups.get("device"),
            process=groups.get("process"),
            pid=int(pid) if pid else None,
            server=groups.get("server"),
            code=shape.code,
            message=line,
            written_by=record.written_by,
            kmsg_seq=record.seq,
        )
        subject = self._site.gpu_subject(bdf) if bdf else "node"
        return (Found(payload, subject, record),)

    def _kill(self, record: KernelRecord, line: str, killed: re.Match[str]) -> Sequence[Found]:
        pid = int(killed["pid"])
        summary = self._summary
        if summary and summary.pid == pid:
            self._summary = None
            oom = _Oom(record, line, summary.process, pid, summary.constraint, summary.cgroup)
            return self._told(oom)
        if self._killed and self._killed[0] == pid and record.time_ns - self._killed[1] <= OOM_NS:
            return NOTHING
        return (*self._unfinished(), *self._told(_Oom(record, line, killed["process"], pid)))

    def _unfinished(self) -> Sequence[Found]:
        """A summary whose victim line never came."""
        summary, self._summary = self._summary, None
        return self._told(summary) if summary else NOTHING

    def _told(self, oom: _Oom) -> Sequence[Found]:
        self._killed = (oom.pid, oom.record.time_ns)
        of_cgroup = oom.constraint == "CONSTRAINT_MEMCG" or oom.line.startswith("Memory cgroup")
        payload = Kernel(
            category="oom_kill",
            process=oom.process,
            pid=oom.pid,
            code="oom.cgroup" if of_cgroup else "oom.node",
            cgroup=oom.cgroup,
            message=oom.line,
            written_by=oom.record.written_by,
            kmsg_seq=oom.record.seq,
        )
        return (Found(payload, "node", oom.record),)
