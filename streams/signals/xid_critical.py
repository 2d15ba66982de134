"""`xid_critical`: a driver error that means the GPU, its memory or its link is at fault, not the program.

One condition per GPU and code: from its first record until the GPU was reset (the driver takes its recovery
action back), the node rebooted, or nothing was heard of it for a day. Records that user space wrote to the
kernel log open nothing unless they belong to a drill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import FIRST_CORRECTION, Change, Detector, Fact
from streams.signals.context import Context
from topics.events import Event
from topics.payloads import Heartbeat, Severity, Xid

SIGNAL: Final = "xid_critical"
MAX_KEPT: Final = 64
RECOVERY_CHANGED: Final = 154
RESETS: Final = frozenset({"RESET_GPU", "RESTART_BM", "RESTART_VM"})


class XidObs(NamedTuple):
    """A record of one code, or (`code` 0) something that ends every condition of the GPU."""

    time: int
    code: int
    id: str
    severity: Severity = "info"
    mnemonic: str = ""
    resolution: str = ""
    drill: bool = False


@dataclass(frozen=True, slots=True)
class XidState:
    obs: tuple[XidObs, ...] = ()


def is_critical(data: Xid) -> bool:
    """Fatal by the catalogue; or an error of hardware or firmware, or one that only a reset mends."""
    if data.caused_by_xid is not None or data.attribution == "consequence":
        return False
    if data.severity == "fatal":
        return True
    return data.severity == "error" and (
        data.attribution in {"hardware", "firmware"} or data.resolution in RESETS
    )


def trusted(event: Event[Any]) -> bool:
    """The kernel wrote it, or somebody who is allowed to exercise us (a drill, which nothing acts on)."""
    return getattr(event.data, "written_by", None) != "userspace" or bool(event.drill)


class XidCritical(Detector[XidState, XidObs]):
    name: ClassVar[str] = "xid_critical"
    signals: ClassVar[tuple[str, ...]] = (SIGNAL,)
    kinds: ClassVar[tuple[str, ...]] = ("xid", "heartbeat")

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, XidObs]]:
        data = event.data
        if isinstance(data, Heartbeat):
            if ctx.boot_time is not None:
                for entity in ctx.known[self.name]:
                    yield entity, XidObs(ctx.boot_time, 0, event.id)
        elif isinstance(data, Xid) and trusted(event):
            if data.xid == RECOVERY_CHANGED and (data.recovery_action or "").lower() == "none":
                if event.subject in ctx.known[self.name]:
                    yield event.subject, XidObs(event.time, 0, event.id)
            elif is_critical(data):
                yield event.subject, XidObs(
                    event.time, data.xid, event.id, data.severity, data.mnemonic, data.resolution,
                    bool(event.drill),
                )  # fmt: skip

    def initial(self, entity: str) -> XidState:
        return XidState()

    def observe(
        self,
        entity: str,
        state: XidState,
        observations: Sequence[XidObs],
        ctx: Context,
    ) -> Change[XidState]:
        new = [o for o in observations if o not in state.obs and not self._moot(o, state)]
        if not new:
            return Change(state, None)
        kept = _thinned(sorted({*state.obs, *new}), ctx)
        return Change(XidState(kept), min(o.time for o in new))

    def _moot(self, obs: XidObs, state: XidState) -> bool:
        """An end with nothing open before it."""
        if obs.code:
            return False
        last = max((o.time for o in state.obs if not o.code and o.time <= obs.time), default=-1)
        return not any(o.code and last < o.time <= obs.time for o in state.obs)

    def facts(self, entity: str, state: XidState, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        for first, until, count in self._episodes(state, ctx):
            level = f"xid{first.code}"
            detail = {
                "xid": first.code, "mnemonic": first.mnemonic, "resolution": first.resolution,
            }  # fmt: skip
            if start <= first.time <= end:
                out.append(
                    Fact(
                        SIGNAL, entity, "open", first.severity, first.time, first.time, "1", value=1.0,
                        level=level, group=level, variant=first.code % FIRST_CORRECTION, evidence=(first.id,),
                        detail=detail, drill=first.drill,
                    )
                )  # fmt: skip
            if until is not None and start <= until <= end:
                out.append(
                    Fact(
                        SIGNAL, entity, "cleared", first.severity, first.time, until, "1",
                        value=float(count), level=level, group=level, variant=first.code % FIRST_CORRECTION,
                        evidence=(first.id,), detail=detail, drill=first.drill,
                    )
                )  # fmt: skip
        return sorted(out, key=lambda f: f.time)

    def next_due(self, entity: str, state: XidState, after: int, ctx: Context) -> int | None:
        ends = [until for _, until, _ in self._episodes(state, ctx) if until is not None and until > after]
        return min(ends, default=None)

    def _episodes(self, state: XidState, ctx: Context) -> list[tuple[XidObs, int | None, int]]:
        """`(first record, end, records)` of each condition."""
        quiet = ctx.ns(SIGNAL, "forgotten_after")
        out: list[tuple[XidObs, int | None, int]] = []
        for code in sorted({o.code for o in state.obs} - {0}):
            first: XidObs | None = None
            last = count = 0
            for o in state.obs:
                if o.code not in {0, code}:
                    continue
                if first is not None and (o.code == 0 or o.time - last > quiet):
                    out.append((first, min(o.time, last + quiet) if o.code == 0 else last + quiet, count))
                    first = None
                if o.code:
                    first = first or o
                    count = 1 if first is o else count + 1
                    last = o.time
            if first is not None:
                out.append((first, last + quiet, count))
        return out

    def dump(self, state: XidState) -> Any:
        return [list(o) for o in state.obs]

    def load(self, entity: str, raw: Any) -> XidState:
        return XidState(tuple(XidObs(*o) for o in raw))


def _thinned(obs: Sequence[XidObs], ctx: Context) -> tuple[XidObs, ...]:
    """Within bounds: conditions that ended long ago go first, then repeats inside a storm."""
    ended = max((o.time for o in obs if not o.code), default=0)
    if ended < ctx.oldest:
        obs = [o for o in obs if o.time > ended]
    if len(obs) > MAX_KEPT:
        firsts = {min(o for o in obs if o.code == code) for code in {o.code for o in obs}}
        rest = [o for o in obs if o not in firsts][-(MAX_KEPT - len(firsts)) :]
        obs = sorted({*firsts, *rest})[-MAX_KEPT:]
    return tuple(obs)
