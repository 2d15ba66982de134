"""Lines that are somebody else's, printed again: an old log shown, another rank's output echoed.

Words in front of a quotation keep it from matching at all; this is for lines repeated as they were.
"""

from __future__ import annotations

import re
from collections.abc import Set
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


def is_quoted(line: Line, place: Place, rank: int | None, nodes: Set[str]) -> bool:
    """Whether the line's own prefixes contradict the stream that it stands in.

    `rank` is the stream's where it is known; `nodes` are those of the job that have spoken. The stamp
    counts only where the line's time is its own, not that of its reading.
    """
    if line.foreign:
        return True
    host = line.nccl_host
    if host is not None and rank is not None and host != place.node and host in nodes:
        return True
    return place.identity is None and _of_another_day(line, place.time)


def _of_another_day(line: Line, time: int) -> bool:
    prefix = line.text[: len(line.text) - len(line.words)]
    seen = _STAMP.search(prefix) if prefix else None
    if seen is None:
        return False
    now = datetime.fromtimestamp(time // NS_PER_S, UTC)
    year = seen["year"]
    month, day = int(seen["month"] or seen["m"]), int(seen["day"] or seen["d"])
    years = [int(year)] if year else [now.year - 1, now.year, now.year + 1]
    away = []
    for one in years:
        try:
            stamp = datetime(one, month, day, int(seen["hour"]), int(seen["minute"]), tzinfo=UTC)
        except ValueError:
            continue
        away.append(abs(now - stamp))
    return bool(away) and min(away) > TOO_FAR
