"""`faultwire broker start|stop|status` as real processes: it outlives the command, and only it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultwire.broker.cluster import Cluster, free_ports
from faultwire.broker.errors import NoBrokerError
from tests.conftest import no_broker
from tests.kafka import Kafka

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]  # several JVMs, perhaps beside other work


class Command:
    """The command with a broker folder of its own, and no way but the JVM."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "broker"
        without = {k: v for k, v in os.environ.items() if k != "FAULTWIRE_BOOTSTRAP"}
        self.env = {
            **without,
            "FAULTWIRE_BROKER_DIR": str(self.folder),
            "DOCKER_HOST": "unix:///nowhere.sock",
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "faultwire", "broker", *arguments],
            capture_output=True, text=True, timeout=110, check=False, env=self.env, cwd=self.folder.parent,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self("status", "--json").stdout)
        return told


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    try:
        Cluster(tmp_path / "jars-are-there")
    except NoBrokerError as exc:
        no_broker(str(exc))
    made = Command(tmp_path)
    yield made
    made("stop")


async def test_start_status_stop_and_start_again_with_the_data(command: Command) -> None:
    started = command("start", "--port", str(free_ports(1)[0]))
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("running: 127.0.0.1:")
    assert "starting a Kafka broker" in started.stderr

    running = command.status()
    assert (running["running"], running["way"], running["alive"]) == (True, "jvm", 1)
    assert running["logs"] == [str(command.folder / "node-1" / "broker.log")]
    kafka = Kafka(running["bootstrap"])
    await kafka.create({"kept": "delete"}, partitions=1)
    await kafka.send("kept", [b"1"])

    again = command("start")
    assert again.returncode == 0
    assert "starting" not in again.stderr
    assert command.status()["pids"] == running["pids"]

    stopped = command("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert command("status").returncode == 1
    assert command("stop").stdout == "no broker of ours was running\n"

    assert command("start").returncode == 0
    assert command.status()["bootstrap"] == running["bootstrap"]
    assert [record.value for record in await kafka.read("kept")] == [b"1"]


def test_three_brokers_of_which_one_was_killed(command: Command) -> None:
    assert command("start", "--brokers", "3").returncode == 0
    running = command.status()
    assert len(running["bootstrap"].split(",")) == len(running["pids"]) == 3
    os.kill(running["pids"][1], signal.SIGKILL)
    after = command("status")
    assert after.returncode == 1
    assert "2 of 3 running" in after.stdout
    assert "already" in command("start", "--brokers", "1").stderr
    assert command("stop").stdout == "stopped\n"
    other = command("start", "--brokers", "1")
    assert other.returncode == 3
    assert "holds the data of 3 broker(s)" in other.stderr


def test_a_process_that_took_over_the_number_is_left_alone(command: Command) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        command.folder.mkdir(parents=True)
        state = {
            "way": "jvm", "kafka_version": "4.3.0", "ports": [9092],
            "processes": {"1": {"pid": stranger.pid, "began": 1}},
        }  # fmt: skip
        (command.folder / "state.json").write_text(json.dumps(state), "utf-8")
        assert command.status()["running"] is False
        assert command("stop").stdout == "no broker of ours was running\n"
        assert stranger.poll() is None
        stranger.kill()


def test_a_state_file_that_cannot_be_read_is_not_guessed(command: Command) -> None:
    command.folder.mkdir(parents=True)
    (command.folder / "state.json").write_text("{", "utf-8")
    told = command("status")
    assert told.returncode == 3
    assert "state.json can't be read" in told.stderr


def test_an_existing_broker_is_named_and_never_stopped(command: Command, broker: str) -> None:
    command.env["FAULTWIRE_BOOTSTRAP"] = broker
    assert "named in FAULTWIRE_BOOTSTRAP" in command("start").stdout
    assert command("stop").stdout == "no broker of ours was running\n"
    assert command.status()["running"] is True


def test_an_existing_broker_that_does_not_answer_is_told(command: Command) -> None:
    command.env["FAULTWIRE_BOOTSTRAP"] = f"127.0.0.1:{free_ports(1)[0]}"
    started = command("start")
    assert started.returncode == 3
    assert "no broker answers on" in started.stderr
    assert command("status").returncode == 1
