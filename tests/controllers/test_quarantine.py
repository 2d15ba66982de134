"""From a signal on a node to healthy again, or retired."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest

from controllers.checks import CheckReporter
from controllers.quarantine import QuarantineKeeper, repairs, wanted
from controllers.slurm.actuator import SlurmActuator
from controllers.slurm.client import SlurmClient
from controllers.slurm.settings import SlurmSettings
from tests.controllers.builders import CLUSTER
from tests.controllers.running import acting, ended, trail
from tests.kafka import Kafka
from tests.slurm import SlurmCluster
from topics import ids
from topics.derived import ActionName, Health, HealthReason, HealthState
from topics.events import Event, decode_record, make
from topics.time import NS_PER_S

NODE = "node02"
PLENTY = {"resets": 3, "reboots": 2}


def health(
    state: HealthState,
    signals: Sequence[str] = ("gpu_lost",),
    *,
    previous: HealthState | None = None,
    budget: dict[str, int] | None = None,
    since: int | None = None,
    operator: dict[str, str] | None = None,
    **attributes: Any,
) -> Event[Health]:
    since = time.time_ns() if since is None else since
    data = Health(
        state=state,
        previous=previous,
        since=since,
        reasons=[HealthReason(signal=s, entity="gpu/GPU-1", evidence=[f"{s}-1"]) for s in signals],
        budget=PLENTY if budget is None else budget,
        job_ids=[],
        operator=operator,
    )
    return make(
        data,
        id=ids.fact_id("health", NODE, state, since),
        source=f"/{CLUSTER}/streams",
        subject="node",
        time=since,
        key=NODE,
        **{"provenance": "live", **attributes},
    )


def asked(event: Event[Health]) -> ActionName | None:
    action = wanted(event, dry_run=False)
    return None if action is None else action.data.action


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (health("suspect"), None),
        (health("draining"), "drain"),
        (health("quarantined"), "reboot_node"),
        (health("quarantined", ["xid_critical"]), "reset_gpu"),
        (health("quarantined", ["xid_critical", "gpu_lost"]), "reboot_node"),
        (health("quarantined", ["port_downtime"]), None),
        (health("quarantined", budget={"resets": 3, "reboots": 0}), None),
        (health("validating"), "run_checks"),
        (health("healthy", [], previous="validating"), "return_to_service"),
        (health("healthy", [], previous="suspect"), None),
        (health("retired"), "retire"),
    ],
)
def test_each_state_asks_for_one_thing_at_most(event: Event[Health], name: ActionName | None) -> None:
    assert asked(event) == name


def test_said_again_it_is_the_same_action_and_entered_again_another() -> None:
    first, again = (wanted(health("draining", since=5 * NS_PER_S), False) for _ in range(2))
    later = wanted(health("draining", since=6 * NS_PER_S), False)
    assert first is not None
    assert again is not None
    assert later is not None
    assert first.id == again.id != later.id
    assert first.data.because == [health("draining", since=5 * NS_PER_S).id, "gpu_lost-1"]


def test_a_node_that_a_person_took_over_is_left_to_them() -> None:
    action = wanted(health("validating", operator={"who": "anna", "why": "new riser"}), False)
    assert action is not None
    assert [g.passed for g in action.data.guards] == [False]
    assert "anna" in action.data.guards[0].detail


def test_drills_and_replays_stay_what_they_are() -> None:
    action = wanted(health("draining", drill=True, provenance="replay"), False)
    assert action is not None
    assert (action.drill, action.provenance) == (True, "replay")


def test_the_table_of_repairs_names_actions_with_a_budget_and_their_sources() -> None:
    table = tomllib.loads(files("controllers").joinpath("data/repairs.toml").read_text("utf-8"))
    signals = [row["signal"] for row in table["repair"]]
    assert len(set(signals)) == len(signals)
    for row in table["repair"]:
        assert row["action"] in {"reset_gpu", "reboot_node"}
        assert row["action"] in get_args(ActionName)
        assert row["source"]
        assert row["why"]
    grades = tomllib.loads(files("streams").joinpath("data/health.toml").read_text("utf-8"))["grade"]
    assert {signal for signal, _ in repairs()} <= {row["signal"] for row in grades}


async def test_through_slurm_from_draining_to_service_with_every_process_restarted_in_between(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    """A job still runs there when it begins; the stand-in check passes when it ends."""
    job = await asyncio.to_thread(slurm.submit, nodes=1, options=[f"--nodelist={NODE}"])
    await asyncio.to_thread(slurm.wait_job, job)
    check = tmp_path / "check"
    check.write_text("#!/bin/sh\nexit 0\n")
    check.chmod(0o755)
    (slurm.folder / "rebooted").unlink(missing_ok=True)
    topics, done = f"{catalogue}health", 0

    async def through(event: Event[Health], meanwhile: Any = None) -> None:
        """One state is entered; keeper and controller are new processes each time."""
        nonlocal done
        done += 1
        keeper = asyncio.create_task(QuarantineKeeper(kafka.bootstrap, catalogue, dry_run=False).run())
        actuator = SlurmActuator(
            SlurmClient(slurm.environment),
            SlurmSettings(check_command=(str(check), "{node}")),
            reporter=CheckReporter(CLUSTER, kafka.bootstrap, catalogue),
        )
        try:
            async with acting(actuator, kafka, catalogue):
                await kafka.send_events(topics, [event, event])
                if meanwhile is not None:
                    await meanwhile()
                entries = await trail(kafka, catalogue, ended(done), within_s=60)
                assert entries[-1].outcome == "done", entries[-1]
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    await through(health("draining"))
    assert slurm.states()[NODE] == "draining"
    assert slurm.job(job)["JobState"] == "RUNNING"

    async def reboot() -> None:
        await asyncio.sleep(1.0)
        assert not (slurm.folder / "rebooted").exists()  # it waits for the job
        await asyncio.to_thread(slurm.run, "scancel", str(job))
        await asyncio.to_thread(slurm.wait_for, (slurm.folder / "rebooted").exists, "the reboot program")
        await asyncio.to_thread(slurm.stop_node, NODE)
        slurm.start_node(NODE, booted=True)

    await through(health("quarantined"), reboot)
    assert slurm.states()[NODE] == "drained"
    await through(health("validating"))
    (record,) = await kafka.read(f"{catalogue}raw.check", 1)
    assert decode_record(record.value)[0][0].data.verdict == "pass"
    assert slurm.states()[NODE] == "drained"
    await through(health("healthy", [], previous="validating"))
    await asyncio.to_thread(slurm.wait_for, lambda: slurm.states()[NODE] == "idle", "back in service")
    assert not slurm.node(NODE)["Reason"]


async def test_a_node_beyond_repair_stays_out_with_the_reason_why(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    keeper = asyncio.create_task(QuarantineKeeper(kafka.bootstrap, catalogue, dry_run=False).run())
    actuator = SlurmActuator(SlurmClient(slurm.environment), SlurmSettings())
    try:
        async with acting(actuator, kafka, catalogue):
            await kafka.send_events(f"{catalogue}health", [health("retired", ["remap_failed"])])
            entries = await trail(kafka, catalogue, ended(1))
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
    assert entries[-1].outcome == "done"
    assert slurm.states()[NODE] == "drained"
    assert "retired: remap_failed" in slurm.node(NODE)["Reason"]
