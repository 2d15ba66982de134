"""The JVM way on the real thing: one broker, three of them with one killed, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faultwire.broker import Cluster, ensure
from faultwire.broker.cluster import free_ports
from faultwire.broker.errors import BrokerError, BrokerStartError, NoBrokerError
from faultwire.broker.jvm import JvmNode
from tests.conftest import no_broker
from tests.kafka import Kafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]  # several JVMs, perhaps beside other work


@pytest.fixture(autouse=True)
def jvm_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about our own JVM: no existing broker, no Docker engine."""
    monkeypatch.delenv("FAULTWIRE_BOOTSTRAP", raising=False)
    monkeypatch.setattr("faultwire.broker.docker.engine_answers", lambda: False)


def cluster(folder: Path, **options: object) -> Cluster:
    try:
        return Cluster(folder, **options)  # type: ignore[arg-type]
    except NoBrokerError as exc:
        no_broker(str(exc))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("three"), brokers=3) as running:
        yield running


def test_a_broker_for_as_long_as_the_program_wants_it(tmp_path: Path) -> None:
    said: list[str] = []
    cluster(tmp_path / "jars-are-there")
    with ensure(jvm=("-Xmx300m",), say=said.append) as running:
        assert "-Xmx300m" in _commands_of_children()
        host, _, port = running.bootstrap.partition(":")
        assert (host, running.way) == ("127.0.0.1", "jvm")
        asyncio.run(_write_and_read(running.bootstrap))
    assert any("starting a Kafka broker" in line for line in said)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), 1)


def _commands_of_children() -> str:
    """What this process has started, one line each."""
    asked = ["ps", "-o", "args=", "--ppid", str(os.getpid())]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout


def test_data_in_a_named_folder_outlives_the_broker(tmp_path: Path) -> None:
    cluster(tmp_path / "jars-are-there")
    with ensure(tmp_path / "data") as first:
        asyncio.run(_write_and_read(first.bootstrap))
    with ensure(tmp_path / "data") as second:
        assert len(asyncio.run(Kafka(second.bootstrap).read("kept"))) == 3


async def test_one_of_three_brokers_may_die_and_come_back(three: Cluster, topic_prefix: str) -> None:
    kafka = Kafka(three.bootstrap)
    topic = f"{topic_prefix}survives"
    await kafka.create({topic: "delete"}, partitions=3, replication=3)
    await kafka.send(topic, [b"before"])
    await asyncio.to_thread(three.kill, 2)
    for partition in range(3):
        await kafka.send(topic, [b"while one is dead"], partition=partition)
    await asyncio.to_thread(three.restart, 2)
    await kafka.send(topic, [b"after"])
    values = {record.value for record in await kafka.read(topic, 5)}
    assert values == {b"before", b"while one is dead", b"after"}


def test_an_id_that_begins_like_an_option_is_still_an_id(tmp_path: Path) -> None:
    node = cluster(tmp_path).nodes[1]
    node.spec = replace(node.spec, cluster_id="-" + node.spec.cluster_id[1:])
    node.format()
    laid_out = (node.spec.folder / "data" / "meta.properties").read_text("utf-8")
    assert f"cluster.id={node.spec.cluster_id}\n" in laid_out


def test_an_option_that_is_wrong_is_told_without_the_usage_around_it(tmp_path: Path) -> None:
    broken = cluster(tmp_path, format_options=["--no-such-option"])
    with pytest.raises(BrokerStartError, match=r"can't be laid out: \S+ error: .*--no-such-option"):
        broken.start(30)


def test_settings_that_are_wrong_are_named_before_anything_starts(tmp_path: Path) -> None:
    broken = cluster(tmp_path, settings={"num.io.threads": "-1"})
    with pytest.raises(BrokerStartError, match=r"can't be laid out: .*num\.io\.threads"):
        broken.start(30)
    assert broken.nodes[1].pid is None


def test_a_broker_that_ends_while_starting_says_why_and_names_its_log(tmp_path: Path) -> None:
    broken = cluster(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broken.nodes[1].spec.port))
        taken.listen()
        with pytest.raises(BrokerStartError, match=r"ended while starting: .*(Address|bind).*broker\.log"):
            broken.start(60)
    assert broken.nodes[1].pid is None


def test_an_interrupted_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = cluster(tmp_path, tied=False)
    pids: list[int | None] = []

    def interrupt(node: JvmNode, timeout_s: float) -> None:
        pids.append(node.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(JvmNode, "wait_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.start()
    assert pids[0] is not None
    assert not _is_there(pids[0])


def test_a_taken_port_is_an_error_that_names_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} is taken"):
            cluster(tmp_path, port=port)


def test_free_ports_are_distinct_and_include_the_wanted_one() -> None:
    wanted = free_ports(1)[0]
    ports = free_ports(4, wanted)
    assert ports[0] == wanted
    assert len(set(ports)) == 4


def test_a_tied_broker_dies_with_the_program_that_started_it(tmp_path: Path) -> None:
    """Even when that program is killed: a test session or a demo leaves nothing behind."""
    cluster(tmp_path / "jars-are-there")
    program = (
        "import sys, time; from pathlib import Path; from faultwire.broker import Cluster\n"
        "c = Cluster(Path(sys.argv[1])).start(); print(c.nodes[1].pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _is_there(pid):
        assert time.monotonic() < deadline, "the broker outlived its program"
        time.sleep(0.05)


async def _write_and_read(bootstrap: str) -> None:
    kafka = Kafka(bootstrap)
    await kafka.create({"kept": "delete"}, partitions=1)
    await kafka.send("kept", [b"1", b"2", b"3"])
    assert len(await kafka.read("kept", 3)) == 3


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[:1]
