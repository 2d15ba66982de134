"""Which attempts use a node, which of its devices, and how long their transport survives.

Built from `placement` events, each the full list for the node. Lists may arrive in any order: an attempt
that a later list no longer names has ended by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from topics.nccl import transport_budget_s
from topics.payloads import NcclSettings, PlacedAttempt

KEPT_LISTS: Final = 32
KEPT_ATTEMPTS: Final = 64


@dataclass(frozen=True, slots=True)
class Use:
    """One attempt's use of the node. `gpus`/`ports` None: which ones is unknown, so any may be used."""

    job_id: str
    attempt: int
    since: int
    until: int | None
    gpus: tuple[int | str, ...] | None = None
    ports: tuple[str, ...] | None = None
    nccl: NcclSettings | None = None

    @property
    def budget_s(self) -> float | None:
        """Seconds that a dead path is survived; None when it can't be known."""
        n = self.nccl
        return None if n is None else _budget_s(n.version, n.ib_timeout, n.ib_retry_cnt)

    def running_at(self, time: int) -> bool:
        return self.since <= time and (self.until is None or time < self.until)

    def uses_port(self, device: str) -> bool:
        return self.ports is None or device in self.ports


_budget_s = lru_cache(maxsize=256)(transport_budget_s)

List = tuple[int, frozenset[tuple[str, int]]]


@dataclass(frozen=True)
class Placements:
    """A value: `with_list` returns another one."""

    said: tuple[tuple[int, Use], ...] = ()
    """Per attempt what the latest list that names it said, with that list's time."""
    lists: tuple[List, ...] = ()

    def with_list(self, time: int, attempts: Sequence[PlacedAttempt]) -> Placements:
        """The list that held from `time` on; the same value back if it says nothing new."""
        named = frozenset((a.job_id, a.attempt) for a in attempts)
        said = {(u.job_id, u.attempt): (at, u) for at, u in self.said}
        for a in attempts:
            known = said.get((a.job_id, a.attempt))
            if known is None:
                said[a.job_id, a.attempt] = (time, _use(a))
            else:
                said[a.job_id, a.attempt] = _merged(known, (time, _use(a)))
        lists = tuple(sorted({*self.lists, (time, named)}, key=lambda x: (x[0], sorted(x[1]))))[-KEPT_LISTS:]
        kept = tuple(sorted(said.values(), key=lambda x: (x[1].since, x[1].job_id, x[1].attempt)))
        new = Placements(kept[-KEPT_ATTEMPTS:], lists)
        return self if new == self else new

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Every attempt known, ended ones included, each with its end as far as it is known."""
        return tuple(self._uses())

    def _uses(self) -> Iterator[Use]:
        for at, use in self.said:
            until = use.until
            if until is None:
                gone = [t for t, named in self.lists if t > at and (use.job_id, use.attempt) not in named]
                until = min(gone, default=None)
            yield use if until == use.until else replace(use, until=until)

    def budget_s(self, device: str, down_since: int) -> float | None:
        """The tightest budget of the attempts that ran over this port when it went down.

        None when nobody used it or nobody's budget can be known.
        """
        budgets = [
            b
            for use in self.uses
            if use.running_at(down_since) and use.uses_port(device) and (b := use.budget_s) is not None
        ]
        return min(budgets, default=None)

    def without_ended_before(self, time: int) -> Placements:
        """Forget attempts that ended before `time`."""
        gone = {(u.job_id, u.attempt) for u in self.uses if u.until is not None and u.until < time}
        if not gone:
            return self
        return Placements(
            tuple((at, u) for at, u in self.said if (u.job_id, u.attempt) not in gone), self.lists
        )

    def dump(self) -> Any:
        return {
            "said": [
                [
                    at, u.job_id, u.attempt, u.since, u.until,
                    None if u.gpus is None else list(u.gpus),
                    None if u.ports is None else list(u.ports),
                    u.nccl.model_dump(exclude_none=True) if u.nccl else None,
                ]
                for at, u in self.said
            ],
            "lists": [[t, sorted(map(list, named))] for t, named in self.lists],
        }  # fmt: skip

    @classmethod
    def load(cls, raw: Any) -> Placements:
        return cls(
            tuple(
                (
                    at,
                    Use(
                        job, attempt, since, until,
                        None if gpus is None else tuple(gpus),
                        None if ports is None else tuple(ports),
                        NcclSettings(**nccl) if nccl else None,
                    ),
                )
                for at, job, attempt, since, until, gpus, ports, nccl in raw["said"]
            ),
            tuple((t, frozenset((j, a) for j, a in named)) for t, named in raw["lists"]),
        )  # fmt: skip


def _use(a: PlacedAttempt) -> Use:
    return Use(
        a.job_id,
        a.attempt,
        a.since,
        a.until,
        None if a.gpus is None else tuple(a.gpus),
        None if a.ports is None else tuple(a.ports),
        a.nccl,
    )


def _merged(a: tuple[int, Use], b: tuple[int, Use]) -> tuple[int, Use]:
    """The later word, with what only the earlier one knew: an end record may no longer name the devices."""
    (_, old), (at, new) = sorted((a, b), key=lambda said: said[0])
    return at, replace(
        new,
        gpus=old.gpus if new.gpus is None else new.gpus,
        ports=old.ports if new.ports is None else new.ports,
        nccl=old.nccl if new.nccl is None else new.nccl,
    )


def attempt_at(uses: Iterable[Use], job_id: str, time: int) -> int | None:
    """The latest attempt of the job that had begun by then, else its first."""
    own = sorted((u.since, u.attempt) for u in uses if u.job_id == job_id)
    begun = [attempt for since, attempt in own if since <= time]
    return begun[-1] if begun else (own[0][1] if own else None)
