"""Against a real Slurm of four nodes: what is lent, yielded and given back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path

import pytest

from checks.sweep.loans import Loan, LoanError
from checks.sweep.settings import SlurmLoan, SweepSettings
from checks.sweep.slurm import SlurmLender, Waiting, read_waiting, waits
from checks.sweep.sweep import choose, sweep
from tests.checks.sweep.builders import STANDIN, floor, program, seed
from tests.slurm import NODES, SlurmCluster

GRACE_S = 20.0


@pytest.fixture
def lender(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmLender:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    return SlurmLender(SlurmLoan(mpi="none"), "test")


def settings(folder: Path, **more: object) -> SweepSettings:
    return SweepSettings.model_validate({
        "state_dir": folder / "state",
        "gpus_per_node": 2,
        "max_bytes": "128M",
        "programs": {
            name: (sys.executable, str(STANDIN), f"{name}_perf") for name in ("all_reduce", "alltoall")
        },
        "shared_dir": folder,
        "run_limit_s": 60.0,
        "poll_s": 0.2,
        "grace_s": GRACE_S,
        "slurm": {"mpi": "none"},
        **more,
    })  # fmt: skip


async def test_a_sweep_through_srun_finds_the_slow_node_and_returns_all(
    lender: SlurmLender, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, slow=["node03"])
    told = settings(tmp_path)
    topology = await choose(lender, told)
    report = await sweep(lender, topology, told, lambda loan: program(told, floors=floor(), loan=loan))
    assert report.verdict is not None, report.aborted
    assert [f.entity for f in report.verdict.findings] == ["node/node03"], [
        m.message for m in report.measured
    ]
    slurm.wait_for(lambda: slurm.states() == dict.fromkeys(NODES, "idle"), "idle nodes")


async def test_a_job_that_comes_in_the_middle_starts_within_the_grace_time(
    lender: SlurmLender, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch, pace_s=120.0)
    log = tmp_path / "log"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    told = settings(tmp_path, run_limit_s=300.0)
    topology = await choose(lender, told)
    sweeping = asyncio.create_task(sweep(lender, topology, told, lambda loan: program(told, loan=loan)))
    await until(log.exists, "the first program runs")
    job = await asyncio.to_thread(slurm.submit, "sleep 60", nodes=3)
    came = time.monotonic()
    await until(lambda: slurm.job(job)["JobState"] == "RUNNING", "the job runs")
    waited = time.monotonic() - came
    report = await sweeping
    assert report.verdict is None
    assert report.aborted == f"job {job} waits for 3 nodes"
    assert waited < GRACE_S
    assert not [line for line in await programs() if str(log) in line], "no program is left"


async def test_a_job_that_could_not_start_anyway_does_not_end_a_sweep(
    lender: SlurmLender, slurm: SlurmCluster
) -> None:
    slurm.submit("sleep 60", nodes=2)
    await until(lambda: list(slurm.states().values()).count("idle") == 2, "two idle nodes")
    loan = await lender.take(await lender.idle(), 600)
    await until(lambda: "idle" not in slurm.states().values(), "all are in use")
    large = slurm.submit("sleep 60", nodes=4)
    await until(lambda: slurm.job(large)["Reason"] in {"Resources", "Priority"}, "it waits for nodes")
    assert await lender.wanted(loan) is None
    small = slurm.submit("sleep 60", nodes=1)
    await until(lambda: slurm.job(small)["Reason"] in {"Resources", "Priority"}, "it waits for nodes")
    assert await lender.wanted(loan) == f"job {small} waits for 1 nodes"
    await lender.give_back(loan)


async def test_an_allocation_that_an_admin_ends_is_noticed(lender: SlurmLender, slurm: SlurmCluster) -> None:
    loan = await lender.take(await lender.idle(), 600)
    assert await lender.wanted(loan) is None
    slurm.run("scancel", loan.id)
    await until(lambda: slurm.job(int(loan.id))["JobState"] == "CANCELLED", "it is cancelled")
    assert "was ended" in str(await lender.wanted(loan))
    await lender.give_back(loan)


async def test_a_reservation_keeps_the_nodes_and_goes_with_the_loan(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    lender = SlurmLender(SlurmLoan(reservation=True), "reserve")
    loan = await lender.take(["node01", "node02"], 600)
    assert "ReservationName=faultwire-sweep-reserve-" in slurm.run("scontrol", "show", "reservation")
    await lender.give_back(loan)
    assert "faultwire-sweep-reserve" not in slurm.run("scontrol", "show", "reservation")


async def test_what_a_killed_sweep_left_is_given_back_and_nothing_of_others(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    code = (
        "import asyncio, os, signal\n"
        "from checks.sweep.settings import SlurmLoan\nfrom checks.sweep.slurm import SlurmLender\n"
        "async def main():\n"
        "    await SlurmLender(SlurmLoan(reservation=True), 'mine').take(['node01', 'node02'], 600)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await killed.wait()
    assert killed.returncode == -signal.SIGKILL
    others = await SlurmLender(SlurmLoan(), "other").take(["node03"], 600)
    returned = await SlurmLender(SlurmLoan(), "mine").leftovers()
    assert [what.split()[0] for what in returned] == ["allocation", "reservation"]
    slurm.wait_for(lambda: slurm.states()["node01"] == "idle", "node01 is free again")
    assert slurm.job(int(others.id))["JobState"] == "RUNNING", "that of another owner is left alone"
    assert await SlurmLender(SlurmLoan(), "mine").leftovers() == []
    await SlurmLender(SlurmLoan(), "other").give_back(others)


async def test_nodes_that_are_not_idle_are_not_lent(lender: SlurmLender, slurm: SlurmCluster) -> None:
    slurm.wait_job(slurm.submit("sleep 60", nodes=4))
    assert await lender.idle() == []
    with pytest.raises(LoanError):
        await lender.take(["node01"], 600)


async def test_giving_back_twice_is_fine(lender: SlurmLender) -> None:
    loan = await lender.take(["node01"], 600)
    await lender.give_back(loan)
    await lender.give_back(Loan(loan.nodes, loan.id))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("12|2|(null)|train|Resources|", Waiting("12", 2, frozenset(), "train", "Resources")),
        ("12|2-4|n[1-2]|a|b|", Waiting("12", 2, frozenset({"n1", "n2"}), "a", "b")),
        ("", None),
        ("slurm_load_jobs error: something", None),
    ],
)
def test_a_line_of_the_queue_is_read(line: str, expected: Waiting | None) -> None:
    assert read_waiting(line) == expected


@pytest.mark.parametrize("reason", ["Dependency", "JobHeldUser", "BeginTime", "AssocGrpNodeLimit", "None"])
def test_jobs_that_wait_for_something_else_want_no_nodes(reason: str) -> None:
    assert not waits(Waiting("1", 1, frozenset(), "x", reason))


async def until(condition: object, what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not await asyncio.to_thread(condition):  # type: ignore[arg-type]
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


async def programs() -> list[str]:
    """Command lines and environments of the stand-ins that run now."""

    def look() -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if b"standin_nccl" in (folder / "cmdline").read_bytes():
                    found.append((folder / "environ").read_bytes().decode(errors="replace"))
        return found

    return await asyncio.to_thread(look)
