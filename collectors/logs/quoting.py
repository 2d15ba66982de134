"""Lines that are somebody else's, printed again: an old log shown, another rank's output echoed.

Words in front of a quotation keep it from matching at all; this is for lines repeated as they were.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from collectors.logs.event import Place
from collectors.logs.prefix import Line
from topics.time import NS_PER_S

TOO_FAR: Final = timedelta(hours=26)
"""A stamp has no zone, so up to a day of difference is the zone's; more is another day's line."""

_STAMP: Final = re.compile(
    r"\[?(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T_]|[EWIF](?P<m>\d{1,2})(?P<d>\d\d) )"
    r"(?P<hour>\d\d):(?P<minute>\d\d):"
)


class Quotes:
    """Tells, for one job, which lines contradict the stream that they stand in."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._usual: timedelta | None = None
        """How far the first stamp was from its line's time: a whole log may have been moved in time."""

    def spoken(self, node: str) -> None:
        """`node` is one of the job's."""
        self._nodes.add(node)

    def quoted(self, line: Line, place: Place, rank: int | None) -> bool:
        """Whether the line's own prefixes name another rank, another node of the job, or another day.

        `rank` is the stream's where it is known. The stamp counts only where the line's time is its own,
        not that of its reading.
        """
        if line.foreign:
            return True
        host = line.nccl_host
        if host is not None and rank is not None and host != place.node and host in self._nodes:
            return True
        return place.identity is None and self._of_another_day(line, place.time)

    def _of_another_day(self, line: Line, time: int) -> bool:
        prefix = line.text[: len(line.text) - len(line.words)]
        seen = _STAMP.search(prefix) if prefix else None
        away = _away(seen, datetime.fromtimestamp(time // NS_PER_S, UTC)) if seen else None
        if away is None:
            return False
        if self._usual is None:
            self._usual = away
        return abs(away) > TOO_FAR and abs(away - self._usual) > TOO_FAR


def _away(stamp: re.Match[str], now: datetime) -> timedelta | None:
    """How far a stamp lies before `now`, the nearest where it has no year; None when it is no date."""
    month, day = int(stamp["month"] or stamp["m"]), int(stamp["day"] or stamp["d"])
    years = [int(stamp["year"])] if stamp["year"] else [now.year - 1, now.year, now.year + 1]
    away = []
    for year in years:
        try:
            when = datetime(year, month, day, int(stamp["hour"]), int(stamp["minute"]), tzinfo=UTC)
        except ValueError:
            continue
        away.append(now - when)
    return min(away, key=abs, default=None)
