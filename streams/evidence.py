"""Evidence: the findings of a node, re-keyed for each attempt that they may concern.

An attempt is concerned by what happened on its node from half an hour before it began (an old fault may
wait for its victim) to five minutes after it ended, on a device it uses where that is known. Findings are
kept for a while and given to attempts whose placement comes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from streams.engine.api import Output
from streams.placement import Use, attempt_at
from streams.signals.context import Context
from topics.derived import Signal
from topics.events import Event, decode, encode
from topics.lines import SAMPLED_NS, STEP, STEPPERS, saying
from topics.payloads import Aer, Check, Kernel, Log, Sxid, Xid

TOPIC: Final = "evidence"
KEPT: Final = 96
MAX_UNREAD_BYTES: Final = 96 * 1024
KEPT_PER_GROUP: Final = 6
"""Of one sort of finding on one entity: the first ones, which tell the onset, and the last ones."""
MAX_STEPPING: Final = 32
"""Attempts on one node."""
MAX_SAID: Final = 1024
"""Of a node: words of its jobs that are remembered, so that the same is not passed on again."""


Group = tuple[str, str, str]


class Finding(NamedTuple):
    """One kept event: what is asked about it, and the bytes it is written as. Most are never read again."""

    time: int
    id: str
    group: Group
    since: int | None
    """Of a signal: which condition it speaks of."""
    word: int
    """Of a signal: orders what is said of one condition at one time, its end last."""
    encoded: bytes

    @classmethod
    def of(cls, event: Event[Any]) -> Finding:
        data = event.data
        since, word = None, 0
        if isinstance(data, Signal):
            since = data.since
            word = (data.revision or 0) + (_END if data.state == "cleared" else 0)
        return cls(event.time, event.id, group_of(event), since, word, encode(event))

    def dump(self) -> list[Any]:
        return [*self[:-1], orjson.Fragment(self.encoded)]


_END: Final = 1 << 60


def group_of(event: Event[Any]) -> Group:
    data = event.data
    match data:
        case Xid():
            what = str(data.xid)
        case Sxid():
            what = str(data.sxid)
        case Log():
            what = f"{data.job_id} {data.code}"
        case Signal():
            what = data.signal
        case Kernel():
            what = data.category
        case _:
            what = ""
    return (data.kind, event.subject, what)


def is_finding(event: Event[Any]) -> bool:
    """A raw event that the correlator must see itself; the rest is spoken for by signals."""
    data = event.data
    if isinstance(data, Aer):
        return data.severity != "correctable" or data.recovery is not None
    return isinstance(data, Xid | Sxid | Kernel | Check)


class Evidence:
    """Forwards findings of one node, and keeps them for attempts that are not known yet."""

    def __init__(self) -> None:
        self._groups: dict[Group, list[Finding]] = {}
        self._count = 0
        self._written: bytes | None = None
        """What was kept before a restart, until somebody asks for it: many nodes are taken over, few are
        asked. What comes meanwhile is kept beside it."""
        self._said: dict[tuple[object, ...], tuple[int, str]] = {}
        """What was said in a span of time -> (time, id) of the first who said it. Not part of the state: what
        has been forgotten is passed on once more."""
        self._stepping: dict[tuple[str, int], set[int]] = {}
        """Attempt -> its first ranks here of those that print steps. No part of the state either."""

    @property
    def findings(self) -> list[Finding]:
        """What is kept, in order of event time."""
        self._open()
        kept = [f for group in self._groups.values() for f in group]
        return sorted(kept)

    def take(self, event: Event[Any], ctx: Context) -> Iterator[Output]:
        """Forward a finding to every attempt that it may concern, and keep it."""
        for use in ctx.placements.uses:
            if within(use, event.time, ctx) and concerns(use, event, ctx):
                yield rekeyed(event, use.job_id, use.attempt, ctx.node)
        self._keep(event, ctx)

    def take_log(self, event: Event[Log], ctx: Context) -> Iterator[Output]:
        """A line of a workload names its job itself. Which attempt: as it says, else by its time."""
        attempt = event.data.attempt
        if attempt is None:
            attempt = attempt_at(ctx.placements.uses, event.data.job_id, event.time)
        if attempt is None:
            self._keep(event, ctx)
        elif self._adds(event, attempt):
            yield rekeyed(event, event.data.job_id, attempt, ctx.node)

    def _adds(self, event: Event[Log], attempt: int) -> bool:
        """Whether the correlator may want the line: a job that prints the same a hundred thousand times says
        little more than one that prints it once, and its neighbours must not wait for it."""
        if event.data.code == STEP:
            return self._tells_steps(event.data, attempt)
        what = saying(event.data)
        if what is None:
            return True
        said = (event.data.job_id, attempt, event.time // SAMPLED_NS, what)
        first = self._said.get(said)
        own = (event.time, event.id)
        if first is not None and first < own:
            return False
        if first is None and len(self._said) >= MAX_SAID:
            del self._said[next(iter(self._said))]
        self._said[said] = own
        return True

    def _tells_steps(self, data: Log, attempt: int) -> bool:
        """Whether the rank is one of the node's first: all ranks that print steps print the same ones."""
        rank = -1 if data.rank is None else data.rank
        ranks = self._stepping.setdefault((data.job_id, attempt), set())
        ranks.add(rank)
        if len(ranks) > STEPPERS:
            ranks.remove(max(ranks))
        if len(self._stepping) > MAX_STEPPING:
            del self._stepping[next(iter(self._stepping))]
        return rank in ranks

    def placed(self, before: Sequence[Use], ctx: Context) -> Iterator[Output]:
        """Hand what is kept to attempts that are new, or whose use of the node has changed."""
        known = set(before)
        for use in ctx.placements.uses:
            if use in known:
                continue
            for finding in self.findings:
                event = decode(finding.encoded)
                if isinstance(event.data, Log):
                    if event.data.job_id == use.job_id and use.attempt == attempt_at(
                        ctx.placements.uses, use.job_id, event.time
                    ):
                        self._drop(finding)
                        yield rekeyed(event, use.job_id, use.attempt, ctx.node)
                elif within(use, event.time, ctx) and concerns(use, event, ctx):
                    yield rekeyed(event, use.job_id, use.attempt, ctx.node)

    def _keep(self, event: Event[Any], ctx: Context) -> None:
        group = self._groups.setdefault(group_of(event), [])
        if any(f.id == event.id for f in group):
            return
        ctx.changed = True
        group.append(Finding.of(event))
        self._count += 1
        if len(group) > KEPT_PER_GROUP:
            del group[_dispensable(group)]
            self._count -= 1
        if self._count > KEPT:
            self._shed(ctx)

    def _shed(self, ctx: Context) -> None:
        """Drop what is too old for any attempt to come; if that is not enough, the oldest."""
        self._open()
        oldest = ctx.high_water - ctx.ns("general", "evidence_before") - ctx.ns("general", "allowed_lateness")
        kept = self.findings
        for i, finding in enumerate(kept):
            if finding.time < oldest or len(kept) - i > KEPT - KEPT // 8:
                self._drop(finding)

    def _drop(self, finding: Finding) -> None:
        group = self._groups[finding.group]
        group.remove(finding)
        self._count -= 1
        if not group:
            del self._groups[finding.group]

    def dump(self, ctx: Context) -> bytes:
        """JSON; without what is too old for any attempt to come."""
        if self._written is not None:
            if not self._count:
                return self._written
            if len(self._written) < MAX_UNREAD_BYTES:
                fresh = orjson.dumps([f.dump() for group in self._groups.values() for f in group])
                return self._written[:-1] + b"," + fresh[1:] if self._written != b"[]" else fresh
        oldest = ctx.high_water - ctx.ns("general", "evidence_before") - ctx.ns("general", "allowed_lateness")
        return orjson.dumps([f.dump() for f in self.findings if f.time >= oldest])

    def restore(self, written: bytes) -> None:
        self._written = written

    def _open(self) -> None:
        if self._written is None:
            return
        written, self._written = self._written, None
        known = {f.id for group in self._groups.values() for f in group}
        for time, id_, group, since, word, event in orjson.loads(written):
            if id_ not in known:
                found = Finding(time, id_, (group[0], group[1], group[2]), since, word, orjson.dumps(event))
                self._groups.setdefault(found.group, []).append(found)
                self._count += 1


def _dispensable(group: Sequence[Finding]) -> int:
    """Which of a group to drop: what a later word about the same condition has overtaken, so that none is
    handed over whose end is left out; else one of the middle."""
    last: dict[int, int] = {}
    for i, finding in enumerate(group):
        if finding.since is not None:
            known = last.get(finding.since)
            if known is not None:
                return min(known, i, key=lambda k: (group[k].time, group[k].word))
            last[finding.since] = i
    return KEPT_PER_GROUP // 3


def rekeyed(event: Event[Any], job_id: str, attempt: int, node: str) -> Output:
    """The same event under the job's key: id, source and time stay, so it is still the same fact."""
    copy = event.model_copy(
        update={"partitionkey": job_id, "node": node, "jobid": job_id, "attempt": attempt}
    )
    return Output(TOPIC, job_id, copy)


def within(use: Use, time: int, ctx: Context) -> bool:
    until = use.until
    return time >= use.since - ctx.ns("general", "evidence_before") and (
        until is None or time <= until + ctx.ns("general", "evidence_after")
    )


def concerns(use: Use, event: Event[Any], ctx: Context) -> bool:
    """The attempt uses the device that the event is about, or nobody can tell which devices it uses."""
    what, _, name = event.subject.partition("/")
    data = event.data
    if isinstance(data, Aer) and data.attached_to is not None:
        what, name = ("gpu" if data.attached_to.startswith("GPU-") else "port"), data.attached_to
    elif isinstance(data, Xid) and data.gpu_uuid is not None:
        what, name = "gpu", data.gpu_uuid
    if what == "port":
        return use.uses_port(name.split("/")[0])
    if what in {"gpu", "nvlink"}:
        return ctx.uses_gpu(use, name.split("/")[0] if what == "nvlink" else name)
    if what == "pci":
        owner = next((uuid for uuid, d in ctx.gpus.items() if d.pci_bdf == name), None)
        return owner is None or ctx.uses_gpu(use, owner)
    return True
