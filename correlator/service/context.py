"""What is submitted for a post-mortem analysis: the execution context of an attempt, and observations."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from topics.time import parse_rfc3339

Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^/\x00-\x1f\x7f]+$")]
"""A job, node or connector: no path, no control characters."""
NOT_PLAIN: Final = frozenset({".", ".."})

MOST_JOBS: Final = 1_000
MOST_NODES: Final = 50_000


def _time(text: str) -> str:
    parse_rfc3339(text)
    return text


def _plain(text: str) -> str:
    if text in NOT_PLAIN:
        raise ValueError("not a name")
    return text


Time = Annotated[str, StringConstraints(max_length=40), AfterValidator(_time)]
PlainName = Annotated[Name, AfterValidator(_plain)]


class _Submitted(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExecutionContext(_Submitted):
    """Which attempt, where and when it ran. Everything else is told by observations."""

    cluster: Annotated[str, StringConstraints(pattern=r"^[^/\s]{1,100}$")] = "postmortem"
    job_id: PlainName
    attempt: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1
    jobs: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_JOBS)]
    """`job` payloads of the contract, each with `time`: as `jobs.jsonl` of a capture. Other attempts of the
    job help to tell whose a log line is."""
    inventory: Annotated[dict[PlainName, dict[str, Any]], Field(max_length=MOST_NODES)] = {}
    """`nodes` of `cluster.json`: GPUs, ports, switches and NVLink peers by node."""


Format = Literal["events", "kernel", "fabric_manager", "workload", "loki", "promql"]
Content = Literal["workload", "kernel", "fabric_manager"]


class ObservationHead(_Submitted):
    """Where an observation comes from and how it is to be read."""

    source: Annotated[str, StringConstraints(max_length=200)] = ""
    """The connector, for people."""
    format: Format
    content: Content | None = None
    """Of `loki`: what the lines are."""
    node: PlainName | None = None
    """Of text that belongs to one node."""
    name: Annotated[str, StringConstraints(max_length=500)] | None = None
    """The file or stream; pieces of one file that have the same name are read as one."""
    rank: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    start: Time | None = None
    """Of the time that was asked for; orders the pieces of a file."""
    boot_time: Time | None = None
    boot_id: Annotated[str, StringConstraints(max_length=100)] | None = None


class Observation(ObservationHead):
    """`body`: text, or for `events`, `loki` and `promql` also JSON as it is."""

    body: str | list[Any] | dict[str, Any]
