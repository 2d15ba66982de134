"""A real Slurm of four nodes on this machine: munged, slurmctld, one slurmd a node, in a folder of its own.

Nothing of the system's own Slurm or munge is touched: configuration, keys, sockets, ports and state lie
below `folder`, and only processes started here are ended.

Debian has a second build of each daemon (the front end); the programs named `-wlm` are the real ones.
They must be started under the plain name: slurmctld decides by it whether it is the daemon, and reads
no GRES otherwise.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NODES = ("node01", "node02", "node03", "node04")
GPUS = 4
DAEMONS = {"slurmctld": ("slurmctld-wlm", "slurmctld"), "slurmd": ("slurmd-wlm", "slurmd")}
CLIENTS = ("munged", "squeue", "scontrol", "sinfo", "sbatch", "scancel")
START_WITHIN_S = 30.0


class NoSlurmError(Exception):
    """Slurm can't be had on this machine; the text names what is missing."""


@dataclass(slots=True)
class SlurmCluster:
    """Start with `start`, end with `stop`; `environment` is what clients need."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.conf)}

    @property
    def state_save_location(self) -> Path:
        return self.folder / "state"

    # -- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Up to four idle nodes; raises `NoSlurmError` when programs are missing."""
        programs = {name: _program(*names) for name, names in DAEMONS.items()}
        for client in CLIENTS:
            _program(client)
        self._prepare()
        self._spawn(
            "munged",
            _program("munged"),
            "munged",
            "--foreground",
            f"--socket={self.folder}/munge.sock",
            f"--key-file={self.folder}/munge.key",
            f"--log-file={self.folder}/munged.log",
            f"--pid-file={self.folder}/munged.pid",
            f"--seed-file={self.folder}/munge.seed",
            "--num-threads=2",
        )
        self.wait_for((self.folder / "munge.sock").exists, "munged")
        self._spawn("slurmctld", programs["slurmctld"], "slurmctld", "-D", "-f", str(self.conf))
        for node in NODES:
            self.start_node(node)
        self.wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), "four idle nodes")

    def start_node(self, node: str, *, booted: bool = False) -> None:
        """A slurmd; `booted` tells the controller that the node has just come up."""
        boot = ["-b"] if booted else []
        program = _program(*DAEMONS["slurmd"])
        self._spawn(node, program, "slurmd", "-D", "-N", node, "-f", str(self.conf), *boot)

    def stop_node(self, node: str) -> None:
        self._end(self.processes.pop(node))

    def restart_controller(self) -> None:
        self._end(self.processes.pop("slurmctld"))
        program = _program(*DAEMONS["slurmctld"])
        self._spawn("slurmctld", program, "slurmctld", "-D", "-f", str(self.conf))
        self.wait_for(lambda: self.try_run("scontrol", "ping") is not None, "slurmctld again")

    def stop(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError, OSError, AssertionError):
            self.cancel_all()
            self.wait_for(lambda: not self.run("squeue", "--noheader"), "an empty queue", 10.0)
        for process in reversed(self.processes.values()):
            self._end(process)
        self.processes.clear()
        for pid in self._left_over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # -- what tests do -----------------------------------------------------------------------------------

    def run(self, *arguments: str) -> str:
        """A client's output; `CalledProcessError` when it fails."""
        done = subprocess.run(
            arguments,
            env={**os.environ, **self.environment, "SLURM_TIME_FORMAT": "standard"},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def try_run(self, *arguments: str) -> str | None:
        try:
            return self.run(*arguments)
        except subprocess.CalledProcessError:
            return None

    def submit(
        self, script: str = "sleep 600", *, nodes: int = 2, options: Sequence[str] = (), **environment: str
    ) -> int:
        """Queue a batch job of whole nodes; its id."""
        export = ",".join(["ALL", *(f"{name}={value}" for name, value in environment.items())])
        output = self.run(
            "sbatch", "--parsable", f"--nodes={nodes}", "--exclusive", f"--gres=gpu:{GPUS}", "--requeue",
            "--output=/dev/null", f"--export={export}", *options, "--wrap", script,
        )  # fmt: skip
        return int(output.split(";")[0])

    def job(self, job_id: int) -> dict[str, str]:
        """`scontrol show job` as fields."""
        text = self.run("scontrol", "--oneliner", "show", "job", str(job_id))
        return dict(re.findall(r"(\S+?)=(\S*)", text))

    def node(self, node: str) -> dict[str, str]:
        text = self.run("scontrol", "--oneliner", "show", "node", node)
        fields = dict(re.findall(r"(\S+?)=(\S*)", text))
        reason = re.search(r" Reason=(.*?) \[(\S+)@", text)
        fields["Reason"] = reason[1] if reason else ""
        return fields

    def states(self) -> dict[str, str]:
        """Node to the state that sinfo prints, e.g. `idle`, `drained`, without the `*` of a late answer."""
        output = self.try_run("sinfo", "--noheader", "--Node", "--format=%N %T") or ""
        return dict(line.rstrip("*").split() for line in output.splitlines())

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float = START_WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {within_s:g} s\n{self.logs()}")
            time.sleep(0.05)

    def wait_job(self, job_id: int, state: str = "RUNNING", within_s: float = 15.0) -> dict[str, str]:
        self.wait_for(lambda: self.job(job_id)["JobState"] == state, f"job {job_id} {state}", within_s)
        return self.job(job_id)

    def cancel_all(self) -> None:
        self.run("scancel", "--user", getpass.getuser())

    def reset(self) -> None:
        """No jobs, every node in service."""
        self.cancel_all()
        self.wait_for(lambda: not self.run("squeue", "--noheader"), "an empty queue")
        for node, state in self.states().items():
            if state.startswith(("drain", "down")):
                self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.wait_for(lambda: self.states() == dict.fromkeys(NODES, "idle"), "idle nodes")

    def logs(self) -> str:
        """The last lines of each daemon, for a failed test."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text("utf-8", "replace").splitlines()[-8:]
            parts.append("\n".join([f"-- {path.name}", *lines]))
        return "\n".join(parts)

    def _left_over(self) -> list[int]:
        """Job steps that outlived the daemon that started them: they carry our configuration."""
        ours = f"SLURM_CONF={self.conf}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if ours in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
        return found

    # -- inside ------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # munged refuses a folder that others may write
        self.ports = {name: _free_port() for name in ("slurmctld", *NODES)}
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for name in ("state", "gpus", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        for index in range(GPUS):
            (self.folder / "gpus" / f"gpu{index}").touch()
        reboot = self.folder / "reboot"
        reboot.write_text(f'#!/bin/sh\necho "$SLURMD_NODENAME" >> {self.folder}/rebooted\n')
        reboot.chmod(0o755)
        (self.folder / "gres.conf").write_text(
            f"NodeName=node0[1-4] Name=gpu Type=h100 File={self.folder}/gpus/gpu[0-{GPUS - 1}]\n"
        )
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.conf.write_text("\n".join(self._configuration()) + "\n")

    def _configuration(self) -> Iterator[str]:
        host = socket.gethostname().split(".")[0]
        user = getpass.getuser()
        yield "ClusterName=test"
        yield f"SlurmctldHost={host}(127.0.0.1)"
        yield f"SlurmctldPort={self.ports['slurmctld']}"
        yield f"SlurmUser={user}\nSlurmdUser={user}"
        yield f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge.sock"
        yield f"StateSaveLocation={self.folder}/state\nSlurmdSpoolDir={self.folder}/spool/%n"
        yield f"SlurmctldPidFile={self.folder}/slurmctld.pid\nSlurmdPidFile={self.folder}/slurmd-%n.pid"
        yield f"SlurmctldLogFile={self.folder}/slurmctld.log\nSlurmdLogFile={self.folder}/slurmd-%n.log"
        yield f"RebootProgram={self.folder}/reboot"
        yield "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none"
        yield "MpiDefault=none\nMailProg=/bin/true\nJobAcctGatherType=jobacct_gather/none"
        yield "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu"
        yield "SlurmdParameters=config_overrides\nReturnToService=0\nKillWait=1\nJobRequeue=1"
        yield "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0"
        yield "SlurmctldDebug=info\nSlurmdDebug=info"
        for node in NODES:
            yield (
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.ports[node]} CPUs=8 "
                f"RealMemory=1000 Gres=gpu:h100:{GPUS} State=UNKNOWN"
            )
        yield f"PartitionName=main Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP"

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                arguments,
                executable=program,
                env={**os.environ, **self.environment, "SLURMD_NODENAME": name},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _program(*names: str) -> str:
    """The first that is there, also where only root's path leads."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise NoSlurmError(f"{' or '.join(names)} is not installed")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
