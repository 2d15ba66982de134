"""`nvlink_down`: an NVLink that was active and is not any more.

Sleep is a power state, no fault. Links that never were active in sight are not there (12-of-18 boards), and
in the first minutes after a boot links still train.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from streams.signals.base import Change
from streams.signals.context import Context
from streams.signals.lines import LineDetector, Told
from streams.signals.timeline import Level, Obs, Spell, Timeline
from topics.events import Event
from topics.payloads import Heartbeat, Nvlink

GOOD: Final = frozenset({"active", "sleep"})


class NvlinkDown(LineDetector):
    name: ClassVar[str] = "nvlink_down"
    signal: ClassVar[str] = "nvlink_down"
    signals: ClassVar[tuple[str, ...]] = ("nvlink_down",)
    kinds: ClassVar[tuple[str, ...]] = ("nvlink", "heartbeat")

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Obs]]:
        data = event.data
        known = ctx.known[self.name]
        if isinstance(data, Heartbeat):
            links = ctx.links_of(event)
            if not known and ctx.quiet_links is links:
                return
            bad = 0
            for name, state in links.items():
                entity = f"nvlink/{name}"
                good = state in GOOD
                bad += not good
                if entity in known or (not good and ctx.link_was_active(name)):
                    if not good and ctx.booting(event.time):
                        continue
                    yield entity, Obs(event.time, True, good, event.id, state, drill=bool(event.drill))
            ctx.quiet_links = links if not bad else None
        elif isinstance(data, Nvlink):
            name = f"{data.gpu_uuid}/{data.link}"
            good = data.state in GOOD
            if good:
                ctx.link_active(name)
            entity = f"nvlink/{name}"
            was_good = data.previous_state in GOOD
            if entity in known or (not good and (was_good or ctx.link_was_active(name))):
                if not good and ctx.booting(event.time):
                    return
                yield entity, Obs(
                    event.time, False, good, event.id, data.state, was_good=was_good,
                    drill=bool(event.drill),
                )  # fmt: skip

    def observe(self, entity: str, state: Timeline, observations: Any, ctx: Context) -> Change[Timeline]:
        if state.good is None and not state.obs:
            if not ctx.link_was_active(entity.removeprefix("nvlink/")):
                return super().observe(entity, state, observations, ctx)
            state = Timeline(good=True)
        return super().observe(entity, state, observations, ctx)

    def settle(self, ctx: Context) -> int:
        return ctx.ns(self.signal, "level_settle")

    def levels(self, entity: str, ctx: Context) -> Iterable[Level]:
        name = entity.removeprefix("nvlink/")
        for beat in ctx.beats:
            state = beat.nvlinks.get(name)
            yield Level(beat.time, None if state is None else state in GOOD, beat.id, beat.drill)

    def told(self, entity: str, spell: Spell, ctx: Context) -> Told:
        gpu, _, link = entity.removeprefix("nvlink/").rpartition("/")
        return Told(
            ctx.thresholds.severity(self.signal),
            {"gpu_uuid": gpu, "link": int(link), "state": spell.notes[0][1]},
        )
