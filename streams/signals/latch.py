"""Detectors of faults that are told once and have no end of their own.

A condition lasts from its first record until something ends it (a reset, a reboot) or nothing was heard of
it for a while. Further records of the same code while it lasts only count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import FIRST_CORRECTION, Change, Detector, Fact
from streams.signals.context import Context
from topics.events import Event
from topics.payloads import Heartbeat, Severity

MAX_KEPT: Final = 64
END: Final = -1
BOOT: Final = -2
ENDS: Final = frozenset({END, BOOT})


class LatchObs(NamedTuple):
    """A record of one code, or (`code` END or BOOT) something that ends every condition of the entity."""

    time: int
    code: int
    id: str
    severity: Severity = "info"
    about: tuple[tuple[str, Any], ...] = ()
    """Goes into `detail`."""
    drill: bool = False


@dataclass(frozen=True, slots=True)
class LatchState:
    obs: tuple[LatchObs, ...] = ()


class Episode(NamedTuple):
    first: LatchObs
    until: int
    records: int


def trusted(event: Event[Any]) -> bool:
    """The kernel wrote it, or somebody who is allowed to exercise us (a drill, which nothing acts on)."""
    return getattr(event.data, "written_by", None) != "userspace" or bool(event.drill)


class LatchDetector(Detector[LatchState, LatchObs]):
    """`level` of its facts is `<prefix><code>`, unless a subclass names codes otherwise."""

    signal: ClassVar[str]
    ended_by_boot: ClassVar[bool] = True

    def level(self, code: int) -> str:
        return str(code)

    def reboots(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        """A heartbeat of a later boot ends what was before it."""
        if self.ended_by_boot and isinstance(event.data, Heartbeat) and ctx.boot_time is not None:
            for entity in ctx.known[self.name]:
                yield entity, LatchObs(ctx.boot_time, BOOT, "")

    def fault(self, entity: str, obs: LatchObs, ctx: Context) -> Iterable[tuple[str, LatchObs]]:
        """A record; one that comes after the boot that ended it says so itself."""
        yield entity, obs
        if self.ended_by_boot and ctx.boot_time is not None and obs.time < ctx.boot_time:
            yield entity, LatchObs(ctx.boot_time, BOOT, "")

    def initial(self, entity: str) -> LatchState:
        return LatchState()

    def observe(
        self, entity: str, state: LatchState, observations: Sequence[LatchObs], ctx: Context
    ) -> Change[LatchState]:
        new: list[LatchObs] = []
        seen = {(o.time, o.code, o.id) for o in state.obs}
        for o in sorted(observations, key=_order):
            if (o.time, o.code, o.id) not in seen and not _moot(o, (*state.obs, *new)):
                if o.code not in ENDS and o.time < ctx.oldest:
                    ctx.late += 1
                    continue
                new.append(o)
        if not new:
            return Change(state, None)
        kept = _thinned(sorted((*state.obs, *new), key=_order), ctx)
        return Change(LatchState(kept), min(o.time for o in new))

    def facts(self, entity: str, state: LatchState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        for first, until, records in self.episodes(state, ctx):
            level = self.level(first.code)
            for opens, time in ((True, first.time), (False, until)):
                if not start <= time <= end:
                    continue
                out.append(
                    Fact(
                        self.signal, entity, "open" if opens else "cleared", first.severity, first.time,
                        time, "1", value=1.0 if opens else float(records), level=level, group=level,
                        variant=first.code % FIRST_CORRECTION, evidence=(first.id,),
                        detail=dict(first.about), drill=first.drill,
                    )
                )  # fmt: skip
        return sorted(out, key=lambda f: f.time)

    def next_due(self, entity: str, state: LatchState, after: int, ctx: Context) -> int | None:
        ends = [e.until for e in self.episodes(state, ctx) if e.until > after]
        return min(ends, default=None)

    def episodes(self, state: LatchState, ctx: Context) -> list[Episode]:
        quiet = ctx.ns(self.signal, "forgotten_after")
        out: list[Episode] = []
        for code in sorted({o.code for o in state.obs} - ENDS):
            first: LatchObs | None = None
            last = records = 0
            for o in state.obs:
                if o.code != code and o.code not in ENDS:
                    continue
                if first is not None and (o.code in ENDS or o.time - last > quiet):
                    out.append(Episode(first, min(o.time, last + quiet), records))
                    first = None
                if o.code == code:
                    records = records + 1 if first is not None else 1
                    first = first or o
                    last = o.time
            if first is not None:
                out.append(Episode(first, last + quiet, records))
        return out

    def dump(self, state: LatchState) -> Any:
        return [[o.time, o.code, o.id, o.severity, dict(o.about), o.drill] for o in state.obs]

    def load(self, entity: str, raw: Any) -> LatchState:
        return LatchState(tuple(LatchObs(t, c, i, s, _pairs(a), d) for t, c, i, s, a, d in raw))

    def forgettable(self, state: LatchState, ctx: Context) -> bool:
        return all(o.time < ctx.oldest for o in state.obs)


def about(**fields: Any) -> tuple[tuple[str, Any], ...]:
    """Detail fields that are known."""
    return _pairs({k: v for k, v in fields.items() if v is not None})


def _pairs(fields: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(fields.items())


def _order(o: LatchObs) -> tuple[int, int, str]:
    return (o.time, o.code, o.id)


def _moot(obs: LatchObs, known: Sequence[LatchObs]) -> bool:
    """A boot with nothing open before it: every heartbeat tells it again."""
    if obs.code != BOOT:
        return False
    last = max((o.time for o in known if o.code in ENDS and o.time <= obs.time), default=-1)
    return not any(o.code not in ENDS and last < o.time <= obs.time for o in known)


def _thinned(obs: Sequence[LatchObs], ctx: Context) -> tuple[LatchObs, ...]:
    """Within bounds: conditions that ended long ago go first, then repeats inside a storm."""
    ended = max((o.time for o in obs if o.code in ENDS), default=0)
    if ended < ctx.oldest:
        obs = [o for o in obs if o.time > ended]
    if len(obs) > MAX_KEPT:
        firsts: dict[int, LatchObs] = {}
        for o in obs:
            firsts.setdefault(o.code, o)
        rest = [o for o in obs if o is not firsts[o.code]][-MAX_KEPT // 2 :]
        obs = sorted((*list(firsts.values())[: MAX_KEPT // 2], *rest), key=_order)
    return tuple(obs)
