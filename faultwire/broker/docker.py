"""A broker in a container: the second way, where a Docker engine answers."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import Final

from faultwire.broker.errors import BrokerStartError
from faultwire.broker.jars import Say, kafka_version
from faultwire.broker.settings import server_properties

CONTROLLER_PORT: Final = 19093
DATA: Final = "/var/lib/kafka/data"
STARTED: Final = "Kafka Server started"
PULL_TIMEOUT_S: Final = 600
READY_TIMEOUT_S: Final = 90


def image() -> str:
    """The same Kafka as the JVM way, as the Kafka project publishes it."""
    return f"apache/kafka:{kafka_version()}"


def engine_answers(timeout_s: float = 5.0) -> bool:
    """Whether a `docker` client is there and an engine answers it in time."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        asked = subprocess.run(
            [docker, "version", "--format", "{{.Server.Version}}"],
            capture_output=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def environment(port: int) -> dict[str, str]:
    """The container's environment. It listens on the port that it is published as, so that the address
    it advertises is right inside and outside."""
    properties = server_properties(
        node_id=1, port=port, voters={1: CONTROLLER_PORT}, data_dir=DATA, bind="0.0.0.0"  # noqa: S104
    )  # fmt: skip
    return {"KAFKA_" + key.replace(".", "_").upper(): value for key, value in properties.items()}


def start(name: str, port: int, say: Say, volume: str | None = None) -> None:
    """Run the container; returns when it serves. Raises `BrokerStartError`.

    The data goes to the named `volume` (which Docker gives to the image's own user), or away with it.
    """
    mounts = ["--volume", f"{volume}:{DATA}"] if volume else []
    settings = [part for key, value in environment(port).items() for part in ("--env", f"{key}={value}")]
    remove(name)
    say(f"starting {image()} in Docker (it is pulled once)")
    ran = _docker(
        "run", "--detach", "--name", name, "--publish", f"127.0.0.1:{port}:{port}", *mounts, *settings,
        image(), timeout_s=PULL_TIMEOUT_S,
    )  # fmt: skip
    if ran.returncode:
        remove(name)
        raise BrokerStartError(f"Docker can't run {image()}: {_last_line(ran.stderr)}")
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        logs = _docker("logs", name)
        if STARTED in logs.stdout + logs.stderr:
            return
        if not is_running(name):
            remove(name)
            raise BrokerStartError(f"the broker's container ended: {_last_line(logs.stdout + logs.stderr)}")
        time.sleep(0.2)
    remove(name)
    raise BrokerStartError(f"the broker's container was not ready within {READY_TIMEOUT_S} s")


def is_running(name: str) -> bool:
    asked = _docker("inspect", "--format", "{{.State.Running}}", name)
    return asked.returncode == 0 and asked.stdout.strip() == "true"


def remove(name: str) -> None:
    """End and remove the container, if there is one; a volume stays."""
    _docker("rm", "--force", name, timeout_s=60)


def _docker(*arguments: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise BrokerStartError(f"`docker {arguments[0]}` did not answer within {timeout_s:.0f} s") from exc


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"
