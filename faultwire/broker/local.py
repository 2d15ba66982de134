"""The three ways to a broker, in their order, for somebody who wants one while a program runs."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from faultwire.broker import docker
from faultwire.broker.cluster import Cluster, free_ports
from faultwire.broker.errors import BrokerError, BrokerStartError, NoBrokerError
from faultwire.broker.jars import Say
from faultwire.broker.jvm import QUICK

BOOTSTRAP_VARIABLE: Final = "FAULTWIRE_BOOTSTRAP"

Way = Literal["existing", "docker", "jvm"]


def _nothing() -> None:
    """An existing broker is not ours to stop."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that serves. `stop()` ends it if we started it; leaving a `with` block does the same."""

    bootstrap: str
    way: Way
    _stop: Callable[[], None] = field(default=_nothing, repr=False)

    def stop(self) -> None:
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ensure(
    data_dir: Path | None = None,
    port: int = 0,
    *,
    brokers: int = 1,
    jvm: Sequence[str] = QUICK,
    say: Say = lambda _: None,
) -> RunningBroker:
    """A broker for as long as this process wants it: existing, else Docker, else a JVM of our own.

    `data_dir` keeps the data (in Docker: names a volume; None: gone after `stop()`); `port` 0: any free one;
    `say` hears what takes time. The JVM ends with this process, however it ends. More than one broker and
    `jvm`, options of the virtual machine, are matters of the JVM way. Blocks some seconds; from a coroutine
    use `asyncio.to_thread`.

    Raises `NoBrokerError` (one sentence, with what to install) when none of the ways can be had, and
    `BrokerError` when one should have worked and did not.
    """
    existing = named_bootstrap()
    if existing is not None:
        check_reachable(existing)
        return RunningBroker(existing, "existing")
    why_not_docker = "no Docker engine answers"
    if brokers == 1 and docker.engine_answers():
        try:
            return _in_docker(port, data_dir, say)
        except BrokerStartError as exc:
            why_not_docker = str(exc)
            say(f"{why_not_docker}; trying a JVM instead")
    try:
        return _in_jvm(port, data_dir, brokers, jvm, say)
    except NoBrokerError as exc:
        raise NoBrokerError(
            f"No Kafka broker can be had: {BOOTSTRAP_VARIABLE} is not set, {why_not_docker}, and {exc}."
        ) from exc


def named_bootstrap() -> str | None:
    """What FAULTWIRE_BOOTSTRAP says."""
    return os.environ.get(BOOTSTRAP_VARIABLE) or None


def check_reachable(bootstrap: str, timeout_s: float = 5.0) -> None:
    """Raises `BrokerError` when nobody listens on any of the `host:port,…` addresses."""
    told: list[str] = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise BrokerError(
                f"{address!r} is not host:port: set {BOOTSTRAP_VARIABLE} or kafka.bootstrap right"
            )
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
                return
        except OSError as exc:
            told.append(f"{address}: {exc.strerror or exc}")
    raise BrokerError(f"no broker answers on {'; '.join(told)}: start it, or unset {BOOTSTRAP_VARIABLE}")


def _in_docker(port: int, data_dir: Path | None, say: Say) -> RunningBroker:
    name = f"faultwire-{uuid.uuid4().hex[:8]}"
    chosen = free_ports(1, port)[0]
    docker.start(name, chosen, say, None if data_dir is None else _volume_of(data_dir))
    return RunningBroker(f"127.0.0.1:{chosen}", "docker", lambda: docker.remove(name))


def _volume_of(data_dir: Path) -> str:
    """A bind mount would belong to the wrong user inside; a named volume does not."""
    return f"faultwire-{blake2b(str(data_dir.resolve()).encode(), digest_size=6).hexdigest()}"


def _in_jvm(port: int, data_dir: Path | None, brokers: int, jvm: Sequence[str], say: Say) -> RunningBroker:
    folder = data_dir if data_dir is not None else Path(tempfile.mkdtemp(prefix="faultwire-broker-"))

    def forget() -> None:
        if data_dir is None:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        cluster = Cluster(folder, brokers=brokers, port=port, jvm=jvm, say=say)
        say(f"starting {'a Kafka broker' if brokers == 1 else f'{brokers} Kafka brokers'} ({folder})")
        cluster.start()
    except BaseException:
        forget()
        raise

    def stop() -> None:
        if data_dir is None:
            cluster.kill()  # nobody will read the data again
        else:
            cluster.stop()
        forget()

    return RunningBroker(cluster.bootstrap, "jvm", stop)
