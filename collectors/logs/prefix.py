"""What stands before the words of a line: who printed it, and which logger.

Launchers, schedulers, loggers and NCCL each put something in front, in any nesting:
`3: [rank25]:[E314 02:14:06.6 ProcessGroupNCCL.cpp:685] [PG ID 0 PG GUID 0(default_pg) Rank 25] words`.
Stripping is a loop over known shapes; anything else in front of the words means that somebody quotes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_TEXT: Final = 4096
"""Characters of a line that are looked at; the shapes that we know are far shorter."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_DATE: Final = r"\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"

_NO_LOGGER: Final = (
    "hint|tip|note|advice|doc|docs|example|quote|echo|grep|viewer|replay|history|faq|runbook|old|prev"
    "|Errno|enforce"
)
"""First words in brackets that are no logger's name: somebody's explanation, or part of the message."""

_STREAM: Final = re.compile(
    rf"""
    \[[Rr]ank:?\ ?(?P<rank>\d{{1,7}})\](?P<hook>:?)\ ?                        # PyTorch, Lightning
  | [Rr]ank[\ _]?(?P<said_rank>\d{{1,7}})\ ?[:|]\ {{1,3}}                     # plain prints
  | \[1,(?P<mpi_rank>\d{{1,7}})\]<std(?:out|err)>:\ ?                         # mpirun --tag-output
  | \[(?!rank\d)[A-Za-z_]{{1,24}}(?P<local_rank>\d{{1,4}})\]:\ ?              # torchrun --tee
  | {_DATE}\ std(?:out|err)\ [FP]\ ?                                          # container runtime
  | \([A-Za-z_][\w.:]{{0,60}}\ pid=\d{{1,10}}(?:,\ ip=[\w.:]{{1,60}})?\)\ ?   # Ray
  | \(raylet(?:,\ ip=[\w.:]{{1,60}})?\)\ ?
  | \ {{0,6}}(?P<task>\d{{1,7}}):\ (?=\S)                                     # srun --label
  | (?=[\w.-]{{0,60}}\d)(?!(?:step|iter|epoch|batch|line|version|v|srun|slurmstepd)[\d_-])
    (?![\w.-]{{0,60}}\.(?:log|out|err|txt|md|py|json):)
    (?P<host>[A-Za-z][\w.-]{{0,60}}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}):\ (?=\S)   # pdsh, DeepSpeed
    """,
    re.VERBOSE,
)

_LOGGER: Final = re.compile(
    rf"""
    \ ?\[{_DATE}\]\ {{0,3}}
  | {_DATE}\ {{0,3}}(?:[|-]\ {{0,3}})?
  | \[[EWIF](?:\d{{3,4}}\ [\d:.]{{5,24}})?\ [\w./+-]{{1,200}}:\d{{1,7}}\]\ {{0,3}}        # c10 logging
  | [EWIF]\d{{4}}\ [\d:.]{{5,24}}\ {{1,8}}\d{{1,10}}\ [^\s\]]{{1,200}}:\d{{1,7}}\]\ {{0,3}}  # glog, klog
    (?:\[\d{{1,6}}/\d{{1,6}}(?:_\d{{1,4}})?\]\ )?
  | \[(?P<pg>PG\ (?:[^\[\]]|\[[^\[\]]{{0,60}}\]){{0,200}}?)?\ ?Rank\ (?P<pg_rank>\d{{1,7}})\]:?\ {{0,3}}
  | (?P<nccl>(?P<nccl_host>[A-Za-z0-9][\w.-]{{0,253}}):(?P<nccl_pid>\d{{1,10}}):(?P<nccl_tid>\d{{1,10}})
     \ \[(?P<nccl_dev>-?\d{{1,4}})\]\ (?:[\w./+-]{{1,200}}:\d{{1,7}}\ )?
     NCCL\ (?P<nccl_level>WARN|INFO|ERROR|ABORT|VERSION)\ )
    (?:\[(?:Proxy\ |Service|Progress)[^\]]{{0,40}}\]\ )?
  | \[NeMo\ [A-Z]\ {_DATE}\ [\w.]{{1,60}}:\d{{1,6}}\]\ {{0,3}}
  | \[?\b{_LEVEL}\]?(?::[\w.]{{1,60}}:|\ {{0,8}}[|:-]|(?<=\]))\ {{0,3}}(?:[\w.]{{1,60}}\ [|-]\ {{1,3}})?
  | \[(?!(?:{_NO_LOGGER})\b)
    [A-Za-z_][\w.:/@\ -]{{0,59}}\]:?\ {{0,3}}(?:-\ {{1,3}})?
  | [A-Za-z_][\w.]{{0,59}}:[\w<>]{{1,60}}:\d{{1,6}}\ [|-]\ {{1,3}}         # loguru
  | [A-Za-z_][\w.]{{0,59}}\ [|-]\ {{1,3}}(?={_LEVEL}\b)                      # "root - INFO - "
  | [A-Za-z_][\w.]{{0,99}}:\ (?=\[{_LEVEL}\])                               # "module.name: [ERROR] "
  | -\ {{1,3}}
    """,
    re.VERBOSE,
)

_RAISED: Final = re.compile(
    r"(?:\ {0,4}what\(\):\ {1,3}|(?P<exception>(?!nccl)(?:[A-Za-z_]\w{0,60}\.){0,8}"
    r"(?:[A-Za-z_]\w{0,60}(?:Error|Exception|Expired|Interrupt|Fault)|TimeoutExpired|Empty|Again))"
    r"(?:\([\w., ]{0,80}\))?:\ )".replace(r"\ ", " ")
)

_WORLD: Final = re.compile(r"PG (?:ID )?0\b|PG .*\bdefault_pg\b")
_GLUED: Final = re.compile(
    r"(?:(?:[Ee]poch|[Tt]rain|[Ss]tep|[Ii]ter)[\w /]{0,40}: {0,2})?(?:\s{0,4}\d{1,3}%\|[^|]{0,120}\| "
    r")?\d{1,12}(?:it|/\d{1,12}) \[[^\]]{0,200}\]"
    r"(?=\[rank\d{1,7}\]:)"
)
"""A line of stderr right behind a progress bar, which ends without a newline."""

_MOST: Final = 10


@dataclass(slots=True)
class Line:
    """A line taken apart. `body` is what the program printed, `words` the same without logger and
    NCCL prefixes, `message` without an exception's class as well."""

    text: str
    body: str
    words: str
    message: str
    rank: int | None = None
    uncaught: bool = False
    """The prefix is that of PyTorch's excepthook, which prints only what nobody caught."""
    foreign: bool = False
    """The excepthook's prefix names another rank than the stream's: somebody shows that rank's output."""
    local_rank: int | None = None
    group_rank: int | None = None
    """Rank within the process group that the line names, which need not be the global one."""
    group_is_world: bool = True
    task: int | None = None
    nccl_host: str | None = None
    nccl_level: str | None = None
    nccl_dev: int | None = None
    nccl_pid: int | None = None
    exception: str | None = None


def take_apart(text: str, rank: int | None) -> Line:
    """Strip what is known to stand in front; a literal `rank` wins over every printed one."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text[:MAX_TEXT]
    if "]:" in text and ("it/s" in text or "s/it" in text) and (glued := _GLUED.match(text)):
        text = text[glued.end() :]
    line = Line(text, text, text, text, rank)
    pos = _strip_stream(line, text)
    line.body = text[pos:] if pos else text
    _strip_logger(line, text, pos)
    return line


def _strip_stream(line: Line, text: str) -> int:
    pos = 0
    for _ in range(_MOST):
        found = _STREAM.match(text, pos)
        if found is None or found.end() == pos:
            break
        pos = found.end()
        kind = found.lastgroup
        if kind in ("rank", "hook"):
            line.uncaught = bool(found["hook"]) and text[found.start() + 1] == "r"
            if text[found.start() + 1] == "R":
                line.group_rank = int(found["rank"])
            elif line.rank is None:
                line.rank = int(found["rank"])
            elif line.rank != int(found["rank"]):
                line.foreign = True
        elif kind in ("mpi_rank", "said_rank"):
            if line.rank is None:
                line.rank = int(found[kind])
        elif kind == "local_rank":
            line.local_rank = int(found["local_rank"])
        elif kind == "task":
            line.task = int(found["task"])
    return pos


def _strip_logger(line: Line, text: str, pos: int) -> None:
    words = None
    for _ in range(_MOST):
        found = _LOGGER.match(text, pos)
        if found is not None and found.end() > pos:
            pos = found.end()
            _learn(line, found)
            continue
        found = _RAISED.match(text, pos)
        if found is None:
            break
        if words is None:
            words = pos
        pos = found.end()
        if line.exception is None:
            line.exception = found["exception"]
    line.message = text[pos:] if pos else text
    line.words = line.message if words is None else text[words:]


def _learn(line: Line, found: re.Match[str]) -> None:
    if found["pg_rank"] is not None:
        line.group_rank = int(found["pg_rank"])
        line.group_is_world = found["pg"] is None or _WORLD.match(found["pg"]) is not None
    if found["nccl"] is not None and line.nccl_level is None:
        line.nccl_host = found["nccl_host"]
        line.nccl_level = found["nccl_level"]
        line.nccl_dev = int(found["nccl_dev"])
        line.nccl_pid = int(found["nccl_pid"])
