"""`port_downtime`: exact cumulative down seconds of a port in sliding windows, the open outage included.

This, not the number of flaps, is what thresholds apply to: a queue pair that never gets a packet through in
the short times between outages keeps counting. Each window opens at the moment at which its sum reaches the
threshold, while the port is still down, and clears when enough of it has left the window.
"""

from __future__ import annotations

from typing import Final

from streams.signals.base import Fact
from streams.signals.context import Context
from streams.signals.port_state import PortState
from streams.signals.thresholds import Effective
from topics.payloads import Severity
from topics.time import seconds

SIGNAL: Final = "port_downtime"
WINDOWS_S: Final = {"1min": 60, "10min": 600, "1h": 3600, "24h": 86400}


Rule = tuple[int, int, Severity, int]
"""`(window, least, severity, variant)`, durations in ns."""


def rules(ctx: Context) -> list[Rule]:
    return ctx.thresholds.once(SIGNAL, _rules)


def _rules(thresholds: Effective) -> list[Rule]:
    return [
        (window_s * 10**9, thresholds.ns(SIGNAL, f"{level}_{name}"), severity, 2 * i + j)
        for i, (name, window_s) in enumerate(WINDOWS_S.items())
        for j, (level, severity) in enumerate(_LEVELS)
    ]


_LEVELS: Final[tuple[tuple[str, Severity], ...]] = (("warn", "warning"), ("error", "error"))


def facts(entity: str, state: PortState, start: int, end: int, ctx: Context) -> list[Fact]:
    out: list[Fact] = []
    ledger = state.line.bad_time
    if ledger.bad_until(end) < ctx.ns(SIGNAL, "warn_1min"):  # the lowest: the table's test holds it so
        return out
    spells = state.line.spells
    last = spells[-1] if spells else None
    drill = any(s.drill for s in spells)
    evidence = (last.start_id,) if last and last.start_id else ()
    total = ledger.bad_until(end)
    for window, least, severity, variant in rules(ctx):
        if total < least:
            continue
        for since, until in ledger.episodes(least, window, start, end, state.line.hints):
            for opens, at in ((True, since), (False, until)):
                if at is None or not start <= at <= end:
                    continue
                out.append(
                    Fact(
                        SIGNAL, entity, "open" if opens else "cleared", severity, since, at, "s",
                        value=seconds(ledger.bad_in(window, at)), threshold=seconds(least),
                        window_s=seconds(window), level=severity, variant=variant, group=severity,
                        evidence=evidence if opens else (),
                        detail={"outages": ledger.count_in(window, at)} if opens else {}, drill=drill,
                    )
                )  # fmt: skip
    return out


def next_due(entity: str, state: PortState, after: int, ctx: Context) -> int | None:
    ledger = state.line.bad_time
    if not ledger.blocks and ledger.open_since is None:
        return None
    if not ledger.blocks and ledger.open_since is not None:  # the usual case, without a search
        ends = [ledger.open_since + least for _, least, _, _ in rules(ctx)]
        return min((end for end in ends if end > after), default=None)
    if ledger.open_since is None and ledger.bad_until(after) < ctx.ns(SIGNAL, "warn_1min"):
        return None
    due: list[int] = []
    for window, least, _, _ in rules(ctx):
        if ledger.bad_in(window, after) >= least:
            when = ledger.first_below(least, window, after)
        else:
            when = ledger.first_at_least(least, window, after)
        if when is not None and when > after:
            due.append(when)
    return min(due, default=None)
