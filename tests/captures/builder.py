# ruff: noqa: E501 - log lines are quoted whole
"""Builds captures in the format of the contract, section 6, from a few words about what happened.

    c = CaptureBuilder("port-outage")
    job = c.job("7001")
    job.starts_up().steps(20)
    c.port_down("node-07", "mlx5_3", at=job.at(130), seconds=12)
    job.fails(at=job.at(145))
    c.write(directory, expected(...))

Times are seconds after the start of the capture. Everything is deterministic in the capture's name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

GPUS = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
NICS = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
BASE = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
BOOT_BEFORE_S = 500_000.0
KERNEL, USER = 4, 12  # <facility 0, warning>, <facility 1, warning>


def clock(at: float) -> str:
    return (BASE + timedelta(seconds=at)).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass
class Job:
    """One attempt and the words of its ranks and launcher."""

    capture: CaptureBuilder
    job_id: str
    attempt: int
    nodes: list[str]
    start: float
    version: str
    gpus: dict[str, list[int]]
    group_timeout_s: float
    lines: list[tuple[float, str, int | None, str]] = field(default_factory=list)
    rank_nodes: dict[int, tuple[str, int]] = field(default_factory=dict)

    def at(self, s: float) -> float:
        return self.start + s

    def rank(self, node: str, local: int = 0) -> int:
        return next(r for r, place in self.rank_nodes.items() if place == (node, local))

    def say(self, at: float, node: str, text: str, rank: int | None = None) -> Job:
        self.lines.append((at, node, rank, text))
        return self

    def starts_up(self, *, chatty: bool = True) -> Job:
        """Launcher lines and, if NCCL_DEBUG is on, its settings."""
        for i, node in enumerate(self.nodes):
            self.say(
                self.at(1 + i * 0.02),
                node,
                f"launcher: 8 workers on {node}, rendezvous 10.20.0.1:29500, program /opt/train/train.py",
            )
        if chatty:
            for i, node in enumerate(self.nodes):
                r = self.rank(node, self.gpus[node][0])
                head = f"{node}:4{i:03d}:4{i:03d} [0] NCCL INFO"
                self.say(
                    self.at(5 + i * 0.02),
                    node,
                    f"{head} Bootstrap : Using eth0:{self.capture.address(node)}<0>",
                    r,
                )
                if i == 0:
                    self.say(self.at(5.01), node, f"NCCL version {self.version}+cuda12.4", r)
        return self

    def steps(
        self,
        until: float,
        *,
        first: float = 30.0,
        every: float = 5.0,
        rank: int = 0,
        loss: str = "2.31",
        number: int = 1,
    ) -> Job:
        """Step lines up to `until` (seconds after the start)."""
        t = first
        node = self.rank_nodes[rank][0]
        while t <= until:
            self.say(
                self.at(t),
                node,
                f"step={number} loss={loss} grad_norm=0.81 lr=2.90e-04 step_time_s={every:.2f} tok_s=1676000",
                rank,
            )
            t += every
            number += 1
        return self

    def peer(self, node: str) -> str:
        return f"{self.capture.address(node)}<43148>"

    def status12(self, at: float, node: str, peer: str, local: int = 0, status: int = 12) -> Job:
        """A completion error as this NCCL version prints it."""
        r = self.rank(node, local)
        head = f"{node}:24410:24501 [{local}] transport/net_ib.cc:1568 NCCL WARN"
        minor = int(self.version.split(".")[1])
        if minor <= 19:
            text = f"NET/IB : Got completion from peer {self.peer(peer)} with error {status}, opcode 0, len 0, vendor err 129 (Send)"
        elif minor <= 21:
            text = f"NET/IB : Got completion from peer {self.peer(peer)} with status={status} opcode=0 len=0 vendor err 129 (Send)"
        elif minor <= 28:
            text = f"NET/IB: Got completion from peer {self.peer(peer)} with status={status} opcode=0 len=0 vendor err 129 (Send) hca mlx5_{local}"
        else:
            text = f"NET/IB: Got completion from peer {self.peer(peer)} with status=IBV_WC_RETRY_EXC_ERR({status}) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_{local}"
        return self.say(at, node, f"{head} {text}", r)

    def closed(self, at: float, node: str, peer: str, local: int = 0) -> Job:
        """A peer closed its socket, and the exception that PyTorch makes of it."""
        r = self.rank(node, local)
        self.say(
            at,
            node,
            f"{node}:40766:40857 [{local}] misc/socket.cc:881 NCCL WARN socketProgress: Connection closed by remote peer {peer}.c1.example<54317>",
            r,
        )
        return self.say(
            at + 0.25,
            node,
            f"[rank{r}]: ncclRemoteError: remote process exited or there was a network error",
            r,
        )

    def watchdog(
        self,
        at: float,
        node: str,
        local: int = 0,
        *,
        seq: int = 1771,
        op: str = "ALLREDUCE",
        enqueued: int | None = None,
    ) -> Job:
        r = self.rank(node, local)
        ms = round(self.group_timeout_s * 1000)
        head = f"[rank{r}]:[E504 08:00:00.000000000 ProcessGroupNCCL.cpp:685]"
        self.say(
            at,
            node,
            f"{head} [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=16777216, NumelOut=16777216, Timeout(ms)={ms}) ran for {ms + 26} milliseconds before timing out.",
            r,
        )
        if enqueued is not None:
            self.say(
                at + 0.01,
                node,
                f"{head} [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {seq - 1}",
                r,
            )
        return self

    def raises(self, at: float, node: str, local: int, what: str, *, uncaught: bool = True) -> Job:
        """A traceback, as PyTorch's hook prints it."""
        r = self.rank(node, local)
        mark = f"[rank{r}]: " if uncaught else ""
        for i, line in enumerate(
            (
                "Traceback (most recent call last):",
                '  File "/opt/train/train.py", line 412, in main',
                "    run(cfg)",
                what,
            )
        ):
            self.say(at + i * 0.00001, node, mark + line, r)
        return self

    def child_failed(self, at: float, node: str, local: int, exit_code: int) -> Job:
        self.say(
            at,
            node,
            f"E0504 08:00:00.000000 41229 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {exit_code}) local_rank: {local} (pid: {41269 + local}) of binary: /usr/bin/python3",
        )
        return self

    def torn_down(
        self, at: float, *, by: str | None = None, how: str = "Aborted (core dumped)", local: int = 0
    ) -> Job:
        """What srun prints when a step falls apart."""
        first = self.nodes[0]
        if by is not None:
            self.say(at, first, f"srun: error: {by}: task {self.rank(by, local)}: {how}")
        self.say(at + 0.5, first, "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
        for node in self.nodes:
            if node != by:
                ranks = [r for r, (n, _) in self.rank_nodes.items() if n == node]
                self.say(at + 2, first, f"srun: error: {node}: tasks {min(ranks)}-{max(ranks)}: Terminated")
        return self

    def ends(self, state: str, at: float, *, exit_code: int | None = None, reason: str | None = None) -> Job:
        record = {"job_id": self.job_id, "attempt": self.attempt, "scheduler": "slurm", "state": state,
                  "nodes": self.nodes, "start": clock(self.start), "end": clock(at), "time": clock(at)}  # fmt: skip
        if exit_code is not None:
            record["exit_code"] = exit_code
        if reason is not None:
            record["reason"] = reason
        self.capture.records.append(record)
        self.capture.until = max(self.capture.until, at + 60)
        return self

    def fails(self, at: float, exit_code: int = 1) -> Job:
        return self.ends("FAILED", at, exit_code=exit_code)


class CaptureBuilder:
    """A cluster of `size` nodes with eight GPUs and eight ports each, and what happened on it."""

    def __init__(self, name: str, *, size: int = 8, seed: int = 0) -> None:
        self.name = name
        self.random = random.Random(f"{name}/{seed}")
        self.nodes = [f"node-{i:02d}" for i in range(1, size + 1)]
        self.uuids = {
            n: [f"GPU-{UUID(int=self.random.getrandbits(128), version=4)}" for _ in GPUS] for n in self.nodes
        }
        self.records: list[dict[str, Any]] = []
        self.jobs: list[Job] = []
        self.kernel: dict[str, list[tuple[float, int, str]]] = {n: [] for n in self.nodes}
        self.events: dict[str, list[dict[str, Any]]] = {n: [] for n in self.nodes}
        self.silent_after: dict[str, float] = {}
        self.unheard: set[str] = set()
        self.no_kernel_log: set[str] = set()
        self.failed: dict[str, dict[str, str]] = {}
        self.levels: dict[str, dict[str, str]] = {
            n: {f"mlx5_{i}/1": "ACTIVE" for i in range(8)} for n in self.nodes
        }
        self.level_changes: list[tuple[float, str, str, str]] = []
        self.until = 300.0
        self.peers: dict[str, dict[str, str]] = {}
        self.skew: dict[str, float] = {}

    # -- who is who ------------------------------------------------------------------------------------
    def gpu(self, node: str, index: int) -> str:
        return self.uuids[node][index]

    def address(self, node: str) -> str:
        return f"10.20.0.{int(node.split('-')[1])}"

    @staticmethod
    def pci(index: int) -> str:
        return f"0000:{GPUS[index]}:00"

    def job(
        self, job_id: str = "7001", *, attempt: int = 1, nodes: Iterable[str] | None = None, start: float = 20.0,
        version: str = "2.21.5", gpus: list[int] | None = None, group_timeout_s: float = 600.0,
        nccl: dict[str, Any] | None = None, ports: list[str] | None = None, ranks: bool = True,
        devices: bool = True, scheduler: str = "slurm",
    ) -> Job:  # fmt: skip
        on = list(nodes) if nodes is not None else list(self.nodes)
        used = gpus if gpus is not None else list(range(8))
        job = Job(self, job_id, attempt, on, start, version, dict.fromkeys(on, used), group_timeout_s)
        rank = 0
        for node in on:
            for index in used:
                job.rank_nodes[rank] = (node, index)
                rank += 1
        record: dict[str, Any] = {
            "job_id": job_id, "attempt": attempt, "name": "pretrain", "scheduler": scheduler, "state": "RUNNING",
            "start": clock(start), "nodes": on, "process_group_timeout_s": group_timeout_s, "time": clock(start),
            "nccl": {"version": version} if nccl is None else nccl,
        }  # fmt: skip
        if devices:
            record["gpus"] = dict.fromkeys(on, used)
            record["ports"] = {n: ports or [f"mlx5_{i}" for i in range(8)] for n in on}
        if ranks:
            record["ranks"] = {str(r): {"node": n, "gpu": g} for r, (n, g) in job.rank_nodes.items()}
        if not record["nccl"]:
            del record["nccl"]
        self.records.append(record)
        self.jobs.append(job)
        return job

    # -- what happened ---------------------------------------------------------------------------------
    def kmsg(self, node: str, at: float, text: str, prefix: int = KERNEL) -> CaptureBuilder:
        self.kernel[node].append((at, prefix, text))
        return self

    def xid(
        self,
        node: str,
        gpu: int,
        at: float,
        code: int,
        body: str,
        *,
        pid: int | None = None,
        process: str = "python3",
        prefix: int = KERNEL,
    ) -> CaptureBuilder:
        who = f"pid={pid}, name={process}, " if pid is not None else ""
        self.kmsg(node, at - 0.00002, f"NVRM: GPU at PCI:{self.pci(gpu)}: {self.gpu(node, gpu)}", prefix)
        return self.kmsg(node, at, f"NVRM: Xid (PCI:{self.pci(gpu)}): {code}, {who}{body}", prefix)

    def event(self, node: str, kind: str, subject: str, at: float, data: dict[str, Any]) -> CaptureBuilder:
        self.events[node].append(
            {"specversion": "1.0", "type": f"faultwire.{kind}.v1", "subject": subject, "time": clock(at),
             "datacontenttype": "application/json", "data": data}
        )  # fmt: skip
        return self

    def port(
        self,
        node: str,
        device: str,
        at: float,
        state: str,
        previous: str,
        *,
        phys: str = "LinkUp",
        downs: int = 1,
    ) -> CaptureBuilder:
        i = int(device.removeprefix("mlx5_"))
        self.level_changes.append((at, node, f"{device}/1", state))
        return self.event(node, "ib_port", f"port/{device}/1", at, {
            "device": device, "port": 1, "netdev": f"ib{i}", "link_layer": "InfiniBand", "state": state, "phys_state": phys,
            "previous_state": previous, "rate_gbps": 400 if state == "ACTIVE" else 10,
            "counters": {"link_downed": downs, "symbol_error": 1}, "switch": f"leaf-1{i}",
            "switch_port": str(int(node.split("-")[1])), "via": "netlink",
        })  # fmt: skip

    def port_down(
        self,
        node: str,
        device: str,
        at: float,
        seconds: float | None,
        *,
        logical: bool = False,
        downs: int = 1,
    ) -> CaptureBuilder:
        """An outage: DOWN, INIT a little before its end, ACTIVE; or no end at all."""
        first = "INIT" if logical else "DOWN"
        self.port(node, device, at, first, "ACTIVE", phys="LinkUp" if logical else "Polling", downs=downs)
        if seconds is not None:
            if not logical:
                self.port(node, device, at + seconds * 0.75, "INIT", "DOWN", downs=downs)
            self.port(node, device, at + seconds, "ACTIVE", "INIT", downs=downs)
        return self

    def throttle(self, node: str, gpu: int, at: float, *reasons: str) -> CaptureBuilder:
        bits = {
            "sw_power_cap": 4,
            "hw_slowdown": 8,
            "sw_thermal": 0x20,
            "hw_thermal": 0x40,
            "hw_power_brake": 0x80,
        }
        uuid = self.gpu(node, gpu)
        return self.event(node, "throttle", f"gpu/{uuid}", at,
                          {"gpu_uuid": uuid, "reasons": list(reasons), "mask": sum(bits[r] for r in reasons)})  # fmt: skip

    def goes_silent(self, node: str, at: float) -> CaptureBuilder:
        self.silent_after[node] = at
        return self

    # -- writing ---------------------------------------------------------------------------------------
    def write(self, directory: Path, expected: dict[str, Any]) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        self._write_json(directory / "cluster.json", self._cluster())
        (directory / "jobs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in self.records), "utf-8")
        for node in self.nodes:
            folder = directory / "nodes" / node
            folder.mkdir(parents=True, exist_ok=True)
            self._heartbeats(node)
            if self.events[node]:
                text = "".join(json.dumps(e) + "\n" for e in self.events[node])
                (folder / "events.jsonl").write_text(text, "utf-8")
            if node not in self.no_kernel_log:
                (folder / "kernel.log").write_text(self._kernel_text(node), "utf-8")
        for job in self.jobs:
            folder = directory / "jobs" / job.job_id
            folder.mkdir(parents=True, exist_ok=True)
            rows = sorted(job.lines, key=lambda line: line[0])
            text = "".join(
                f"{clock(at)} {node} {'' if rank is None else f'[rank={rank}] '}{words}\n"
                for at, node, rank, words in rows
            )
            with (folder / "output.log").open("a", encoding="utf-8") as out:
                out.write(text)
        self._write_json(directory / "expected.json", expected)
        return directory

    def _cluster(self) -> dict[str, Any]:
        return {"cluster": "c1", "nodes": {
            n: {
                "gpus": [{"index": i, "uuid": self.gpu(n, i), "pci_bdf": f"{self.pci(i)}.0"} for i in range(8)],
                "ports": [{"device": f"mlx5_{i}", "port": 1, "netdev": f"ib{i}", "pci_bdf": f"0000:{NICS[i]}:00.0",
                           "switch": f"leaf-1{i}", "switch_port": str(int(n.split("-")[1]))} for i in range(8)],
                **({"nvlink_peers": self.peers[n]} if n in self.peers else {}),
            } for n in self.nodes
        }}  # fmt: skip

    def _heartbeats(self, node: str) -> None:
        if node in self.unheard:
            return
        end = min(self.until, self.silent_after.get(node, self.until))
        at = self.random.uniform(0.5, 14.5)
        changes = sorted(c for c in self.level_changes if c[1] == node)
        while at <= end:
            ports = dict(self.levels[node])
            ports.update({port: state for when, _, port, state in changes if when <= at})
            collectors: dict[str, Any] = {name: {"status": "ok"} for name in ("kmsg", "nvml", "ib_port")}
            for name, reason in self.failed.get(node, {}).items():
                collectors[name] = {"status": "failed", "reason": reason}
            self.event(node, "heartbeat", "node", at, {
                "boot_id": str(UUID(int=int(node.split("-")[1]) + 77)), "uptime_s": BOOT_BEFORE_S + at, "interval_s": 15.0,
                "inventory_version": 1, "state": {"ports": ports}, "collectors": collectors,
            })  # fmt: skip
            at += 15.0 + self.random.uniform(-0.02, 0.02)

    def _kernel_text(self, node: str) -> str:
        boot = clock(-BOOT_BEFORE_S)
        lines = [f"#boot_time: {boot}", "5,0,0,-;Linux version 6.8.0-hpc (build@c1) #66-SMP PREEMPT_DYNAMIC",
                 "5,1,11403647,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build"]  # fmt: skip
        noise = [
            (
                self.random.uniform(0, self.until),
                KERNEL,
                "igb 0000:02:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX",
            )
            for _ in range(3)
        ]
        end = self.silent_after.get(node, 1e12)
        for seq, (at, prefix, text) in enumerate(
            sorted([*self.kernel[node], *noise], key=lambda r: r[0]), 20
        ):
            if at <= end:
                lines.append(
                    f"{prefix},{seq},{round((BOOT_BEFORE_S + at + self.skew.get(node, 0.0)) * 1e6)},-;{text}"
                )
        return "\n".join(lines) + "\n"

    @staticmethod
    def _write_json(path: Path, data: Any) -> None:
        path.write_text(json.dumps(data, indent=1), "utf-8")


def expected(
    subdomain: str, *culprits: tuple[str | None, str | None] | tuple[str | None, str | None, tuple[str, ...]],
    job_id: str = "7001", attempt: int = 1, state: str = "FAILED", actions: tuple[str, ...] = (), nodes: tuple[str, ...] = (),
    why: str = "", **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A label. `subdomain` is `domain/subdomain`; a culprit is (node, entity[, other right names])."""
    domain, _, sub = subdomain.partition("/")
    named = []
    for culprit in culprits:
        entry: dict[str, Any] = {}
        if culprit[0] is not None:
            entry["node"] = culprit[0]
        if culprit[1] is not None:
            entry["entity"] = culprit[1]
        if len(culprit) > 2:
            entry["entity_also"] = list(culprit[2])  # type: ignore[misc]
        named.append(entry)
    label: dict[str, Any] = {"job_id": job_id, "attempt": attempt, "domain": domain, "subdomain": sub,
                             "culprits": named, "terminal_state": state, "why": why, **more}  # fmt: skip
    if actions:
        label["action"] = {"names": list(actions), "nodes": list(nodes)}
    else:
        label["no_action"] = True
    return label
