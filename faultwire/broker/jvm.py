"""One Kafka node as a process: its settings, formatting, starting, stopping, killing.

The node belongs to whoever holds its folder: settings, log and data all stand in there, so a node can be
killed and started again with the same data.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from faultwire.broker.errors import BrokerStartError
from faultwire.broker.settings import server_properties

STARTED: Final = "Kafka Server started"
"""Logged by `KafkaRaftServer` once the node is registered, unfenced and serving."""

QUICK: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Serves after seconds and stays small; enough for requests of 10 MB from several clients at once."""
SERVING: Final = (
    "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
)  # fmt: skip
"""What counts of Kafka's own start script: three plain hops through it, warm, took 4.2 and 4.4 ms; through a
quick one, as warm, 5.3 and 6.3."""

_TIED: Final = ThreadPoolExecutor(1, "broker-spawn")
"""Linux sends the parent-death signal when the *thread* that forked ends, so tied nodes are started by a
thread that lives as long as the process."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Where a node stands and what it knows of its cluster. `voters` maps node ids to controller ports."""

    node_id: int
    port: int
    controller_port: int
    folder: Path
    cluster_id: str
    voters: dict[int, int]
    extra: dict[str, str] = field(default_factory=dict)
    format_options: tuple[str, ...] = ()
    """More arguments for the laying out of the storage, e.g. first SCRAM users."""
    jvm: tuple[str, ...] = QUICK
    """Options of the virtual machine."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    def properties(self) -> dict[str, str]:
        own = server_properties(
            node_id=self.node_id, port=self.port, voters=self.voters, data_dir=str(self.folder / "data")
        )
        return {**own, **self.extra}


class JvmNode:
    """A Kafka node of this machine. Not thread-safe; one owner."""

    def __init__(self, spec: NodeSpec, java: Path, jars: Path, *, tied: bool) -> None:
        """With `tied`, the node is killed by the kernel when this process ends, however it ends."""
        self.spec = spec
        self._java = java
        self._jars = jars
        self._tied = tied
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def format(self) -> None:
        """Write the settings; lay out the storage if that has not been done. Raises `BrokerStartError`."""
        self.spec.folder.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{key}={value}\n" for key, value in self.spec.properties().items())
        self._settings.write_text(text, "utf-8")
        if (self.spec.folder / "data" / "meta.properties").exists():
            return
        done = subprocess.run(
            [*self._java_command(*QUICK), "kafka.tools.StorageTool", "format",
             f"--cluster-id={self.spec.cluster_id}",  # one word: one id in 64 begins with "-"
             "--config", str(self._settings), "--ignore-formatted", *self.spec.format_options],
            capture_output=True, text=True, timeout=120, check=False, cwd=self.spec.folder,
        )  # fmt: skip
        if done.returncode:
            why = _why(done.stderr + done.stdout)
            raise BrokerStartError(
                f"the storage of the broker in {self.spec.folder} can't be laid out: {why}"
            )

    def start(self) -> None:
        """Start the process; `wait_ready` tells when it serves."""
        if self.pid is not None:
            return
        log = self.spec.log_file
        self._log_start = log.stat().st_size if log.exists() else 0
        command = [*self._java_command(*self.spec.jvm), "kafka.Kafka", str(self._settings)]
        tie = shutil.which("setpriv") if self._tied else None
        if tie is not None:
            command = [tie, "--pdeathsig", "KILL", "--", *command]
            self._process = _TIED.submit(self._spawn, command).result()
        else:
            self._process = self._spawn(command)

    def wait_ready(self, timeout_s: float) -> None:
        """Return when the node serves; raises `BrokerStartError` naming the log when it does not."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            text = self._new_log()
            if STARTED in text:
                return
            if self._process is None or self._process.poll() is not None:
                raise BrokerStartError(
                    f"the broker ended while starting: {_why(text)} (log: {self.spec.log_file})"
                )
            time.sleep(0.05)
        raise BrokerStartError(
            f"the broker was not ready within {timeout_s:.0f} s (log: {self.spec.log_file})"
        )

    def stop(self, timeout_s: float = 20.0) -> None:
        """An orderly shutdown; killed when it takes longer than `timeout_s`."""
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    @property
    def _settings(self) -> Path:
        return self.spec.folder / "server.properties"

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.spec.log_file.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.spec.folder,
                start_new_session=True,
            )  # fmt: skip

    def _java_command(self, *options: str) -> list[str]:
        logging = self.spec.folder / "log4j2.properties"
        if not logging.exists():
            with as_file(files("faultwire.broker").joinpath("data/log4j2.properties")) as packaged:
                shutil.copyfile(packaged, logging)
        return [
            str(self._java), *options, "-Xshare:auto",
            f"-Dlog4j2.configurationFile={logging}", "-cp", f"{self._jars}{os.sep}*",
        ]  # fmt: skip

    def _new_log(self) -> str:
        with self.spec.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode("utf-8", "replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _why(text: str) -> str:
    """The line of a Java program's output that says most: the exception with its text, else the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for sign in ("Exception: ", "ERROR", "FATAL", "error: "):
        told = next((line for line in lines if sign in line), None)
        if told:
            return told[:300]
    return lines[-1][:300] if lines else "it said nothing"
