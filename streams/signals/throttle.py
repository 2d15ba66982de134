"""`throttle`: how long a GPU's clocks were held down, per reason, as seconds and share of a window.

`hw_slowdown`, `hw_thermal` and `hw_power_brake` are faults, `sw_thermal` degrades; `sw_power_cap` is normal
at full load and no matter here. Never averaged over a node: one slow GPU slows the whole job. The driver's
nanosecond counters are used where there are any, else the time between changes of the mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from streams.signals.ledger import EMPTY, Hints, Ledger
from streams.signals.lines import ASSUMED_GOOD
from streams.signals.timeline import Level, Obs, Timeline
from topics.events import Event
from topics.payloads import Heartbeat, Severity, Throttle
from topics.time import seconds

SIGNAL: Final = "throttle"
CLASS_OF: Final = {
    "hw_slowdown": "hardware",
    "hw_thermal": "hardware",
    "hw_power_brake": "hardware",
    "sw_thermal": "sw_thermal",
}
WINDOWS_S: Final = {"1min": 60, "10min": 600}
MAX_BLOCKS: Final = 64


class ThrottleObs(NamedTuple):
    """The mask at a time, and what the counter grew by since it was read before."""

    mask: Obs
    block: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class ThrottleState:
    line: Timeline = ASSUMED_GOOD
    counted: Ledger | None = None
    """From the counter; None while only masks are known."""
    drill: bool = False


class ThrottleDetector(Detector[ThrottleState, ThrottleObs]):
    """One state per GPU and reason; its key is `gpu/<uuid> <reason>`."""

    name: ClassVar[str] = "throttle"
    signals: ClassVar[tuple[str, ...]] = (SIGNAL,)
    kinds: ClassVar[tuple[str, ...]] = ("throttle", "heartbeat")

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, ThrottleObs]]:
        data = event.data
        known = ctx.known[self.name]
        if isinstance(data, Heartbeat):
            for uuid, reasons in data.state.throttle.items():
                if not known and CLASS_OF.keys().isdisjoint(reasons):
                    continue
                for reason in CLASS_OF:
                    entity = f"gpu/{uuid} {reason}"
                    bad = reason in reasons
                    if bad or entity in known:
                        mask = Obs(event.time, True, not bad, event.id, drill=bool(event.drill))
                        yield entity, ThrottleObs(mask)
        elif isinstance(data, Throttle):
            before = ctx.throttle_read.get(data.gpu_uuid)
            cumulative = data.cumulative_ns or {}
            for reason in CLASS_OF:
                entity = f"gpu/{data.gpu_uuid} {reason}"
                bad = reason in data.reasons
                block = None
                if reason in cumulative:
                    grown = ctx.counters.grew(
                        f"throttle/{data.gpu_uuid}", reason, event.time, cumulative[reason]
                    )
                    if grown:
                        start = max(event.time - grown, before or 0) if before is None else before
                        block = (start // 1000 * 1000, event.time, min(grown, event.time - start))
                if bad or block is not None or entity in known:
                    mask = Obs(event.time, False, not bad, event.id, drill=bool(event.drill))
                    yield entity, ThrottleObs(mask, block)
            if cumulative and event.time > (before or 0):
                ctx.throttle_read[data.gpu_uuid] = event.time

    def initial(self, entity: str) -> ThrottleState:
        return ThrottleState()

    def observe(
        self, entity: str, state: ThrottleState, observations: Sequence[ThrottleObs], ctx: Context
    ) -> Change[ThrottleState]:
        uuid, _, reason = entity.removeprefix("gpu/").rpartition(" ")

        def levels() -> Iterable[Level]:
            for beat in ctx.beats:
                reasons = beat.throttle.get(uuid)
                yield Level(beat.time, None if reasons is None else reason not in reasons, beat.id)

        settle = ctx.ns(SIGNAL, "level_settle")
        line, since = state.line.observed([o.mask for o in observations], levels, ctx, settle)
        counted = state.counted
        for o in sorted(o for o in observations if o.block is not None):
            if o.block is None:
                continue
            counted = counted or EMPTY
            if counted.blocks and o.block[0] < counted.blocks[-1][1]:
                continue
            counted = Ledger((*counted.blocks, o.block)[-MAX_BLOCKS:])
            since = o.block[0] if since is None else min(since, o.block[0])
        if since is None:
            return Change(state, None)
        drill = state.drill or any(o.mask.drill for o in observations)
        return Change(replace(state, line=line, counted=counted, drill=drill), since)

    def facts(self, entity: str, state: ThrottleState, start: int, end: int, ctx: Context) -> list[Fact]:
        gpu, _, reason = entity.rpartition(" ")
        out: list[Fact] = []
        ledger = ledger_of(state)
        spell = state.line.spells[-1] if state.line.spells else None
        for window, least, severity, variant in rules(reason, ctx, gpu.removeprefix("gpu/")):
            if ledger.bad_until(end) < least:
                continue
            for since, until in ledger.episodes(least, window, start, end, self._hints(state)):
                for opens, time in ((True, since), (False, until)):
                    if time is None or not start <= time <= end:
                        continue
                    throttled = ledger.bad_in(window, time)
                    detail = {"reason": reason, "share": round(throttled / window, 4)}
                    out.append(
                        Fact(
                            SIGNAL, gpu, "open" if opens else "cleared", severity, since, time, "s",
                            value=seconds(throttled), threshold=seconds(least), window_s=seconds(window),
                            level=reason, group=reason, variant=variant, drill=state.drill, detail=detail,
                            evidence=(spell.start_id,) if opens and spell and spell.start_id else (),
                        )
                    )  # fmt: skip
        return sorted(out, key=lambda f: f.time)

    def next_due(self, entity: str, state: ThrottleState, after: int, ctx: Context) -> int | None:
        gpu, _, reason = entity.rpartition(" ")
        ledger = ledger_of(state)
        due: list[int] = []
        for window, least, _, _ in rules(reason, ctx, gpu.removeprefix("gpu/")):
            if ledger.open_since is None and ledger.bad_until(after) < least:
                continue
            bad = ledger.bad_in(window, after) >= least
            when = (ledger.first_below if bad else ledger.first_at_least)(least, window, after)
            if when is not None and when > after:
                due.append(when)
        return min(due, default=None)

    def _hints(self, state: ThrottleState) -> Hints | None:
        """The counter's blocks are few; a mask may have changed for hours."""
        return state.line.hints if state.counted is None else None

    def dump(self, state: ThrottleState) -> Any:
        return [state.line.dump(), state.counted and state.counted.dump(), state.drill]

    def load(self, entity: str, raw: Any) -> ThrottleState:
        line, counted, drill = raw
        return ThrottleState(Timeline.load(line), None if counted is None else Ledger.load(counted), drill)

    def forgettable(self, state: ThrottleState, ctx: Context) -> bool:
        longest = max(WINDOWS_S.values()) * 10**9
        blocks = ledger_of(state).blocks
        quiet = not blocks or blocks[-1][1] < ctx.oldest - longest
        return quiet and state.line.resolved.good is True and state.line.spell is None


def ledger_of(state: ThrottleState) -> Ledger:
    """The throttled time: by the driver's counter where there is one, else by the mask."""
    return state.counted if state.counted is not None else state.line.bad_time


def rules(reason: str, ctx: Context, gpu: str) -> list[tuple[int, int, Severity, int]]:
    """`(window, least, severity, variant)`, durations in ns."""
    kind = CLASS_OF[reason]
    severity: Severity = "error" if kind == "hardware" else "warning"
    number = list(CLASS_OF).index(reason) * len(WINDOWS_S)
    return [
        (window_s * 10**9, ctx.ns(SIGNAL, f"{kind}_{name}", gpu), severity, number + i)
        for i, (name, window_s) in enumerate(WINDOWS_S.items())
    ]
