"""The detector behind `port_outage`, `port_downtime` and `port_flapping`: one history, three readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from streams.signals import port_downtime, port_flapping, port_outage
from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from streams.signals.port_state import MAX_MISSED, Meta, Missed, PortState, cause_of
from streams.signals.timeline import DAY_NS, Level, Obs
from topics.events import Event
from topics.payloads import Heartbeat, IbPort

READINGS: Final = (port_outage, port_downtime, port_flapping)

STATES: Final = frozenset({"DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
"""States that say something; `NOP` does not."""

PortObs = Obs | Missed | Meta


class Ports(Detector[PortState, PortObs]):
    name: ClassVar[str] = "ports"
    signals: ClassVar[tuple[str, ...]] = tuple(r.SIGNAL for r in READINGS)
    kinds: ClassVar[tuple[str, ...]] = ("ib_port", "heartbeat")
    uses_placement: ClassVar[bool] = True

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, PortObs]]:
        data = event.data
        if isinstance(data, Heartbeat):
            known = ctx.known[self.name]
            for name, state in data.state.ports.items():
                entity = f"port/{name}"
                good = state == "ACTIVE"
                if (
                    (entity in known or (not good and name in ctx.ports_active))
                    and state in STATES
                    and (good or not ctx.booting(event.time))
                ):
                    gap = ctx.since_beat(event.time, name)
                    yield (
                        entity,
                        Obs(event.time, True, good, event.id, drill=bool(event.drill), uncertain=gap),
                    )
        elif isinstance(data, IbPort):
            entity = f"port/{data.device}/{data.port}"
            yield entity, Meta(data.link_layer, data.netdev, data.switch, data.switch_port)
            if data.missed_transitions:
                bound = ctx.since_beat(event.time, f"{data.device}/{data.port}")
                yield (
                    entity,
                    Missed(event.time, data.missed_transitions, bound, event.id, bool(event.drill)),
                )
            if data.state in STATES:
                good = data.state == "ACTIVE"
                yield (
                    entity,
                    Obs(
                        event.time,
                        False,
                        good,
                        event.id,
                        "" if good else cause_of(data),
                        was_good=data.previous_state == "ACTIVE" or _went_down(data, event.time, ctx),
                        drill=bool(event.drill),
                    ),
                )

    def initial(self, entity: str) -> PortState:
        return PortState()

    def observe(
        self, entity: str, state: PortState, observations: Sequence[PortObs], ctx: Context
    ) -> Change[PortState]:
        name = entity.removeprefix("port/")
        seen = [o for o in observations if isinstance(o, Obs)]
        line, meta, missed = state.line, state.meta, state.missed
        first = ctx.ports_active.get(name)
        if first is not None and line.good is None and not line.obs:
            if all(first <= o.time for o in seen):
                line = replace(line, good=True)
            else:
                seen.append(Obs(first, True, True, ""))
        since: int | None = None
        for o in observations:
            if isinstance(o, Meta):
                meta = meta.with_more(o)
            elif isinstance(o, Missed) and o.time >= ctx.oldest and all(m.time != o.time for m in missed):
                missed = tuple(sorted(m for m in (*missed, o) if m.time > o.time - DAY_NS))[-MAX_MISSED:]
                since = o.time if since is None else min(since, o.time)

        def levels() -> Iterable[Level]:
            for beat in ctx.beats:
                level = beat.ports.get(name)
                yield Level(beat.time, None if level is None else level == "ACTIVE", beat.id, beat.drill)

        line, moved = line.observed(seen, levels, ctx, ctx.ns("port_outage", "level_settle"))
        if moved is not None:
            since = moved if since is None else min(since, moved)
        if since is None and meta == state.meta:
            return Change(state, None)
        return Change(PortState(line, missed, meta), since)

    def facts(self, entity: str, state: PortState, start: int, end: int, ctx: Context) -> list[Fact]:
        out = [f for r in READINGS for f in r.facts(entity, state, start, end, ctx)]
        out.sort(key=lambda f: f.time)
        return out

    def next_due(self, entity: str, state: PortState, after: int, ctx: Context) -> int | None:
        due = (r.next_due(entity, state, after, ctx) for r in READINGS)
        return min((d for d in due if d is not None), default=None)

    def dump(self, state: PortState) -> Any:
        return state.dump()

    def load(self, entity: str, raw: Any) -> PortState:
        return PortState.load(raw)

    def forgettable(self, state: PortState, ctx: Context) -> bool:
        return not state.missed and state.line.settled(ctx.oldest)

    def placement_since(self, state: PortState) -> int | None:
        spells = state.line.spells
        return spells[0].start if spells else None


def _went_down(data: IbPort, time: int, ctx: Context) -> bool:
    """A driver says that a link is down when it goes down, and while the node starts. So its first word on a
    port tells of a transition once the node is up. Where only the kernel's log is read, nothing else does."""
    up = ctx.boot_time is not None and not ctx.booting(time)
    return up and data.previous_state is None and data.written_by == "kernel"
