"""`faultwire broker start|stop|status`: a broker that outlives the command that started it.

What was started is written down in `state.json` of the broker's folder, each process with the moment it
began, so that a stop ends exactly that process and never another one that got its number.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from faultwire.broker import docker
from faultwire.broker.cluster import Cluster, free_ports
from faultwire.broker.errors import BrokerError, BrokerStartError, NoBrokerError
from faultwire.broker.jars import Say, kafka_version
from faultwire.broker.local import check_reachable, named_bootstrap
from faultwire.broker.settings import DEFAULT_PORT

STOP_TIMEOUT_S: Final = 30.0


class Started(BaseModel):
    """One JVM process. `began` is its start in clock ticks after boot (proc_pid_stat(5), field 22)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    pid: int
    began: int


class State(BaseModel):
    """What stands in `state.json`. After a stop `processes` and `container` are empty, the ports stay."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    way: Literal["docker", "jvm"]
    kafka_version: str
    ports: list[int]
    """Client ports, one a broker."""
    processes: dict[int, Started] = {}
    container: str | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


@dataclass(frozen=True, slots=True)
class Status:
    """`running` is true when every broker that was started is still there."""

    running: bool
    way: Literal["existing", "docker", "jvm"] | None
    bootstrap: str | None
    brokers: int
    alive: int
    pids: tuple[int, ...] = ()
    container: str | None = None
    kafka_version: str | None = None
    folder: str | None = None
    logs: tuple[str, ...] = ()


def default_folder() -> Path:
    """`faultwire/broker` in the XDG state folder."""
    xdg = os.environ.get("XDG_STATE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".local" / "state") / "faultwire" / "broker"


def start(folder: Path, *, brokers: int = 1, port: int = 0, say: Say = lambda _: None) -> Status:
    """Have a broker running; does nothing when it is. `port` 0: as last time, else 9092, else a free one.

    Raises `NoBrokerError` or `BrokerError`.
    """
    existing = named_bootstrap()
    if existing is not None:
        check_reachable(existing)
        return status(folder)
    with _locked(folder):
        before = _load(folder)
        if before is not None:
            if _alive(before):
                return _check_same(status(folder), brokers, port)
            if len(before.ports) != brokers:
                raise BrokerError(
                    f"{folder} holds the data of {len(before.ports)} broker(s), not of {brokers}: "
                    "choose another --dir, or remove that folder"
                )
        chosen = port or _usual_port(before)
        state = _start(folder, before, brokers, chosen, say)
        _save(folder, state)
    return status(folder)


def stop(folder: Path) -> bool:
    """End what `start` began; False when nothing of it was running. Raises `BrokerError`."""
    with _locked(folder):
        state = _load(folder)
        if state is None:
            return False
        running = _alive(state)
        if state.container is not None:
            docker.remove(state.container)
        _end(state)
        _save(folder, state.model_copy(update={"processes": {}, "container": None}))
    return running > 0


def status(folder: Path) -> Status:
    """What is there now; raises `BrokerError` when the state file can't be read."""
    existing = named_bootstrap()
    if existing is not None:
        try:
            check_reachable(existing)
        except BrokerError:
            return Status(False, "existing", existing, len(existing.split(",")), 0)
        return Status(True, "existing", existing, len(existing.split(",")), len(existing.split(",")))
    state = _load(folder)
    if state is None or not (state.processes or state.container):
        return Status(False, None, None, 0, 0, folder=str(folder))
    alive = _alive(state)
    return Status(
        running=alive == len(state.ports),
        way=state.way,
        bootstrap=state.bootstrap,
        brokers=len(state.ports),
        alive=alive,
        pids=tuple(p.pid for p in state.processes.values() if _is_alive(p)),
        container=state.container,
        kafka_version=state.kafka_version,
        folder=str(folder),
        logs=tuple(str(folder / f"node-{n}" / "broker.log") for n in state.processes),
    )


def running_bootstrap(folder: Path) -> str | None:
    """Where the broker of this folder listens, None when none runs; asks no Docker engine."""
    state = _load(folder)
    if state is None or not (state.container or any(map(_is_alive, state.processes.values()))):
        return None
    return state.bootstrap


def _start(folder: Path, before: State | None, brokers: int, port: int, say: Say) -> State:
    why_not_docker = "no Docker engine answers"
    if brokers == 1 and (before is None or before.way == "docker") and docker.engine_answers():
        name = f"faultwire-broker-{port}"
        try:
            docker.start(name, port, say, volume="faultwire-broker")
        except BrokerStartError as exc:
            why_not_docker = str(exc)
            say(f"{why_not_docker}; trying a JVM instead")
        else:
            return State(way="docker", kafka_version=kafka_version(), ports=[port], container=name)
    try:
        cluster = Cluster(folder, brokers=brokers, port=port, tied=False, say=say)
    except NoBrokerError as exc:
        raise NoBrokerError(
            f"No Kafka broker can be had: FAULTWIRE_BOOTSTRAP is not set, {why_not_docker}, and {exc}."
        ) from exc
    say(f"starting {'a Kafka broker' if brokers == 1 else f'{brokers} Kafka brokers'} in {folder}")
    cluster.start()
    processes = {
        node_id: Started(pid=pid, began=began)
        for node_id, node in cluster.nodes.items()
        if (pid := node.pid) is not None and (began := _began(pid)) is not None
    }
    ports = [node.spec.port for node in cluster.nodes.values()]
    return State(way="jvm", kafka_version=kafka_version(), ports=ports, processes=processes)


def _check_same(running: Status, brokers: int, port: int) -> Status:
    if running.brokers != brokers or (port and running.bootstrap and f":{port}" not in running.bootstrap):
        raise BrokerError(
            f"{running.brokers} broker(s) run at {running.bootstrap} already: `faultwire broker stop` first, "
            "or choose another --dir"
        )
    return running


def _usual_port(before: State | None) -> int:
    for wanted in ([before.ports[0]] if before else []) + [DEFAULT_PORT]:
        with contextlib.suppress(BrokerError):
            return free_ports(1, wanted)[0]
    return free_ports(1)[0]


def _alive(state: State) -> int:
    if state.container is not None:
        return int(docker.is_running(state.container))
    return sum(map(_is_alive, state.processes.values()))


def _is_alive(process: Started) -> bool:
    return _began(process.pid) == process.began


def _began(pid: int) -> int | None:
    """Start time of a live process; None when there is none, or only a zombie waits to be collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command's name may hold spaces and brackets
    return None if fields[0] == "Z" else int(fields[19])


def _end(state: State) -> None:
    ours = [process for process in state.processes.values() if _is_alive(process)]
    for number, patience in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, STOP_TIMEOUT_S)):
        for process in ours:
            if _is_alive(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        deadline = time.monotonic() + patience
        while any(map(_is_alive, ours)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return
    raise BrokerError(f"the broker's processes {[p.pid for p in ours if _is_alive(p)]} can't be ended")


def _load(folder: Path) -> State | None:
    path = folder / "state.json"
    try:
        return State.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as exc:
        raise BrokerError(f"{path} can't be read: remove it after ending the broker by hand ({exc})") from exc


def _save(folder: Path, state: State) -> None:
    path = folder / "state.json"
    fresh = path.with_name("state.json.new")
    fresh.write_text(state.model_dump_json(indent=1) + "\n", "utf-8")
    fresh.replace(path)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One start or stop at a time in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as exc:
        raise BrokerError(f"{folder} can't be used ({exc.strerror}): choose another with --dir") from exc
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
