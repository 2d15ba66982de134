"""Which block, if any, begins with a line."""

from __future__ import annotations

import re
from typing import Final

from collectors.logs.block import Block
from collectors.logs.prefix import Line
from collectors.logs.reports import Report
from collectors.logs.tracebacks import OPENS, Traceback

_ROOT: Final = re.compile(r"\s{0,4}Root Cause \(first observed failure\):")
_LISTED: Final = re.compile(r"\s{0,4}(?:Other )?Failures:\s*$")


def opens(line: Line, time: int) -> Block | None:
    """The block that begins with this line."""
    words = line.words
    if "Traceback" in words and OPENS.match(words):
        return Traceback(time, time, line.rank, line.uncaught)
    if _ROOT.match(words):
        return Report(time, time, "elastic.root_cause")
    if _LISTED.match(words):
        return Report(time, time, "elastic.listed_failure")
    return None
