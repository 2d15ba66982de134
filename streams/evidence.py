"""Evidence: the findings of a node, re-keyed for each attempt that they may concern.

An attempt is concerned by what happened on its node from half an hour before it began (an old fault may
wait for its victim) to five minutes after it ended, on a device it uses where that is known. Findings are
kept for a while and given to attempts whose placement comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from streams.engine.api import Output
from streams.placement import Use, attempt_at
from streams.signals.context import Context
from topics.derived import Signal
from topics.events import Event, decode, encode
from topics.payloads import Aer, Check, Kernel, Log, Sxid, Xid

TOPIC: Final = "evidence"
KEPT: Final = 96
KEPT_PER_GROUP: Final = 6
"""Of one sort of finding on one entity: the first ones, which tell the onset, and the last ones."""


Group = tuple[str, str, str]


class Finding:
    """One kept event, and the bytes it is written as."""

    __slots__ = ("_encoded", "event")

    def __init__(self, event: Event[Any], encoded: bytes | None = None) -> None:
        self.event = event
        self._encoded = encoded

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = encode(self.event)
        return self._encoded


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

    @property
    def findings(self) -> list[Finding]:
        """What is kept, in order of event time."""
        kept = [f for group in self._groups.values() for f in group]
        return sorted(kept, key=lambda f: (f.event.time, f.event.id))

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
        else:
            yield rekeyed(event, event.data.job_id, attempt, ctx.node)

    def placed(self, before: Sequence[Use], ctx: Context) -> Iterator[Output]:
        """Hand what is kept to attempts that are new, or whose use of the node has changed."""
        known = set(before)
        for use in ctx.placements.uses:
            if use in known:
                continue
            for finding in self.findings:
                event = finding.event
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
        if any(f.event.id == event.id for f in group):
            return
        ctx.changed = True
        group.append(Finding(event))
        self._count += 1
        if len(group) > KEPT_PER_GROUP:
            del group[_dispensable(group)]
            self._count -= 1
        if self._count > KEPT:
            self._shed(ctx)

    def _shed(self, ctx: Context) -> None:
        """Drop what is too old for any attempt to come; if that is not enough, the oldest."""
        oldest = ctx.high_water - ctx.ns("general", "evidence_before") - ctx.ns("general", "allowed_lateness")
        kept = self.findings
        for i, finding in enumerate(kept):
            if finding.event.time < oldest or len(kept) - i > KEPT - KEPT // 8:
                self._drop(finding)

    def _drop(self, finding: Finding) -> None:
        key = group_of(finding.event)
        group = self._groups[key]
        group.remove(finding)
        self._count -= 1
        if not group:
            del self._groups[key]

    def dump(self, ctx: Context) -> Any:
        oldest = ctx.high_water - ctx.ns("general", "evidence_before") - ctx.ns("general", "allowed_lateness")
        return [orjson.Fragment(f.encoded) for f in self.findings if f.event.time >= oldest]

    def restore(self, raw: Iterable[Any]) -> None:
        for encoded in map(orjson.dumps, raw):
            event = decode(encoded)
            self._groups.setdefault(group_of(event), []).append(Finding(event, encoded))
            self._count += 1


def _dispensable(group: Sequence[Finding]) -> int:
    """Which of a group to drop: what a later word about the same condition has overtaken, so that none is
    handed over whose end is left out; else one of the middle."""
    last: dict[int, int] = {}
    for i, finding in enumerate(group):
        if isinstance(finding.event.data, Signal):
            since = finding.event.data.since
            known = last.get(since)
            if known is not None:
                return min(known, i, key=lambda k: (group[k].event.time, _word(group[k])))
            last[since] = i
    return KEPT_PER_GROUP // 3


def _word(finding: Finding) -> tuple[bool, int]:
    """Orders what is said of one condition at one time: its end comes last."""
    data = finding.event.data
    return (data.state == "cleared", data.revision or 0)


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
