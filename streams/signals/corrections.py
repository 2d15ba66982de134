"""What must be said when a late observation changes facts that were already told.

New facts are told as such. For those that turn out not to be so, one correction per condition names them
(`detail.corrects`): `cleared` with `detail.retracted` and value 0 if the condition never began then, else
`changed` of level `corrected`. If a fact that was corrected holds after all, its correction is corrected.

So a listener needs one rule, whatever ids it drops as repeats: a fact holds unless a correction that holds
names it. The ids of facts come from their content alone; only those of corrections count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from streams.signals.base import FIRST_CORRECTION, VARIANTS, Condition, Fact, FactKey

MAX_WITHDRAWN: Final = 64


class Corrections:
    """What was corrected about one entity, as far back as late observations may reach."""

    __slots__ = ("count", "withdrawn")

    def __init__(self) -> None:
        self.count = 0
        self.withdrawn: dict[FactKey, FactKey] = {}
        """Corrected fact -> the correction."""

    def told(self, before: Sequence[Fact], after: Sequence[Fact], heard: int) -> list[Fact]:
        """What must be said to a listener who may have heard `before`, and surely what of it is not later
        than `heard`, so that he knows `after`."""
        if not before and not self.withdrawn:
            return list(after)
        said = {f.key for f in before if f.time <= heard}
        holds = {f.key for f in after}
        out = [f for f in after if f.key not in said]
        again: dict[Condition, list[Fact]] = {}
        for fact in out:
            if fact.key in self.withdrawn:
                again.setdefault(fact.condition, []).append(fact)
        for facts in again.values():
            out += self._restored(facts)
        wrong: dict[Condition, list[Fact]] = {}
        for fact in before:
            if fact.key not in holds:
                wrong.setdefault(fact.condition, []).append(fact)
        real = {f.condition for f in after}
        for condition, facts in wrong.items():
            keys = tuple(f.key for f in facts)
            first = facts[0]
            if first.state == "open" and condition not in real:
                said_so = replace(
                    self._correction(first, keys),
                    state="cleared",
                    value=0.0,
                    level=None,
                    detail={**first.detail, "retracted": True},
                )
            else:
                said_so = self._correction(first, keys)
            out.append(said_so)
            for key in keys:
                self.withdrawn[key] = said_so.key
        while len(self.withdrawn) > MAX_WITHDRAWN:
            del self.withdrawn[next(iter(self.withdrawn))]
        return out

    def _restored(self, facts: Sequence[Fact]) -> list[Fact]:
        """Facts of one condition that hold after all: their corrections don't, save for the rest."""
        undone = sorted({self.withdrawn.pop(f.key) for f in facts})
        out = [self._correction(facts[0], tuple(undone))]
        rest = tuple(key for key, by in self.withdrawn.items() if by in undone)
        if rest:
            out.append(self._correction(facts[0], rest))
            self.withdrawn |= dict.fromkeys(rest, out[-1].key)
        return out

    def _correction(self, fact: Fact, keys: tuple[FactKey, ...]) -> Fact:
        self.count += 1
        variant = FIRST_CORRECTION + self.count % (VARIANTS - FIRST_CORRECTION)
        return replace(fact, state="changed", level="corrected", variant=variant, value=None, corrects=keys)

    def dump(self) -> Any:
        return [self.count, [[list(a), list(b)] for a, b in self.withdrawn.items()]] if self.count else None

    @classmethod
    def load(cls, raw: Any) -> Corrections:
        new = cls()
        if raw:
            new.count = raw[0]
            new.withdrawn = {_key(a): _key(b) for a, b in raw[1]}
        return new


def _key(raw: Any) -> FactKey:
    signal, entity, since, state, revision = raw
    return (signal, entity, since, state, revision)
