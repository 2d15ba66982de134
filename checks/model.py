"""What a check is, what it returns, and how its result becomes the `check` event of the contract.

Values only: no clock, no I/O. The bootstrap suite and the sweeps share this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

from topics import ids
from topics.events import Event, make
from topics.payloads import Check as CheckPayload
from topics.payloads import Threshold

Verdict = Literal["pass", "fail", "error", "aborted"]
"""`error` (could not test) and `aborted` (had to make way) say nothing about the node."""
Suite = Literal["bootstrap", "periodic", "manual"]

GRAVITY: Final[tuple[Verdict, ...]] = ("pass", "aborted", "error", "fail")
"""The verdict of several is the last of these that occurs: a failure is known whatever else was not."""

MAX_MESSAGE: Final = 500
MAX_EVIDENCE: Final = 4096
"""Characters of output that go with an event; a raw record holds 64 KiB."""


class Need(StrEnum):
    """What a check needs before it may start, and what it keeps others from having meanwhile."""

    GPU = "gpu"
    """An NVIDIA GPU in this node; reading it disturbs nobody."""
    GPU_IDLE = "gpu_idle"
    """No other process on the GPUs, from its start to its end."""
    EXCLUSIVE = "exclusive"
    """No job on the node, and no other check beside it."""
    NETWORK = "network"
    """An RDMA device with an active port; its links are loaded meanwhile."""
    ROOT = "root"


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something about a check that may be set: `--param NAME=VALUE`. Values are numbers or text."""

    name: str
    default: float | str
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a check says about itself, before anything is run."""

    name: str
    layer: Literal["bootstrap", "periodic"]
    about: str
    needs: frozenset[Need] = frozenset()
    cost_s: float = 1.0
    """Typical duration on an eight-GPU node."""
    limit_s: float = 60.0
    """It is ended after this, and could then not tell."""
    platforms: tuple[str, ...] = ()
    """Names of platforms that it is for; empty: all."""
    parameters: tuple[Parameter, ...] = ()
    metrics: tuple[str, ...] = ()
    """Names of the metrics that it returns; `*` stands for a device."""
    last: bool = False
    """Judges what happened while the others ran: prepared before them, run after them."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured number, e.g. `Metric("busbw_gbps.gpu0", 471.2, "GB/s")`."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Limit:
    """What a metric was held against. `value` is in the unit of the metric; `source` says who says so."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check's own code returns."""

    verdict: Verdict
    message: str
    metrics: tuple[Metric, ...] = ()
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By the name of the metric."""
    evidence: str | None = None
    """Output of the program that was run; its tail is kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check on one node (or one group of nodes). Times are ns since the epoch."""

    check: str
    suite: Suite
    started: int
    ended: int
    outcome: Outcome
    group: tuple[str, ...] | None = None
    """Nodes that were tested together; None for a check of one node."""
    part_of: str | None = None
    """The run that this is one check of. Its failure is the node's; its pass vouches for nothing else, so
    it does not bring a node back into service. None only for the verdict of a whole bootstrap suite."""

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict


def could_not(why: str, evidence: str | None = None) -> Outcome:
    """It could not be tested."""
    return Outcome("error", why, evidence=evidence)


def aborted(why: str) -> Outcome:
    """It had to make way."""
    return Outcome("aborted", why)


def gravest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over several; of none, `error`: nothing was tested."""
    return max(verdicts, key=GRAVITY.index, default="error")


def payload(result: Result) -> CheckPayload:
    """The `check` payload of the contract. Numbers that JSON does not have are left out."""
    outcome = result.outcome
    return CheckPayload(
        check=result.check,
        suite=result.suite,
        verdict=outcome.verdict,
        metrics={m.name: float(m.value) for m in outcome.metrics if abs(m.value) < float("inf")},
        thresholds={
            name: Threshold(value=float(limit.value), source=limit.source)
            for name, limit in outcome.limits.items()
        },
        group=list(result.group) if result.group is not None else None,
        message=clipped(outcome.message, MAX_MESSAGE),
        evidence=tail(outcome.evidence, MAX_EVIDENCE) if outcome.evidence else None,
        started=result.started,
        part_of=result.part_of,
    )


def event(result: Result, *, cluster: str, node: str) -> Event[Any]:
    """The event for `raw.check`, keyed by node; its time is the end of the check.

    A result that concerns several nodes is told once for each of them, with the same `group`.
    """
    return make(
        payload(result),
        id=ids.fact_id("check", cluster, node, result.suite, result.check, result.started),
        source=f"/{cluster}/{node}/checks",
        subject="node",
        time=result.ended,
        key=node,
        recordedtime=result.ended,
        provenance="live",
    )


def with_evidence(outcome: Outcome, evidence: str) -> Outcome:
    """The outcome with this output, where it has none of its own."""
    return outcome if outcome.evidence else replace(outcome, evidence=evidence)


def listed(lines: Sequence[str], most: int = 6) -> str:
    """The first few, and how many more there are."""
    more = len(lines) - most
    return "; ".join(lines[:most]) + (f"; and {more} more" if more > 0 else "")


def clipped(text: str, most: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"


def tail(text: str, most: int) -> str:
    """The end of a text: what went wrong usually stands there."""
    return text if len(text) <= most else "…" + text[-(most - 1) :]
