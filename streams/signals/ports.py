"""The detector behind `port_outage`, `port_downtime` and `port_flapping`: one history, three readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from streams.signals import port_downtime, port_flapping, port_outage
from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from streams.signals.port_state import STATES, Meta, Missed, PortObs, PortState
from topics.events import Event
from topics.payloads import Heartbeat, IbPort

READINGS: Final = (port_outage, port_downtime, port_flapping)

Obs = PortObs | Missed | Meta


class Ports(Detector[PortState, Obs]):
    name: ClassVar[str] = "ports"
    signals: ClassVar[tuple[str, ...]] = tuple(r.SIGNAL for r in READINGS)
    kinds: ClassVar[tuple[str, ...]] = ("ib_port", "heartbeat")
    uses_placement: ClassVar[bool] = True

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Obs]]:
        data = event.data
        if isinstance(data, Heartbeat):
            known = ctx.known[self.name]
            for name, level in data.state.ports.items():
                entity = f"port/{name}"
                if (entity in known or (level != "ACTIVE" and name in ctx.ports_active)) and level in STATES:
                    if level != "ACTIVE" and ctx.booting(event.time):
                        continue
                    yield entity, PortObs(
                        event.time, True, level, event.id,
                        drill=bool(event.drill), uncertain=ctx.since_beat(event.time, name),
                    )  # fmt: skip
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
                yield entity, PortObs(
                    event.time, False, data.state, event.id, data.phys_state,
                    was_active=data.previous_state == "ACTIVE", drill=bool(event.drill),
                )  # fmt: skip

    def initial(self, entity: str) -> PortState:
        return PortState()

    def observe(
        self, entity: str, state: PortState, observations: Sequence[Obs], ctx: Context
    ) -> Change[PortState]:
        new = state
        seen = [o for o in observations if isinstance(o, PortObs)]
        first = ctx.ports_active.get(entity.removeprefix("port/"))
        if first is not None and state.active is None and not state.obs:
            seen.append(PortObs(first, True, "ACTIVE", ""))
        since: int | None = None
        for o in observations:
            if isinstance(o, Meta):
                meta = Meta(*(b if b is not None else a for a, b in zip(new.meta, o, strict=True)))
                if meta != new.meta:
                    new = replace(new, meta=meta)
            elif isinstance(o, Missed) and o.time >= ctx.oldest:
                if any(m.time == o.time for m in new.missed):
                    continue
                new = replace(new, missed=tuple(sorted((*new.missed, o))))
                since = o.time if since is None else min(since, o.time)
        new, moved = new.observed(entity, seen, ctx)
        since = min((t for t in (since, moved) if t is not None), default=None)
        return Change(new, since)

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

    def placement_since(self, state: PortState) -> int | None:
        outages = state.resolved.outages
        return outages[0].start if outages else None
