"""Which files and units carry a workload's output, and whose output it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from topics.numbers import whole
from topics.time import parse_rfc3339

GROUPS: Final = frozenset({"job", "attempt", "rank", "local_rank", "time"})


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose output a stream or a line is; what is not known is absent."""

    job: str | None = None
    attempt: int | None = None
    rank: int | None = None
    local_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A line without the prefix that its source puts before it."""

    owner: Owner
    text: str
    time: int | None = None
    """Nanoseconds, when the line carries a stamp with a zone."""


def groups_of(text: str, allowed: frozenset[str]) -> set[str]:
    """The named groups of a site's own pattern; `ValueError` for what is no pattern, and for other names."""
    try:
        groups = set(re.compile(text).groupindex)
    except re.error as exc:
        raise ValueError(f"{text!r} is no regular expression: {exc}") from exc
    if groups - allowed:
        raise ValueError(f"{text!r} has unknown groups: {', '.join(sorted(groups - allowed))}")
    return groups


class LogSource(BaseModel):
    """Files (or journald units) of workloads, and how to tell the job and the rank.

    A path, a unit's name and each line may say it: the regular expressions have the groups `job`, `attempt`,
    `rank`, `local_rank`, the one for lines also `time` (RFC 3339). A line's word wins over the path's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...] = ()
    """Globs, `**` allowed, e.g. `/var/log/jobs/*/rank*.log`."""
    units: tuple[str, ...] = ()
    """journald units, `*` allowed, e.g. `train@*.service`."""
    job: str | None = None
    """The job, where neither path nor line says it."""
    name: str | None = None
    """Searched in the path or the unit's name, e.g. `/jobs/(?P<job>\\d+)/rank(?P<rank>\\d+)\\.log$`."""
    line: str | None = None
    """Matched at the start of each line and cut off, e.g. `\\[(?P<rank>\\d+)\\] `."""
    first: Literal["settings", "all", "nothing"] = "settings"
    """What to take of a file that was there before the agent first started: its lines have no time of their
    own, so by default only settings (versions, addresses) are told."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.files and not self.units:
            raise ValueError("a log source needs files or units")
        known: set[str] = set()
        for text in (self.name, self.line):
            if text is None:
                continue
            known |= groups_of(text, GROUPS)
        if self.job is None and "job" not in known:
            raise ValueError("a log source must say the job: `job`, or a group of `name` or `line`")
        return self

    @cached_property
    def _name(self) -> re.Pattern[str] | None:
        return re.compile(self.name) if self.name else None

    @cached_property
    def _line(self) -> re.Pattern[str] | None:
        return re.compile(self.line) if self.line else None

    def owner(self, name: str) -> Owner | None:
        """Whose a file or unit is; None when `name` is set and does not fit: it is none of this source."""
        if self._name is None:
            return Owner(job=self.job)
        seen = self._name.search(name)
        if seen is None:
            return None
        return _owner(seen.groupdict(), Owner(job=self.job))

    def said(self, text: str, owner: Owner) -> Said:
        """A line's own words, and whose they are."""
        if self._line is None:
            return Said(owner, text, _stamp(text))
        seen = self._line.match(text)
        if seen is None:
            return Said(owner, text, _stamp(text))
        groups = seen.groupdict()
        stamp = groups.pop("time", None)
        return Said(_owner(groups, owner), text[seen.end() :], _stamp(stamp or text))


def _owner(groups: dict[str, str | None], known: Owner) -> Owner:
    def number(name: str, otherwise: int | None) -> int | None:
        number = whole(groups.get(name), 10**9)
        return otherwise if number is None else number

    return Owner(
        job=groups.get("job") or known.job,
        attempt=number("attempt", known.attempt),
        rank=number("rank", known.rank),
        local_rank=number("local_rank", known.local_rank),
    )


def _stamp(text: str) -> int | None:
    """The RFC 3339 time at the start of a line, if there is one with a zone."""
    if len(text) < 20 or text[4] != "-" or text[10] not in "Tt" or not text[:4].isdecimal():
        return None
    try:
        return parse_rfc3339(text.partition(" ")[0])
    except ValueError:
        return None
