"""Execution contexts: from Slurm's accounting, files, or given by hand; and the time they ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.schedulers.slurm.history import HistoryError, read_history
from faultwire.blueprint.context import ContextError, ExecutionContext, by_hand, discover
from faultwire.blueprint.settings import Blueprint, Window, read
from faultwire.config import load as configuration
from topics.payloads import Job
from topics.time import NS_PER_S

T0 = 1_777_881_600
SACCT = (
    f"77|{T0}|{T0 + 10}|{T0 + 3610}|0:0|REQUEUED|n[1-2]|train|NCCL_VERSION=2.21.5 x|y\n"
    f"77|{T0 + 3610}|{T0 + 3700}|{T0 + 9000}|1:0|FAILED|n[2-3]|train|NCCL_VERSION=2.21.5\n"
    f"78|{T0}|{T0 + 10}|{T0 + 20}|0:9|CANCELLED by 1000|n9||\n"
    "sacct: warning: something\n"
)


def program(folder: Path, name: str, output: str = "", status: int = 0) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}END\nexit {status}\n", "utf-8")
    path.chmod(0o755)


def sources(*contexts: dict[str, Any]) -> Blueprint:
    return read({"context": list(contexts)}, "test", Path("/"))


async def found(
    blueprint: Blueprint, job: str, attempt: int | None = None, now: int = (T0 + 20_000) * NS_PER_S
) -> ExecutionContext:
    kafka = configuration(None, environ={}).settings.kafka
    return await discover(blueprint.context, "c1", kafka, job, attempt, {}, now)


# -- Slurm -------------------------------------------------------------------------------------------------


def test_accounting_tells_every_attempt_with_its_nodes() -> None:
    first, second = read_history(SACCT, 77)
    assert (first.job.attempt, first.job.state, first.job.nodes) == (1, "REQUEUED", ["n1", "n2"])
    assert (second.job.attempt, second.job.state, second.job.nodes) == (2, "FAILED", ["n2", "n3"])
    assert (second.job.start, second.job.end) == ((T0 + 3700) * NS_PER_S, (T0 + 9000) * NS_PER_S)
    assert second.job.exit_code == 1
    assert second.job.nccl is not None
    assert second.job.nccl.version == "2.21.5"


def test_who_cancelled_and_by_which_signal_is_told() -> None:
    (past,) = read_history(SACCT, 78)
    assert (past.job.state, past.job.reason, past.job.exit_code) == (
        "CANCELLED",
        "cancelled by user 1000",
        137,
    )


def test_a_host_list_that_can_not_be_read_is_told() -> None:
    with pytest.raises(HistoryError, match="job 77"):
        read_history(f"77|{T0}|{T0}|{T0}|0:0|FAILED|n[1-99999999]|x|\n", 77)


async def test_a_job_that_slurm_forgot_is_found_in_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "sacct", SACCT)
    program(tmp_path, "squeue", '{"jobs": [], "errors": []}\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    context = await found(sources({"kind": "slurm"}), "77")
    assert (context.job.attempt, context.job.nodes, context.source) == (2, ["n2", "n3"], "slurm")
    earlier = await found(sources({"kind": "slurm"}), "77", 1)
    assert (earlier.job.attempt, earlier.job.nodes) == (1, ["n1", "n2"])
    kinds = [event.kind for event in context.events()]
    assert kinds.count("job") == 4  # each attempt began and ended
    assert kinds.count("placement") >= 4
    with pytest.raises(ContextError, match="knows attempts 1, 2"):
        await found(sources({"kind": "slurm"}), "77", 9)


async def test_a_slurm_that_does_not_answer_is_told_and_the_next_source_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sacct", "squeue"):
        program(tmp_path, name, "", 1)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(json.dumps(row("77", 1, "RUNNING", T0)) + "\n", "utf-8")
    context = await found(sources({"kind": "slurm"}, {"kind": "static", "file": str(jobs)}), "77")
    assert context.source == "static"
    assert "sacct" in context.asked["slurm"]


@pytest.mark.parametrize("job", ["77; rm -rf /", "--help", "../77", "77\n78"])
async def test_what_is_no_job_id_never_reaches_a_program(job: str) -> None:
    with pytest.raises(ContextError, match="no job id of Slurm"):
        await found(sources({"kind": "slurm"}), job)


# -- files and by hand -------------------------------------------------------------------------------------


def row(
    job: str, attempt: int, state: str, at: int, nodes: tuple[str, ...] = ("n1",), **more: Any
) -> dict[str, Any]:
    time = f"2026-05-04T{8 + (at - T0) // 3600:02d}:{(at - T0) % 3600 // 60:02d}:{at % 60:02d}Z"
    return {
        "job_id": job,
        "attempt": attempt,
        "state": state,
        "nodes": list(nodes),
        "time": time,
        "start": time,
        **more,
    }


async def test_a_file_tells_the_last_attempt_that_began(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.jsonl"
    rows = [
        row("a", 1, "FAILED", T0),
        row("a", 2, "RUNNING", T0 + 100),
        row("a", 3, "PENDING", T0 + 200),
        row("b", 1, "RUNNING", T0),
    ]
    jobs.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    context = await found(sources({"kind": "static", "file": str(jobs)}), "a")
    assert context.job.attempt == 2
    assert {e.data.job_id for e in context.jobs} == {"a"}
    with pytest.raises(ContextError, match=r"job c is not known.*does not know the job"):
        await found(sources({"kind": "static", "file": str(jobs)}), "c")
    with pytest.raises(ContextError, match=r"[Nn]o such"):
        await found(sources({"kind": "static", "file": str(tmp_path / "none")}), "a")
    with pytest.raises(ContextError, match="no source of contexts"):
        await found(sources(), "a")


async def test_a_kafka_that_does_not_answer_is_told_within_its_time() -> None:
    kafka = configuration(None, {"kafka.bootstrap": "127.0.0.1:9"}, environ={}).settings.kafka
    with pytest.raises(ContextError, match=r"Kafka at 127\.0\.0\.1:9"):
        await discover(
            sources({"kind": "kafka", "timeout_s": 0.3}).context, "c1", kafka, "a", None, {}, T0 * NS_PER_S
        )


def test_a_window_and_nodes_make_an_attempt() -> None:
    context = by_hand("c1", "run", 1, ["n1", "n2", "n1"], 100 * NS_PER_S, 200 * NS_PER_S, "FAILED", {})
    assert context.job.nodes == ["n1", "n2"]
    states = [e.data.state for e in context.events() if isinstance(e.data, Job)]
    assert states == ["RUNNING", "FAILED"]


# -- which time is asked for --------------------------------------------------------------------------------


def hand(start: float, end: float | None) -> ExecutionContext:
    ended = None if end is None else round(end * NS_PER_S)
    return by_hand("c1", "x", 1, ["n"], round(start * NS_PER_S), ended, "FAILED", {})


def spans(context: ExecutionContext, now: float = 10**7, **more: Any) -> list[tuple[float, float]]:
    told = context.spans(Window(), round(now * NS_PER_S), **more)
    return [(s.start / NS_PER_S, s.end / NS_PER_S) for s in told]


def test_a_short_attempt_is_read_as_a_whole_with_its_surroundings() -> None:
    assert spans(hand(10_000, 13_600)) == [(8_200, 14_200)]


def test_of_a_long_attempt_the_two_ends_are_read() -> None:
    assert spans(hand(10_000, 1_000_000)) == [(8_200, 10_900), (992_800, 1_000_600)]


def test_an_attempt_that_runs_is_read_up_to_now() -> None:
    assert spans(hand(10_000, None), now=12_000) == [(8_200, 12_000)]


def test_a_window_given_by_hand_is_the_window() -> None:
    assert spans(hand(10_000, 1_000_000), start=500_000 * NS_PER_S) == [(500_000, 1_000_600)]
    assert spans(hand(10_000, 1_000_000), start=1 * NS_PER_S, end=2 * NS_PER_S) == [(1, 2)]
