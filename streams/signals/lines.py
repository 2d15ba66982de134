"""Detectors whose condition is one timeline: bad for at least `hold`, from a state or from samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from streams.signals.base import Change, Detector, Fact
from streams.signals.context import Context
from streams.signals.timeline import Level, Obs, Spell, Timeline
from topics.events import Event
from topics.payloads import Gpu, Severity
from topics.time import seconds

NEVER_SEEN: Final = Timeline()
ASSUMED_GOOD: Final = Timeline(good=True)


class Told(NamedTuple):
    """How a spell is told."""

    severity: Severity
    detail: Mapping[str, Any]
    threshold: float | None = None


class LineDetector(Detector[Timeline, Obs]):
    """One signal over one timeline. It opens after `hold` without a good word, clears at the first one."""

    signal: ClassVar[str]
    unit: ClassVar[str] = "s"
    """`s`: the value is how long it has been bad; else the value is the one that was observed."""

    def initial(self, entity: str) -> Timeline:
        return NEVER_SEEN

    def hold(self, entity: str, ctx: Context) -> int:
        """How long it must be bad before it is told, in ns."""
        return 0

    def settle(self, ctx: Context) -> int:
        """How near to an edge a level proves nothing, in ns."""
        return 0

    def levels(self, entity: str, ctx: Context) -> Iterable[Level]:
        """What recent heartbeats or samples said about the entity, in time order."""
        return ()

    @abstractmethod
    def told(self, entity: str, spell: Spell, ctx: Context) -> Told: ...

    def observe(
        self, entity: str, state: Timeline, observations: Sequence[Obs], ctx: Context
    ) -> Change[Timeline]:
        line, since = state.observed(observations, lambda: self.levels(entity, ctx), ctx, self.settle(ctx))
        if since is None:
            return Change(state, None)
        return Change(line, since)

    def facts(self, entity: str, state: Timeline, start: int, end: int, ctx: Context) -> list[Fact]:
        out: list[Fact] = []
        hold = self.hold(entity, ctx)
        for spell in state.spells:
            opens = spell.start + hold
            if opens > end or (spell.end is not None and (spell.end <= opens or spell.end < start)):
                continue
            severity, detail, threshold = self.told(entity, spell, ctx)
            more = dict(detail)
            if spell.start_uncertain:
                more["start_uncertainty_s"] = seconds(spell.start_uncertain)
            fact = Fact(
                self.signal, entity, "open", severity, spell.start, opens, self.unit,
                value=seconds(hold) if self.unit == "s" else spell.value, threshold=threshold,
                evidence=(spell.start_id,) if spell.start_id else (), detail=more, drill=spell.drill,
            )  # fmt: skip
            if start <= opens:
                out.append(fact)
            if spell.end is not None and start <= spell.end <= end:
                lasted = seconds(spell.end - spell.start)
                closing = {**more, "lasted_s": lasted}
                if spell.end_uncertain:
                    closing["end_uncertainty_s"] = seconds(spell.end_uncertain)
                out.append(
                    replace(
                        fact, state="cleared", time=spell.end, detail=closing,
                        value=lasted if self.unit == "s" else None,
                        evidence=tuple(i for i in (spell.start_id, spell.end_id) if i),
                    )
                )  # fmt: skip
        return out

    def next_due(self, entity: str, state: Timeline, after: int, ctx: Context) -> int | None:
        spell = state.open_spell
        if spell is None:
            return None
        opens = spell.start + self.hold(entity, ctx)
        return opens if opens > after else None

    def dump(self, state: Timeline) -> Any:
        return state.dump()

    def load(self, entity: str, raw: Any) -> Timeline:
        return Timeline.load(raw)

    def forgettable(self, state: Timeline, ctx: Context) -> bool:
        good = state.resolved.good is True and (not state.obs or state.obs[-1].time < ctx.oldest)
        return good and state.spell is None


class Judged(NamedTuple):
    """What one sample says: bad or not, the value, and what sort of bad."""

    bad: bool
    value: float | None = None
    note: str = ""


WELL: Final = Judged(False)


class SampleDetector(LineDetector):
    """A condition of a GPU that each full sample tells anew. Nothing is kept of a GPU that is well."""

    kinds: ClassVar[tuple[str, ...]] = ("gpu",)

    @abstractmethod
    def judge(self, data: Gpu, ctx: Context) -> Judged | None:
        """None: the sample says nothing about it."""

    def initial(self, entity: str) -> Timeline:
        return ASSUMED_GOOD

    def read(self, event: Event[Any], ctx: Context) -> Iterable[tuple[str, Obs]]:
        judged = self.judge(event.data, ctx)
        known = ctx.known[self.name]
        if judged is None or not (judged.bad or known):
            return ()
        entity = f"gpu/{event.data.gpu_uuid}"
        if judged.bad:
            ctx.samples.bad(entity, self.signal)
        elif entity not in known:
            return ()
        good, drill = not judged.bad, bool(event.drill)
        obs = Obs(event.time, True, good, event.id, judged.note, drill=drill, value=judged.value)
        return ((entity, obs),)

    def levels(self, entity: str, ctx: Context) -> Iterable[Level]:
        return (
            Level(s.time, (entity, self.signal) not in s.bad, s.id)
            for s in ctx.samples.kept
            if entity in s.entities
        )
