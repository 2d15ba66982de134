"""Against a real Slurm: what its queue says becomes attempts on nodes and GPUs, within two seconds."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.schedulers.book import JobBook
from collectors.schedulers.publisher import RawPublisher
from collectors.schedulers.slurm.attempts import AttemptTracker
from collectors.schedulers.slurm.connector import SlurmConnector
from collectors.schedulers.slurm.environment import environment_of
from collectors.schedulers.slurm.queue import CommandQueue, QueueError, RestQueue
from tests.kafka import Kafka
from tests.slurm import SlurmCluster
from topics.events import Event, decode_record
from topics.payloads import NcclSettings


async def test_json_and_columns_agree_on_jobs_arrays_and_heterogeneous_jobs(slurm: SlurmCluster) -> None:
    plain = slurm.submit(nodes=1, NCCL_IB_TIMEOUT="20")
    slurm.wait_job(plain)
    slurm.run("sbatch", "--array=1-3%1", "--output=/dev/null", "-N1", "--exclusive", "--wrap", "sleep 600")
    het = "#!/bin/sh\n#SBATCH -N1 --exclusive\n#SBATCH hetjob\n#SBATCH -N1 --exclusive\nsleep 600\n"
    script = slurm.folder / "het.sh"
    script.write_text(het)
    slurm.run("sbatch", "--output=/dev/null", str(script))
    slurm.wait_for(lambda: len(slurm.run("squeue", "-h", "-t", "R").splitlines()) == 4, "all running")

    by_json, problems = await CommandQueue(slurm.environment, way="json").jobs()
    by_text, more = await CommandQueue(slurm.environment, way="text").jobs()
    assert not problems
    assert not more
    seen = {j.job_id: j for j in by_json}
    assert {j.job_id for j in by_text} == set(seen)
    for job in by_text:
        same = seen[job.job_id]
        for field in ("state", "restarts", "nodes", "submit", "start", "het_job_id", "het_offset"):
            assert getattr(job, field) == getattr(same, field), (job.job_id, field)
        assert job.unsplit_array == same.unsplit_array
    (mine,) = [j for j in by_json if j.job_id == plain]
    assert mine.gpus == {mine.nodes[0]: (0, 1, 2, 3)}
    assert environment_of(slurm.state_save_location, plain)["NCCL_IB_TIMEOUT"] == "20"
    tracker = AttemptTracker(JobBook("test", "slurm"))
    attempts = [e.data for e in tracker.look(by_json, 2**62) if e.kind == "job"]
    assert sorted(len(a.nodes) for a in attempts if a.state == "RUNNING") == [1, 1, 2]


async def test_a_build_without_json_is_asked_in_columns(slurm: SlurmCluster, tmp_path: Path) -> None:
    wrapper = tmp_path / "squeue"
    wrapper.write_text(
        '#!/bin/sh\ncase "$*" in *--json*) echo "squeue: unrecognized option" >&2; exit 1;; esac\n'
        f'exec {shutil.which("squeue")} "$@"\n'
    )
    wrapper.chmod(0o755)
    job = slurm.submit()
    queue = CommandQueue({**slurm.environment, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})
    jobs, _ = await queue.jobs()
    assert queue.way == "text"
    assert job in {j.job_id for j in jobs}


async def test_a_controller_that_is_away_is_an_error_and_decides_no_way(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\n")
    queue = CommandQueue({"SLURM_CONF": str(conf)}, timeout_s=1.0)
    with pytest.raises(QueueError):
        await queue.jobs()
    assert queue.way is None


# -- slurmrestd ---------------------------------------------------------------------------------------------


@pytest.fixture
def slurmrestd(slurm: SlurmCluster) -> Iterator[str]:
    program = shutil.which("slurmrestd") or "/usr/sbin/slurmrestd"
    if not Path(program).exists():
        if os.environ.get("FAULTWIRE_REQUIRE_SLURM") == "1":
            pytest.fail("FAULTWIRE_REQUIRE_SLURM=1, and there is no slurmrestd", pytrace=False)
        pytest.skip("no slurmrestd")
    folder = Path(tempfile.mkdtemp(prefix="rest-", dir=slurm.folder))
    path = folder / "sock"
    user: list[str] = []
    if os.geteuid() == 0:  # slurmrestd refuses to be root
        shutil.chown(folder, "nobody")
        user = ["-u", "nobody", "-g", "nogroup"]
    with (slurm.folder / "slurmrestd.log").open("ab") as log:
        process = subprocess.Popen(
            [program, *user, "-a", "rest_auth/local", "-s", "openapi/v0.0.38", f"unix:{path}"],
            env={**os.environ, **slurm.environment},
            stdout=log,
            stderr=log,
        )
    try:
        slurm.wait_for(path.exists, "slurmrestd")
        yield f"unix:{path}"
    finally:
        process.terminate()
        process.wait(10)


async def test_slurmrestd_says_the_same_as_squeue(slurm: SlurmCluster, slurmrestd: str) -> None:
    job = slurm.submit()
    slurm.wait_job(job)
    queue = RestQueue(slurmrestd)
    jobs, problems = await queue.jobs()
    same, _ = await CommandQueue(slurm.environment).jobs()
    assert not problems
    assert queue.version == "v0.0.38"
    assert jobs == same


# -- the whole connector ----------------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    slurm: SlurmCluster, bootstrap: str, prefix: str, **more: Any
) -> AsyncIterator[SlurmConnector]:
    tracker = AttemptTracker(
        JobBook("test", "slurm"),
        environment=lambda job_id: environment_of(slurm.state_save_location, job_id),
        accounting=False,
    )
    connector = SlurmConnector(
        CommandQueue(slurm.environment), tracker, RawPublisher(bootstrap, prefix), **more
    )
    task = asyncio.create_task(connector.run())
    try:
        yield connector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def events_of(kafka: Kafka, topic: str, job_id: int, want: set[tuple[int, str]]) -> list[Event[Any]]:
    """Job events of one job, once all of `want` are there."""
    found: list[Event[Any]] = []

    def enough(records: list[Any]) -> bool:
        found[:] = [e for r in records for e in decode_record(r.value)[0] if e.partitionkey == str(job_id)]
        return want <= {(e.data.attempt, e.data.state) for e in found}

    await kafka.read_until(topic, enough)
    return found


async def test_a_jobs_life_on_kafka(slurm: SlurmCluster, kafka: Kafka, catalogue: str) -> None:
    topic = f"{catalogue}raw.job"
    async with connected(slurm, kafka.bootstrap, catalogue):
        job = await asyncio.to_thread(slurm.submit, NCCL_IB_TIMEOUT="20", NCCL_IB_RETRY_CNT="7")
        await events_of(kafka, topic, job, {(1, "RUNNING")})
        await asyncio.to_thread(slurm.run, "scontrol", "requeue", str(job))
        await events_of(kafka, topic, job, {(1, "REQUEUED"), (2, "PENDING")})
        await asyncio.to_thread(slurm.run, "scontrol", "update", f"JobId={job}", "StartTime=now")
        await events_of(kafka, topic, job, {(2, "RUNNING")})
        await asyncio.to_thread(slurm.run, "scancel", str(job))
        events = await events_of(kafka, topic, job, {(2, "CANCELLED")})

    by = {(e.data.attempt, e.data.state): e for e in events}
    running = by[1, "RUNNING"]
    assert running.data.nccl == NcclSettings(ib_timeout=20, ib_retry_cnt=7)
    assert set(running.data.gpus) == set(running.data.nodes)
    assert len({e.id for e in events}) == len(events)
    placed = await kafka.read(f"{catalogue}raw.placement")
    nodes = {r.key.decode() for r in placed}
    assert set(running.data.nodes) <= nodes


async def test_a_restarted_connector_says_nothing_twice_and_misses_no_end(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    topic = f"{catalogue}raw.job"
    job = await asyncio.to_thread(slurm.submit)
    await asyncio.to_thread(slurm.wait_job, job)
    async with connected(slurm, kafka.bootstrap, catalogue):
        await events_of(kafka, topic, job, {(1, "RUNNING")})
    await asyncio.to_thread(slurm.run, "scancel", str(job))
    await asyncio.to_thread(slurm.wait_job, job, "CANCELLED")
    async with connected(slurm, kafka.bootstrap, catalogue):
        events = await events_of(kafka, topic, job, {(1, "CANCELLED")})
    assert [e.data.state for e in events if e.data.state == "RUNNING"] == ["RUNNING"]


async def test_a_poke_brings_the_next_look_forward(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str, tmp_path: Path
) -> None:
    path = tmp_path / "poke.sock"
    topic = f"{catalogue}raw.job"
    first = await asyncio.to_thread(slurm.submit, nodes=1)
    await asyncio.to_thread(slurm.wait_job, first)
    async with connected(slurm, kafka.bootstrap, catalogue, interval_s=600.0, poke_socket=path):
        await events_of(kafka, topic, first, {(1, "RUNNING")})
        job = await asyncio.to_thread(slurm.submit, nodes=1)
        await asyncio.to_thread(slurm.wait_job, job)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(b"poke", str(path))
        await events_of(kafka, topic, job, {(1, "RUNNING")})


async def test_the_controller_restarts_and_no_job_is_lost(
    slurm: SlurmCluster, kafka: Kafka, catalogue: str
) -> None:
    topic = f"{catalogue}raw.job"
    job = await asyncio.to_thread(slurm.submit)
    async with connected(slurm, kafka.bootstrap, catalogue, interval_s=0.2) as connector:
        await events_of(kafka, topic, job, {(1, "RUNNING")})
        await asyncio.to_thread(slurm.restart_controller)
        looks = connector.looks
        async with asyncio.timeout(20):
            while connector.looks < looks + 3:  # noqa: ASYNC110  it only counts
                await asyncio.sleep(0.05)
        assert [j.job_id for j in connector.tracker.book.open()] == [str(job)]
