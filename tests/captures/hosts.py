# ruff: noqa: E501 - log lines are quoted whole
"""Scenarios: nodes, hosts, power and storage."""

from __future__ import annotations

from typing import Any

from tests.captures.builder import CaptureBuilder, expected
from tests.captures.catalogue import NODE_NO_RESET, scenario

NODE = "node-03"
HOST = ("interrupt_and_restart", "cordon", "drain", "reboot_node", "run_checks")


@scenario("power-loss", carried_by=("ExtractSignals",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A node loses power: heartbeats and lines stop, the others run out of retries, Slurm says NODE_FAIL."""
    job = c.job(version="2.23.4").starts_up().steps(120)
    c.goes_silent(NODE, job.at(121))
    for i, node in enumerate(n for n in c.nodes if n != NODE):
        job.status12(job.at(152 + i * 0.2), node, NODE, 0)
    job.say(job.at(180), "node-01", f"srun: error: Node failure on {NODE}")
    job.ends("NODE_FAIL", job.at(182))
    return expected(
        "hardware/node_down", (NODE, "node"), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("power-loss-without-slurm-or-nccl")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The same with no word of NCCL or Slurm but the job's end."""
    job = c.job(version="2.23.4").starts_up(chatty=False).steps(120)
    c.goes_silent(NODE, job.at(121))
    job.fails(job.at(190), 1)
    return expected("hardware/node_down", (NODE, "node"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("agent-dies-node-lives", carried_by=("NodeSilence",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Only the agent of a node dies; its ranks print on for minutes, then a rank raises."""
    job = c.job().starts_up()
    c.goes_silent(NODE, job.at(180))
    job.say(
        job.at(241), NODE, "[rank16]: UserWarning: a rank of the silent node still prints", job.rank(NODE, 0)
    )
    job.raises(job.at(242), "node-01", 2, "ValueError: no shard left")
    job.closed(job.at(243), NODE, "node-01", 2)
    job.child_failed(job.at(244), "node-01", 2, 1).fails(job.at(248))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("node-failure-known-to-slurm-only")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No heartbeats of any node: the scheduler's word and seven nodes' retries are all there is."""
    c.unheard = set(c.nodes)
    job = c.job(version="2.23.4").starts_up().steps(120)
    for i, node in enumerate(n for n in c.nodes if n != NODE):
        job.status12(job.at(152 + i * 0.2), node, NODE, 0)
    job.say(job.at(180), "node-01", f"srun: error: Node failure on {NODE}")
    job.ends("NODE_FAIL", job.at(182))
    return expected(
        "hardware/node_down", (NODE, "node"), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("kernel-panic", carried_by=("ExtractKernelLines",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A panic, then silence: the panic is the cause, the silence follows."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.kmsg(NODE, job.at(121), "BUG: unable to handle page fault for address: ffffb4c0c9e0f000")
    c.kmsg(NODE, job.at(121.1), "Kernel panic - not syncing: Fatal exception")
    c.goes_silent(NODE, job.at(121.2))
    for node in ("node-01", "node-02", "node-06"):
        job.status12(job.at(129.5), node, NODE, 0)
    job.ends("NODE_FAIL", job.at(180))
    return expected("host/kernel_fatal", (NODE, "node"), state="NODE_FAIL", actions=HOST, nodes=(NODE,))


@scenario("soft-lockup-stalls", carried_by=("ExtractKernelLines",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A CPU is stuck; training stops, the others wait until their watchdog."""
    job = c.job(version="2.21.5", group_timeout_s=60.0).starts_up().steps(120)
    for i in range(4):
        c.kmsg(
            NODE,
            job.at(145 + i * 24),
            f"watchdog: BUG: soft lockup - CPU#12 stuck for {22 + 24 * i}s! [python3:41283]",
        )
    for node in ("node-01", "node-02", "node-06"):
        job.watchdog(job.at(183), node)
    job.torn_down(job.at(190)).fails(job.at(195), 134)
    return expected("host/host_stall", (NODE, "node"), actions=HOST, nodes=(NODE,))


@scenario("oom-of-another-job", carried_by=("OutOfScope",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The OOM killer strikes in another job's cgroup on a shared node; ours dies of its own exception."""
    job = c.job(gpus=[0, 1, 2, 3]).starts_up().steps(150)
    t = job.at(151)
    c.kmsg(
        NODE,
        t,
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/system.slice/slurmstepd.scope/job_8888,task_memcg=/system.slice/slurmstepd.scope/job_8888/step_0/user/task_0,task=python3,pid=9999,uid=1021",
    )
    c.kmsg(
        NODE,
        t + 0.001,
        "Memory cgroup out of memory: Killed process 9999 (python3) total-vm:41233120kB, anon-rss:25133012kB, file-rss:90112kB, shmem-rss:4194304kB, UID:1021 pgtables:530012kB oom_score_adj:0",
    )
    job.raises(job.at(152), "node-01", 2, "IndexError: list index out of range")
    job.closed(job.at(153), NODE, "node-01", 2)
    job.child_failed(job.at(154), "node-01", 2, 1).fails(job.at(158))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("oom-of-a-sidecar", carried_by=("StrangersProcess",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The OOM killer strikes a log shipper's container; two seconds later a rank raises by itself."""
    job = c.job(version="2.21.5").starts_up().steps(150)
    c.kmsg(
        NODE,
        job.at(151),
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-77.scope,mems_allowed=0-1,oom_memcg=/kubepods.slice/kubepods-burstable.slice/pod77,task_memcg=/kubepods.slice/kubepods-burstable.slice/pod77/log-shipper,task=log-shipper,pid=3391,uid=0",
    )
    c.kmsg(
        NODE,
        job.at(151.001),
        "Memory cgroup out of memory: Killed process 3391 (log-shipper) total-vm:912331kB, anon-rss:251330kB, file-rss:12kB, shmem-rss:0kB, UID:0 pgtables:530kB oom_score_adj:996",
    )
    job.raises(job.at(153), NODE, 2, "IndexError: list index out of range")
    job.closed(job.at(154), "node-01", NODE, 2)
    job.child_failed(job.at(155), NODE, 2, 1).fails(job.at(158))
    return expected("workload/code_exception", (NODE, f"rank/{job.rank(NODE, 2)}"))


@scenario("power-of-a-rack-fails")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Five of eight nodes lose their power; srun names each of them, and the rest give up on them."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    gone = [f"node-{i:02d}" for i in range(4, 9)]
    for i, node in enumerate(gone):
        c.goes_silent(node, job.at(121 + i / 10))
    for node in ("node-01", "node-02", "node-03"):
        job.status12(job.at(129.5), node, "node-05", 0)
    for i, node in enumerate(gone):
        job.say(job.at(181 + i / 20), "node-01", f"srun: error: Node failure on {node}")
    job.ends("NODE_FAIL", job.at(182))
    culprits = [(node, "node") for node in gone]
    return expected(
        "hardware/node_down", *culprits, state="NODE_FAIL", actions=NODE_NO_RESET, nodes=tuple(gone)
    )


@scenario("oom-known-to-slurm-only")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No kernel log of the node, but slurmstepd counted the kill in the step's cgroup."""
    job = c.job().starts_up().steps(120)
    c.failed[NODE] = {"kmsg": "open /dev/kmsg: permission denied"}
    c.no_kernel_log.add(NODE)
    job.say(
        job.at(121),
        NODE,
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7001.0. Some of the step tasks have been OOM Killed.",
    )
    job.child_failed(job.at(121.5), NODE, 1, -9)
    job.closed(job.at(122), "node-01", NODE, 1).closed(job.at(123), "node-05", NODE, 1)
    job.torn_down(job.at(124), by=NODE, how="Out Of Memory", local=1)
    job.ends("OUT_OF_MEMORY", job.at(128), exit_code=137)
    return expected(
        "host/host_oom",
        (NODE, "node"),
        state="OUT_OF_MEMORY",
        actions=("interrupt_and_restart", "run_checks"),
        nodes=(NODE,),
    )


@scenario("nfs-server-lost-by-one-node", carried_by=("ExtractKernelLines",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One node's mount hangs; its ranks stop, the others wait."""
    job = c.job(group_timeout_s=120.0).starts_up().steps(120)
    c.kmsg(NODE, job.at(180), "nfs: server fs-02.c1.example not responding, still trying")
    for node in ("node-01", "node-02", "node-06"):
        job.watchdog(job.at(246), node)
    job.torn_down(job.at(250)).fails(job.at(255), 134)
    return expected(
        "storage/node_mount", (NODE, "filesystem/fs-02.c1.example", ("node",)), actions=HOST, nodes=(NODE,)
    )


@scenario("shared-file-system-hangs", carried_by=("SharedStorageMerge",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Six of eight nodes lose one file server: it is the server's trouble."""
    job = c.job(group_timeout_s=120.0).starts_up().steps(120)
    for i, node in enumerate(c.nodes[:6]):
        c.kmsg(node, job.at(180 + i), "nfs: server fs-02.c1.example not responding, still trying")
    for node in ("node-01", "node-07", "node-08"):
        job.watchdog(job.at(246), node)
    job.torn_down(job.at(250)).fails(job.at(255), 134)
    return expected(
        "storage/shared_filesystem", (None, "filesystem/fs-02.c1.example", ("filesystem/shared",))
    )


def no_space(c: CaptureBuilder, nodes: list[str]) -> None:
    """Every rank of the nodes can't write its shard."""
    job = c.job().starts_up().steps(100)
    for i, (r, (node, local)) in enumerate(x for x in job.rank_nodes.items() if x[1][0] in nodes):
        what = f"OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_20/shard_{r}.pt'"
        job.raises(job.at(102 + i * 0.01), node, local, what)
    job.torn_down(job.at(106), by=nodes[0], how="Exited with exit code 1").fails(job.at(110))


@scenario("no-space-for-any-checkpoint", carried_by=("SharedStorageMerge",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """All ranks find one path full, within a second: the file system that they share."""
    no_space(c, c.nodes)
    return expected("storage/shared_filesystem", (None, "filesystem//scratch"))


@scenario("no-space-on-one-node")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The ranks of one node find the path full: that node's mount."""
    no_space(c, ["node-05"])
    return expected(
        "storage/node_mount", ("node-05", "filesystem//scratch"), actions=NODE_NO_RESET, nodes=("node-05",)
    )


@scenario("checkpoint-reads-fail-everywhere", carried_by=("SharedStorageMerge",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Stale handles on many nodes, seen by the workload alone."""
    job = c.job().starts_up().steps(120)
    for i, node in enumerate(c.nodes):
        job.raises(
            job.at(122 + i * 0.3),
            node,
            1,
            "OSError: [Errno 116] Stale file handle: '/scratch/data/shard-0012.bin'",
        )
    job.torn_down(job.at(130)).fails(job.at(134))
    return expected(
        "storage/shared_filesystem",
        (None, "filesystem/scratch", ("filesystem//scratch", "filesystem/shared")),
    )


@scenario("power-brake-slows-the-run", carried_by=("SlowButRunning",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A power brake on one GPU halves the clocks; every step takes twice as long, nothing fails."""
    job = c.job().starts_up().steps(120)
    c.throttle(NODE, 2, job.at(121), "hw_slowdown", "hw_power_brake")
    job.steps(400, first=130, every=10.0, number=20)
    c.until = job.at(405)
    return expected(
        "hardware/power_thermal",
        (NODE, f"gpu/{c.gpu(NODE, 2)}"),
        state="RUNNING_DEGRADED",
        actions=("cordon", "drain", "run_checks"),
        nodes=(NODE,),
    )


@scenario("power-cap-is-normal")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A software power cap at full load slows nobody."""
    job = c.job().starts_up().steps(240)
    c.throttle(NODE, 2, job.at(121), "sw_power_cap")
    job.ends("COMPLETED", job.at(250), exit_code=0)
    return expected("none/completed", state="COMPLETED")


@scenario("facility-power-brake", carried_by=("FacilityEvent",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Five nodes are braked within seconds: one event of the facility, and no node's own fault."""
    job = c.job().starts_up().steps(120)
    for i, node in enumerate(c.nodes[:5]):
        for index in range(2):
            c.throttle(node, index, job.at(121 + i), "hw_slowdown", "hw_power_brake")
    job.steps(400, first=130, every=10.0, number=20)
    c.until = job.at(405)
    culprits = [(n, f"gpu/{c.gpu(n, i)}") for n in c.nodes[:5] for i in range(2)]
    return expected("hardware/power_thermal", *culprits, state="RUNNING_DEGRADED")


@scenario("lockup-away-from-the-blame", carried_by=("UncorroboratedSuspicion",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A stuck CPU on one node, while everybody loses another one that shows nothing."""
    job = c.job().starts_up().steps(120)
    c.kmsg(NODE, job.at(143), "watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [kworker/12:1:812]")
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(124 + i), node, "node-07", 1)
    job.torn_down(job.at(128)).fails(job.at(150), 134)
    return expected(
        "unknown/insufficient_evidence", ("node-07", "node"), actions=("run_checks",), nodes=("node-07",)
    )


@scenario("panic-noticed-by-slurm")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Slurm notices minutes later that a node is gone: what the node itself said last goes before that."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.kmsg(NODE, job.at(121), "watchdog: Watchdog detected hard LOCKUP on cpu 12")
    c.kmsg(NODE, job.at(121.1), "Kernel panic - not syncing: Hard LOCKUP")
    c.goes_silent(NODE, job.at(121.2))
    for node in ("node-01", "node-02", "node-06"):
        job.status12(job.at(129.5), node, NODE, 0)
    job.say(job.at(300), "node-01", f"srun: error: Node failure on {NODE}")
    job.ends("NODE_FAIL", job.at(302))
    return expected("host/kernel_fatal", (NODE, "node"), state="NODE_FAIL", actions=HOST, nodes=(NODE,))


def lost_gpu(c: CaptureBuilder, silent: float) -> tuple[Any, str]:
    """A GPU is lost at 121 s and its node goes away at `silent`; Slurm notices at 300 s."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.xid(NODE, 2, job.at(121), 79, "GPU has fallen off the bus.")
    c.goes_silent(NODE, job.at(silent))
    job.say(job.at(300), "node-01", f"srun: error: Node failure on {NODE}")
    job.ends("NODE_FAIL", job.at(302))
    return job, f"gpu/{c.gpu(NODE, 2)}"


@scenario("lost-gpu-long-before-the-node", carried_by=("ProofOfLife",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A GPU is lost and peers fail; the node is heard for another minute before it is rebooted."""
    job, gpu = lost_gpu(c, 181)
    job.raises(job.at(121.5), NODE, 2, "torch.AcceleratorError: CUDA error: unspecified launch failure")
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(123 + i), node, NODE, 2)
    return expected(
        "hardware/accelerator_gpu", (NODE, gpu), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("lost-gpu-of-a-node-that-only-slurm-misses", carried_by=("ProofOfLife",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No heartbeat dates the death that Slurm reports three minutes after a GPU was lost and peers failed."""
    job, gpu = lost_gpu(c, 135)
    c.unheard = set(c.nodes)
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(121.5 + i * 0.2), node, NODE, 2)
    return expected(
        "hardware/accelerator_gpu", (NODE, gpu), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("lost-gpu-as-the-node-dies")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A driver still gets a line out while its node loses power: part of the node's death."""
    job, _ = lost_gpu(c, 121.2)
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.status12(job.at(129.5 + i * 0.2), node, NODE, 2)
    return expected(
        "hardware/node_down", (NODE, "node"), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("two-gpus-of-a-node-overheat", carried_by=("SlowButRunning",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Two GPUs of one node are slowed by heat: one condition of that node, however many GPUs feel it."""
    job = c.job().starts_up().steps(120)
    c.throttle(NODE, 2, job.at(121), "hw_slowdown", "hw_thermal")
    c.throttle(NODE, 5, job.at(124), "hw_slowdown", "hw_thermal")
    job.steps(400, first=130, every=10.0, number=20)
    c.until = job.at(405)
    return expected(
        "hardware/power_thermal",
        (NODE, f"gpu/{c.gpu(NODE, 2)}"),
        (NODE, f"gpu/{c.gpu(NODE, 5)}"),
        state="RUNNING_DEGRADED",
        actions=("cordon", "drain", "run_checks"),
        nodes=(NODE,),
    )


@scenario("two-nodes-overheat")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One GPU on each of two nodes: which of them slows the run can't be told."""
    job = c.job().starts_up().steps(120)
    for node in (NODE, "node-06"):
        c.throttle(node, 2, job.at(121), "hw_slowdown", "hw_thermal")
    job.steps(400, first=130, every=10.0, number=20)
    c.until = job.at(405)
    return expected(
        "hardware/ambiguous",
        (NODE, f"gpu/{c.gpu(NODE, 2)}"),
        ("node-06", f"gpu/{c.gpu('node-06', 2)}"),
        state="RUNNING_DEGRADED",
        actions=("cordon", "drain", "run_checks"),
        nodes=(NODE, "node-06"),
    )


def oops(c: CaptureBuilder, at: float) -> None:
    c.kmsg(NODE, at, "BUG: kernel NULL pointer dereference, address: 0000000000000058")
    c.kmsg(NODE, at + 0.02, "Oops: 0000 [#1] PREEMPT SMP NOPTI")


@scenario("oops-kills-a-trainer")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The kernel stumbles in a trainer's system call and kills it; the node lives on, without a panic."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    oops(c, job.at(121))
    job.child_failed(job.at(122), NODE, 1, -9)
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(122.5 + i), node, NODE, 1)
    job.torn_down(job.at(127)).fails(job.at(130), 137)
    return expected("host/kernel_fatal", (NODE, "node"), actions=HOST, nodes=(NODE,))


@scenario("oops-over-a-lost-gpu")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A GPU falls off the bus and the kernel stumbles over it right after: the GPU is the cause."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.xid(NODE, 2, job.at(121), 79, "GPU has fallen off the bus.")
    oops(c, job.at(121.2))
    job.child_failed(job.at(122), NODE, 2, -9)
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(122.5 + i), node, NODE, 2)
    job.torn_down(job.at(127)).fails(job.at(130), 137)
    return expected("hardware/accelerator_gpu", (NODE, f"gpu/{c.gpu(NODE, 2)}"), actions=HOST, nodes=(NODE,))


@scenario("oops-that-nobody-felt")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """An oops on one node, steps go on, and a minute later a rank of another node raises."""
    job = c.job().starts_up().steps(180)
    oops(c, job.at(121))
    job.raises(job.at(182), "node-01", 2, "ValueError: no shard left")
    job.closed(job.at(183), NODE, "node-01", 2)
    job.child_failed(job.at(184), "node-01", 2, 1).fails(job.at(188))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("lost-gpu-just-before-the-node")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Peers of a lost GPU fail, the node's heartbeat still comes, and only then is the node gone."""
    job, gpu = lost_gpu(c, 135)
    for i, node in enumerate(("node-01", "node-04", "node-05")):
        job.closed(job.at(121.5 + i * 0.2), node, NODE, 2)
    return expected(
        "hardware/accelerator_gpu", (NODE, gpu), state="NODE_FAIL", actions=NODE_NO_RESET, nodes=(NODE,)
    )
