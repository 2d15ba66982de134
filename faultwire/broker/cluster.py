"""A cluster of one or more Kafka nodes on loopback, each both broker and controller."""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from faultwire.broker.errors import BrokerError
from faultwire.broker.jars import Say, ensure_jars
from faultwire.broker.java import find_java
from faultwire.broker.jvm import QUICK, JvmNode, NodeSpec

READY_TIMEOUT_S: Final = 90.0


class Cluster:
    """Kafka on this machine: `start`, `stop`, and for fault tests `kill` and `restart` of single nodes.

    Node ids count from 1. With three nodes one may die: replicated topics go on. `tied` nodes end with
    this process, however it ends; others live on until somebody stops them. All methods block; from a
    coroutine call them through `asyncio.to_thread`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        port: int = 0,
        tied: bool = True,
        settings: Mapping[str, str] | None = None,
        format_options: Sequence[str] = (),
        jvm: Sequence[str] = QUICK,
        say: Say = lambda _: None,
    ) -> None:
        """`port` is the first node's (0: any free one); `settings` are added to every node's own,
        `format_options` to the laying out of its storage; `jvm` are the virtual machine's options.

        Raises `NoBrokerError` when Java, Maven or the jars can't be had.
        """
        java, jars = find_java(), ensure_jars(say)
        ports = free_ports(2 * brokers, first=port)
        voters = {i + 1: ports[brokers + i] for i in range(brokers)}
        cluster_id = _cluster_id(folder)
        self.folder = folder
        self.nodes: dict[int, JvmNode] = {}
        for node_id, controller_port in voters.items():
            spec = NodeSpec(
                node_id, ports[node_id - 1], controller_port, folder / f"node-{node_id}", cluster_id, voters,
                dict(settings or {}), tuple(format_options), tuple(jvm),
            )  # fmt: skip
            self.nodes[node_id] = JvmNode(spec, java, jars, tied=tied)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.spec.bootstrap for node in self.nodes.values())

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> Self:
        """Format what is new, start all nodes, return when all serve; raises `BrokerStartError`."""
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(JvmNode.format, self.nodes.values()))
            for node in self.nodes.values():
                node.start()
            for node in self.nodes.values():
                node.wait_ready(timeout_s)
        except BaseException:  # Ctrl-C too: a node that nobody has written down could never be stopped
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Orderly, all nodes at once (a quorum that loses its members one by one waits for them)."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(JvmNode.stop, self.nodes.values()))

    def kill(self, node_id: int | None = None) -> None:
        """SIGKILL for one node, or for all."""
        for node in self.nodes.values() if node_id is None else (self.nodes[node_id],):
            node.kill()

    def restart(self, node_id: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start a killed or stopped node again with its data and ports; returns when it serves."""
        node = self.nodes[node_id]
        node.start()
        node.wait_ready(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def free_ports(count: int, first: int = 0) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now; `first` must be one of them when it is not 0."""
    held: list[socket.socket] = []
    try:
        for wanted in [first] + [0] * (count - 1):
            probe = socket.socket()
            held.append(probe)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError as exc:
                raise BrokerError(
                    f"port {wanted} is taken ({exc.strerror}): choose another with --port"
                ) from exc
        return [probe.getsockname()[1] for probe in held]
    finally:
        for probe in held:
            probe.close()


def _cluster_id(folder: Path) -> str:
    """The id that the folder's data carries, or a new one: 16 bytes in base64 without padding."""
    for line in _lines(folder / "node-1" / "data" / "meta.properties"):
        if line.startswith("cluster.id="):
            return line.removeprefix("cluster.id=").strip()
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []
