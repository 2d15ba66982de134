"""The Slurm controller on a real Slurm: drains what it is told to, restarts elsewhere, respects others."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.checks import CheckReporter, read_checks
from controllers.programs import Ran
from controllers.slurm.actuator import SlurmActuator
from controllers.slurm.client import SlurmClient, read_job, read_node
from controllers.slurm.settings import SlurmSettings
from tests.controllers.builders import CLUSTER, action
from tests.controllers.running import acting, ended, trail
from tests.kafka import Kafka
from tests.slurm import NODES, SlurmCluster
from topics.derived import Action
from topics.events import Event, decode_record

ADMIN = "disk | State=IDLE faultwire is not me"


def actuator(slurm: SlurmCluster, reporter: CheckReporter | None = None, **more: Any) -> SlurmActuator:
    return SlurmActuator(SlurmClient(slurm.environment), SlurmSettings(**more), reporter=reporter)


def started(slurm: SlurmCluster, **more: Any) -> tuple[int, list[str]]:
    """A running 2-node job and its nodes."""
    job = slurm.submit(**more)
    slurm.wait_job(job)
    hosts = slurm.run("scontrol", "show", "hostnames", slurm.job(job)["NodeList"]).split()
    return job, hosts


def interrupt(job: int, node: str, attempt: int = 1, **more: Any) -> Event[Action]:
    return action("interrupt_and_restart", node, job_id=str(job), attempt=attempt, **more)


def free_node(slurm: SlurmCluster) -> str:
    return next(node for node, state in sorted(slurm.states().items()) if state == "idle")


async def test_a_job_is_interrupted_and_runs_again_elsewhere(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    job, hosts = await asyncio.to_thread(started, slurm)
    others = free_node(slurm)
    slurm.run("scontrol", "update", f"NodeName={others}", "State=DRAIN", f"Reason={ADMIN}")
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
        entries = await trail(kafka, catalogue, ended(1), within_s=40)
    assert [e.step for e in entries if e.outcome == "step"] == [
        "drain", "checkpoint", "requeue", "release", "verify",
    ]  # fmt: skip
    assert entries[-1].outcome == "done"
    now = slurm.job(job)
    assert (now["JobState"], now["Restarts"]) == ("RUNNING", "1")
    assert hosts[0] not in slurm.run("scontrol", "show", "hostnames", now["NodeList"]).split()
    assert now["ExcNodeList"] == hosts[0]
    assert slurm.node(hosts[0])["Reason"].startswith("faultwire[")
    reasons = slurm.run("sinfo", "-R", "--noheader", "--format=%N|%E")
    assert f"{hosts[0]}|faultwire[" in reasons
    assert f"{others}|{ADMIN}" in reasons


async def test_an_admins_drain_serves_as_well_and_is_left_as_it_is(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    job, hosts = await asyncio.to_thread(started, slurm)
    slurm.run("scontrol", "update", f"NodeName={hosts[0]}", "State=DRAIN", f"Reason={ADMIN}")
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
        await kafka.send_events(f"{catalogue}actions", [action("return_to_service", hosts[0])])
        entries = await trail(kafka, catalogue, ended(2), within_s=40)
    assert slurm.node(hosts[0])["Reason"] == ADMIN
    assert slurm.job(job)["Restarts"] == "1"
    (returned,) = [e for e in entries if e.action == "return_to_service" and e.outcome != "begun"]
    assert returned.outcome == "superseded"


async def test_our_own_mark_is_taken_back(slurm: SlurmCluster, kafka: Kafka, catalogue: str) -> None:
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("drain", "node03")])
        await trail(kafka, catalogue, ended(1))
        assert slurm.states()["node03"] == "drained"
        await kafka.send_events(f"{catalogue}actions", [action("return_to_service", "node03")])
        await trail(kafka, catalogue, ended(2))
    assert slurm.states()["node03"] == "idle"


@pytest.mark.parametrize("what", ["another attempt", "cancelled", "unknown"])
async def test_an_attempt_that_is_over_is_left_alone_and_so_are_its_nodes(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, what: str
) -> None:
    job, hosts = await asyncio.to_thread(started, slurm)
    event = interrupt(job, hosts[0])
    if what == "another attempt":
        event = interrupt(job, hosts[0], attempt=2)
    elif what == "cancelled":
        slurm.run("scancel", str(job))
        await asyncio.to_thread(slurm.wait_job, job, "CANCELLED")
    else:
        event = interrupt(999_999, hosts[0])
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [event])
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "superseded"
    assert not slurm.node(hosts[0])["Reason"]
    assert slurm.job(job)["Restarts"] == "0"


async def test_an_attempt_that_the_fault_ended_first_is_put_back_all_the_same(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    job, hosts = await asyncio.to_thread(
        started, slurm, script='test "$SLURM_RESTART_COUNT" && sleep 600; sleep 1; exit 1'
    )
    await asyncio.to_thread(slurm.wait_job, job, "FAILED")
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
        entries = await trail(kafka, catalogue, ended(1), within_s=40)
    assert entries[-1].outcome == "done"
    assert (slurm.job(job)["JobState"], slurm.job(job)["Restarts"]) == ("RUNNING", "1")


async def test_a_restart_that_the_nodes_refuse_is_put_back_once_more(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let start in the second in which the attempt before ended, its credentials count as revoked."""
    job, hosts = await asyncio.to_thread(started, slurm)
    others = set(NODES) - set(hosts)
    monkeypatch.setattr(math, "floor", lambda seconds: seconds - 2)  # too early by a mistake of ours
    async with acting(actuator(slurm, clock_skew_s=0.0), kafka, catalogue):
        for node in sorted(others):  # so that it has to start where it ran
            slurm.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={ADMIN}")
        event = interrupt(job, hosts[0])
        event = event.model_copy(
            update={"data": event.data.model_copy(update={"nodes": [next(iter(others))]})}
        )
        event = event.model_copy(update={"data": event.data.model_copy(update={"exclude_nodes": None})})
        await kafka.send_events(f"{catalogue}actions", [event])
        entries = await trail(kafka, catalogue, ended(1), within_s=40)
    assert entries[-1].outcome == "done"
    now = slurm.job(job)
    assert now["JobState"] == "RUNNING"
    assert now["Restarts"] in {"1", "2"}


async def test_a_job_that_cannot_be_put_back_fails_with_an_alert_and_the_node_stays_out(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    job, hosts = await asyncio.to_thread(started, slurm, options=["--no-requeue"])
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
        entries = await trail(kafka, catalogue, ended(1))
    assert (entries[-1].outcome, entries[-1].alert) == ("failed", True)
    assert "Slurm refuses" in entries[-1].detail
    assert slurm.job(job)["JobState"] == "RUNNING"
    assert slurm.states()[hosts[0]] == "draining"


async def test_a_job_that_asks_for_a_checkpoint_gets_the_signal_and_the_time(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    script = f"trap 'touch {saved}; exit 0' USR1; while :; do sleep 0.1; done"
    job, hosts = await asyncio.to_thread(
        started, slurm, script=script, options=["--comment=FAULTWIRE_CHECKPOINT=USR1@20"]
    )
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
        entries = await trail(kafka, catalogue, ended(1), within_s=40)
    assert saved.exists()
    (checkpoint,) = [e for e in entries if e.step == "checkpoint"]
    assert checkpoint.detail == "SIGUSR1, and it ended"


async def test_an_unknown_node_is_an_alert_and_nothing_else_happens(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("drain", "node99")])
        entries = await trail(kafka, catalogue, ended(1))
    assert (entries[-1].outcome, entries[-1].alert) == ("failed", True)
    assert slurm.states() == dict.fromkeys(NODES, "idle")


# -- killed in the middle ------------------------------------------------------------------------------------


@contextmanager
def victim(slurm: SlurmCluster, kafka: Kafka, prefix: str, point: str) -> Iterator[subprocess.Popen[bytes]]:
    with (slurm.folder / "victim.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.controllers.victim", kafka.bootstrap, prefix, point],
            env={**os.environ, **slurm.environment},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("point", ["before:requeue", "after:requeue", "after:drain", "before:release"])
async def test_a_controller_killed_in_the_middle_leaves_the_same_end(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, point: str
) -> None:
    """Between drain and requeue, and between requeue and its acknowledgement, among others."""
    job, hosts = await asyncio.to_thread(started, slurm)
    await kafka.send_events(f"{catalogue}actions", [interrupt(job, hosts[0])])
    with victim(slurm, kafka, catalogue, point) as process:
        assert await asyncio.to_thread(process.wait, 60) == -signal.SIGKILL
    async with acting(actuator(slurm), kafka, catalogue):
        entries = await trail(kafka, catalogue, ended(1), within_s=60)
    assert entries[-1].outcome == "done"
    steps = [e.step for e in entries if e.outcome == "step"]
    assert steps == ["drain", "checkpoint", "requeue", "release", "verify"]
    now = slurm.job(job)
    assert (now["JobState"], now["Restarts"]) == ("RUNNING", "1")
    assert hosts[0] not in now["NodeList"]
    drains = slurm.run("sinfo", "-R", "--noheader", "--format=%N|%E").splitlines()
    assert [line.split("|")[0] for line in drains] == [hosts[0]]


# -- from a drain to service again ---------------------------------------------------------------------------


async def test_a_node_goes_from_drain_through_reboot_and_checks_back_to_service(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    node = "node02"
    check = tmp_path / "check"
    check.write_text(
        '#!/bin/sh\nprintf \'{"check":"ping","suite":"manual","verdict":"pass","metrics":{"ms":0.1},'
        '"thresholds":{},"message":"%s answers"}\' "$1"\n'
    )
    check.chmod(0o755)
    reporter = CheckReporter(CLUSTER, kafka.bootstrap, catalogue)
    rebooted = slurm.folder / "rebooted"
    rebooted.unlink(missing_ok=True)
    topic = f"{catalogue}actions"
    async with acting(actuator(slurm, reporter, check_command=[str(check), "{node}"]), kafka, catalogue):
        await kafka.send_events(topic, [action("reboot_node", node)])
        await asyncio.to_thread(slurm.wait_for, rebooted.exists, "the reboot program")
        assert "reboot" in slurm.run("sinfo", "-h", "-N", "-n", node, "-O", "StateComplete")
        await asyncio.to_thread(slurm.stop_node, node)
        await asyncio.sleep(2.1)  # no machine boots within the whole second in which it was asked to
        slurm.start_node(node, booted=True)
        await trail(kafka, catalogue, ended(1), within_s=60)
        assert slurm.states()[node] == "drained"
        assert slurm.node(node)["Reason"].startswith("faultwire[")
        assert "reboot issued" not in slurm.node(node)["Reason"]
        await kafka.send_events(topic, [action("run_checks", node)])
        await trail(kafka, catalogue, ended(2))
        await kafka.send_events(topic, [action("return_to_service", node)])
        entries = await trail(kafka, catalogue, ended(3))
    assert slurm.states()[node] == "idle"
    assert {e.outcome for e in entries} == {"begun", "step", "done"}
    assert rebooted.read_text().split() == [node]
    (record,) = await kafka.read(f"{catalogue}raw.check", 1)
    (result,), _ = decode_record(record.value)
    assert (result.data.verdict, result.data.message) == ("pass", f"{node} answers")


async def test_nothing_is_rebooted_that_somebody_else_holds(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    slurm.run("scontrol", "update", "NodeName=node04", "State=DRAIN", f"Reason={ADMIN}")
    async with acting(actuator(slurm), kafka, catalogue):
        await kafka.send_events(f"{catalogue}actions", [action("reboot_node", "node04")])
        entries = await trail(kafka, catalogue, ended(1))
    assert entries[-1].outcome == "superseded"
    assert "reboot" not in slurm.run("sinfo", "-h", "-N", "-n", "node04", "-O", "StateComplete")


# -- what is read, without Slurm -----------------------------------------------------------------------------


def test_text_of_people_cannot_be_taken_for_columns() -> None:
    job = read_job("7 |RUNNING |0 |None |node[01-02] |x|7|PENDING|9 |")
    assert job is not None
    assert (job.state, job.restarts, job.comment) == ("RUNNING", 0, "x|7|PENDING|9")
    node = read_node("node01|idle+drain|faultwire is not me | idle")
    assert node is not None
    assert (node.out, node.reason) == (True, "faultwire is not me | idle")
    assert read_job("squeue: error: something") is None


@pytest.mark.parametrize(
    ("states", "busy", "out", "rebooting"),
    [
        ("idle", False, False, False),
        ("allocated", True, False, False),
        ("mixed+drain", True, True, False),
        ("idle+drain", False, True, False),
        ("down*", False, True, False),
        ("down+drain+reboot_issued", False, True, True),
        ("allocated+completing", True, False, False),
    ],
)
def test_states_of_nodes(states: str, busy: bool, out: bool, rebooting: bool) -> None:
    node = read_node(f"n|{states}|none")
    assert node is not None
    assert (node.busy, node.out, node.rebooting, node.reason) == (busy, out, rebooting, "")


@pytest.mark.parametrize(
    ("status", "output", "verdicts"),
    [
        (0, "", ["pass"]),
        (1, "bandwidth 12 of 380", ["fail"]),
        (3, "no such node", ["error"]),
        (127, "", ["error"]),
        (
            1,
            '{"check":"a","suite":"manual","verdict":"aborted","metrics":{},"thresholds":{},"message":""}',
            ["aborted"],
        ),
        (
            0,
            '[{"check":"a","suite":"manual","verdict":"fail","metrics":{},"thresholds":{},"message":""}]',
            ["fail"],
        ),
    ],
)
def test_could_not_test_is_never_a_failure_of_the_node(status: int, output: str, verdicts: list[str]) -> None:
    assert [check.verdict for check in read_checks(Ran(status, output, ""))] == verdicts
