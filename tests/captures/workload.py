# ruff: noqa: E501 - log lines are quoted whole
"""Scenarios: programs, schedulers, and what can't be told."""

from __future__ import annotations

from typing import Any

from tests.captures.builder import CaptureBuilder, expected
from tests.captures.catalogue import NODE_ALL, scenario


@scenario("cuda-out-of-memory-on-one-rank", carried_by=("ExtractLogs",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One rank's GPU memory is full."""
    job = c.job().starts_up().steps(150)
    job.raises(
        job.at(152),
        "node-04",
        1,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB of which 512.00 MiB is free.",
    )
    job.closed(job.at(153), "node-03", "node-04", 1)
    job.child_failed(job.at(154), "node-04", 1, 1).fails(job.at(158))
    return expected("workload/gpu_oom", ("node-04", f"rank/{job.rank('node-04', 1)}"))


@scenario("cuda-out-of-memory-everywhere", carried_by=("SameError",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The batch is too large for every GPU: no culprit."""
    job = c.job().starts_up()
    for node in c.nodes:
        for local in range(8):
            job.raises(
                job.at(40 + local * 0.01),
                node,
                local,
                f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU {local} has a total capacity of 79.11 GiB of which 512.00 MiB is free.",
            )
    job.torn_down(job.at(45)).fails(job.at(48))
    return expected("workload/gpu_oom")


@scenario("loss-becomes-nan")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The loss becomes NaN and stays so until the program gives up; an overflow before it had healed."""
    job = c.job().starts_up().steps(100)
    job.steps(105, first=105, number=16, loss="nan")
    job.steps(140, first=110, number=17)
    job.steps(170, first=145, number=24, loss="nan")
    job.raises(job.at(172), "node-01", 0, "RuntimeError: loss is not finite for 5 steps, stopping")
    job.child_failed(job.at(173), "node-01", 0, 1).torn_down(
        job.at(174), by="node-01", how="Exited with exit code 1"
    ).fails(job.at(178))
    return expected("workload/numerical")


@scenario("nan-raised-by-the-ranks-of-a-node")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The ranks of one node find NaN in their own loss and raise; the others only lose them."""
    job = c.job().starts_up().steps(100)
    for local in range(3):
        r = job.rank("node-03", local)
        job.raises(
            job.at(102 + local * 0.002),
            "node-03",
            local,
            f"RuntimeError: Rank {r}, node node-03, device {local}, iteration 15: Unexpected result nan (message='found NaN in local forward loss calculation')",
        )
    job.closed(job.at(103), "node-01", "node-03").child_failed(job.at(104), "node-03", 0, 1)
    job.torn_down(job.at(105), by="node-03", how="Exited with exit code 1").fails(job.at(108))
    return expected("workload/numerical", *(("node-03", f"rank/{16 + i}") for i in range(3)))


@scenario("nan-raised-by-one-rank")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One rank's gradients are not finite, as its exception says; no step line told of it."""
    job = c.job().starts_up().steps(100)
    job.raises(job.at(102), "node-06", 0, "ValueError: grad norm is inf in bucket 3")
    job.closed(job.at(103), "node-01", "node-06").child_failed(job.at(104), "node-06", 0, 1)
    job.torn_down(job.at(105), by="node-06", how="Exited with exit code 1").fails(job.at(108))
    return expected("workload/numerical", ("node-06", "rank/40"))


@scenario("one-rank-crashes")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A library of the program crashes on one rank; its kernel log tells the same and nothing else."""
    job = c.job().starts_up().steps(100)
    r = job.rank("node-02", 5)
    c.kmsg(
        "node-02",
        job.at(101),
        "python3[41274]: segfault at 18 ip 00007f2a1c9d2b30 sp 00007ffd8e8d0f50 error 4 in libtok.so[7f2a1c800000+400000]",
    )
    job.say(job.at(101.1), "node-02", "Fatal Python error: Segmentation fault", r)
    job.child_failed(job.at(102), "node-02", 5, -11)
    for i, node in enumerate(("node-08", "node-07", "node-06")):
        job.closed(job.at(103 + i * 0.5), node, "node-02", 5)
    job.torn_down(job.at(106), by="node-02", how="Segmentation fault", local=5).fails(job.at(110), 139)
    return expected("workload/code_exception", ("node-02", f"rank/{r}"))


@scenario("nan-that-is-only-a-word")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A cell of a table says 'nan' where a number should be: the program's error, not the training's."""
    job = c.job().starts_up().steps(100)
    job.raises(job.at(102), "node-06", 1, "ValueError: could not convert string to int: 'nan'")
    job.closed(job.at(103), "node-01", "node-06").child_failed(job.at(104), "node-06", 1, 1)
    job.torn_down(job.at(105), by="node-06", how="Exited with exit code 1").fails(job.at(108))
    return expected("workload/code_exception", ("node-06", "rank/41"))


@scenario("nan-that-healed", carried_by=("NumericalRecovery",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One NaN step, then thirty good ones, then a KeyError."""
    job = c.job().starts_up().steps(100)
    job.steps(105, first=105, number=16, loss="nan")
    job.steps(250, first=110, number=17)
    job.raises(job.at(252), "node-01", 2, "KeyError: 'labels'")
    job.closed(job.at(253), "node-03", "node-01", 2)
    job.child_failed(job.at(254), "node-01", 2, 1).fails(job.at(258))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("rank-never-joins", carried_by=("MissingRank",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Rank 21 enqueued one collective less than all others."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    for node in c.nodes:
        for local in range(8):
            late = job.rank(node, local) == 21
            if not late:
                job.watchdog(job.at(183 + local * 0.01), node, local, enqueued=1772)
    r = 21
    job.say(
        job.at(183.5),
        "node-03",
        f"[rank{r}]:[E504 08:00:00.000000000 ProcessGroupNCCL.cpp:685] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: 1770 PG status: last enqueued work: 1770, last completed work: 1770",
        r,
    )
    job.torn_down(job.at(186)).fails(job.at(190), 134)
    return expected("workload/collective_desync", ("node-03", "rank/21"))


@scenario("rank-never-joins-on-a-blind-node", carried_by=("CoverageGap",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The same, but nobody reads that node's kernel log: hardware can't be ruled out."""
    c.failed["node-03"] = {"kmsg": "open /dev/kmsg: permission denied"}
    c.no_kernel_log.add("node-03")
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    for node in c.nodes:
        for local in range(8):
            if job.rank(node, local) != 21:
                job.watchdog(job.at(183 + local * 0.01), node, local, enqueued=1772)
    job.say(
        job.at(183.5),
        "node-03",
        "[rank21]:[E504 08:00:00.000000000 ProcessGroupNCCL.cpp:685] [PG ID 0 PG GUID 0(default_pg) Rank 21]  failure detected by watchdog at work sequence id: 1770 PG status: last enqueued work: 1770, last completed work: 1770",
        21,
    )
    job.torn_down(job.at(186)).fails(job.at(190), 134)
    return expected(
        "unknown/insufficient_evidence",
        ("node-03", "node", ("rank/21",)),
        actions=("run_checks",),
        nodes=("node-03",),
    )


@scenario("ranks-run-different-collectives", carried_by=("CollectiveDesync",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Half of the ranks wait in an all-reduce, half in an all-gather, under one number."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    for i, node in enumerate(c.nodes):
        job.watchdog(job.at(183 + i * 0.05), node, 0, op="ALLREDUCE" if i < 4 else "ALLGATHER")
    job.torn_down(job.at(186)).fails(job.at(190), 134)
    return expected("workload/collective_desync")


@scenario("watchdogs-and-nothing-else")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """All nodes are seen and clean, all ranks time out alike: nobody can tell why."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    for node in c.nodes:
        job.watchdog(job.at(183), node, 0)
    job.torn_down(job.at(186)).fails(job.at(190), 134)
    return expected("unknown/insufficient_evidence")


@scenario("hang-into-the-time-limit", carried_by=("ProgressStall", "SchedulerIntent"))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Steps stop, no watchdog, half an hour of silence, then the time limit: the limit is not the cause."""
    job = c.job().starts_up().steps(120)
    job.say(
        job.at(1900),
        "node-01",
        "slurmstepd: error: *** JOB 7001 ON node-01 CANCELLED AT 2026-05-04T08:32:00 DUE TO TIME LIMIT ***",
    )
    job.ends("TIMEOUT", job.at(1901))
    return expected("unknown/insufficient_evidence", state="TIMEOUT")


@scenario("time-limit-of-a-healthy-run")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Steps are on time until the limit; a connection closes while everything is taken down."""
    job = c.job().starts_up().steps(240)
    job.say(
        job.at(243),
        "node-01",
        "slurmstepd: error: *** JOB 7001 ON node-01 CANCELLED AT 2026-05-04T08:04:23 DUE TO TIME LIMIT ***",
    )
    job.closed(job.at(245), "node-05", "node-06", 1)
    job.ends("TIMEOUT", job.at(246))
    return expected("scheduler/time_limit", state="TIMEOUT")


@scenario("cancelled-by-its-user", carried_by=("ExtractIntent",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """scancel of a healthy run."""
    job = c.job().starts_up().steps(240)
    job.say(
        job.at(243),
        "node-01",
        "slurmstepd: error: *** STEP 7001.0 ON node-01 CANCELLED AT 2026-05-04T08:04:23 ***",
    )
    job.closed(job.at(245), "node-05", "node-06", 1)
    job.ends("CANCELLED", job.at(246), reason="CANCELLED by 1021")
    return expected("scheduler/user_cancel", state="CANCELLED")


@scenario("cancelled-after-a-lethal-outage")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The user cancels what a dead port has stopped: the port is the cause, the cancel only the end."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.port_down("node-07", "mlx5_3", job.at(121), 30.0)
    job.status12(job.at(129.2), "node-02", "node-07", 3)
    job.ends("CANCELLED", job.at(240), reason="CANCELLED by 1021")
    return expected("hardware/network_hca_port", ("node-07", "port/mlx5_3/1"), state="CANCELLED",
                    actions=("interrupt_and_restart", "cordon", "drain", "reboot_node", "run_checks"), nodes=("node-07",))  # fmt: skip


@scenario("preempted-while-a-port-flaps")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A harmless flap just before a preemption."""
    job = c.job(version="2.27.3").starts_up().steps(240)
    c.port_down("node-07", "mlx5_3", job.at(239), 1.5)
    job.say(
        job.at(243),
        "node-01",
        "slurmstepd: error: *** STEP 7001.0 ON node-01 CANCELLED AT 2026-05-04T08:04:23 DUE TO PREEMPTION ***",
    )
    job.closed(job.at(245), "node-05", "node-06", 1)
    job.ends("PREEMPTED", job.at(246), reason="preempted by job 9001")
    return expected("scheduler/preemption", state="PREEMPTED")


@scenario("healthy-and-completed")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Nothing happens."""
    job = c.job().starts_up().steps(240)
    job.ends("COMPLETED", job.at(250), exit_code=0)
    return expected("none/completed", state="COMPLETED")


@scenario("exception-cascade", carried_by=("ExtractLogs",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One rank's bug, and the exceptions that the loss of its rank raises on others."""
    job = c.job().starts_up().steps(150)
    job.raises(
        job.at(152), "node-06", 3, "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'"
    )
    for i, node in enumerate(("node-01", "node-02", "node-03")):
        job.closed(job.at(153 + i), node, "node-06", 3)
        job.raises(
            job.at(153.5 + i),
            node,
            3,
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error, NCCL version 2.21.5",
        )
    job.child_failed(job.at(154), "node-06", 3, 1).torn_down(
        job.at(157), by="node-06", how="Exited with exit code 1", local=3
    ).fails(job.at(160))
    return expected("workload/code_exception", ("node-06", f"rank/{job.rank('node-06', 3)}"))


@scenario("late-exception-after-a-lost-gpu")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A GPU is lost; seconds later another rank trips over the ruins with a KeyError."""
    job = c.job().starts_up().steps(150)
    c.xid("node-05", 2, job.at(151), 79, "GPU has fallen off the bus.")
    job.closed(job.at(153), "node-01", "node-05", 2)
    job.raises(job.at(156), "node-04", 1, "KeyError: 'grad_norm'")
    job.torn_down(job.at(158), by="node-05", local=2).fails(job.at(160), 134)
    return expected(
        "hardware/accelerator_gpu",
        ("node-05", f"gpu/{c.gpu('node-05', 2)}"),
        actions=tuple(a for a in NODE_ALL if a != "reset_gpu"),
        nodes=("node-05",),
    )


@scenario("two-faults-well-apart", carried_by=("Gb200PriorityRootCause",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A GPU is lost; half a minute later, while all is being taken down, a port fails for long."""
    job = c.job(version="2.21.5").starts_up().steps(150)
    c.xid("node-05", 2, job.at(151), 79, "GPU has fallen off the bus.")
    job.closed(job.at(165), "node-01", "node-05", 2)
    c.port_down("node-07", "mlx5_0", job.at(156), 30.0)
    job.status12(job.at(166), "node-02", "node-07", 0)
    job.torn_down(job.at(170), by="node-05", local=2).fails(job.at(175), 134)
    return expected(
        "hardware/accelerator_gpu",
        ("node-05", f"gpu/{c.gpu('node-05', 2)}"),
        actions=NODE_ALL,
        nodes=("node-05", "node-07"),
    )


@scenario("exception-and-xid-in-one-second")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A rank raises and, on another node, a GPU is lost half a second apart: which came first?"""
    job = c.job().starts_up().steps(150)
    job.raises(job.at(152), "node-01", 2, "ValueError: no shard left")
    c.xid("node-05", 2, job.at(151.6), 79, "GPU has fallen off the bus.")
    job.closed(job.at(154), "node-03", "node-01", 2)
    job.closed(job.at(154.2), "node-04", "node-05", 2)
    job.torn_down(job.at(156)).fails(job.at(160), 134)
    return expected(
        "unknown/ambiguous",
        ("node-01", "rank/2"),
        ("node-05", f"gpu/{c.gpu('node-05', 2)}"),
        actions=NODE_ALL,
        nodes=("node-01", "node-05"),
    )


@scenario("no-evidence-at-all")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The job fails and nobody says why."""
    job = c.job()
    job.fails(job.at(160), 1)
    return expected("unknown/insufficient_evidence")


@scenario("blamed-node-clean-and-seen")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Three nodes lose node-02, which is well observed and shows nothing: still no cause."""
    job = c.job().starts_up().steps(150)
    for i, node in enumerate(("node-01", "node-03", "node-04")):
        job.closed(job.at(152 + i), node, "node-02", 1)
    job.torn_down(job.at(157)).fails(job.at(160), 134)
    return expected(
        "unknown/insufficient_evidence", ("node-02", "node"), actions=("run_checks",), nodes=("node-02",)
    )


@scenario("second-attempt-succeeds")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The first attempt dies of an XID 95, the second one completes on other nodes."""
    nodes = c.nodes[:4]
    one = c.job("7001", nodes=nodes).starts_up().steps(100)
    c.xid("node-02", 3, one.at(101), 95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No")
    one.closed(one.at(104), "node-01", "node-02", 3).torn_down(one.at(106), by="node-02", local=3).fails(
        one.at(110), 134
    )
    two = c.job("7001", attempt=2, nodes=c.nodes[4:], start=200.0)
    two.ends("COMPLETED", two.at(200), exit_code=0)
    label = expected(
        "hardware/accelerator_memory",
        ("node-02", f"gpu/{c.gpu('node-02', 3)}"),
        actions=NODE_ALL,
        nodes=("node-02",),
    )
    label["also"] = [expected("none/completed", attempt=2, state="COMPLETED")]
    return label


@scenario("blamed-node-blind-while-another-raises-later")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Everybody loses node-02, which is blind; a KeyError elsewhere comes seconds later and explains nothing."""
    c.failed["node-02"] = {"kmsg": "open /dev/kmsg: permission denied"}
    c.no_kernel_log.add("node-02")
    job = c.job().starts_up().steps(150)
    for i, node in enumerate(("node-01", "node-03", "node-04")):
        job.closed(job.at(152 + i * 0.3), node, "node-02", 1)
    job.raises(job.at(157), "node-04", 2, "KeyError: 'grad_norm'")
    job.torn_down(job.at(159)).fails(job.at(162), 134)
    return expected(
        "unknown/insufficient_evidence", ("node-02", "node"), actions=("run_checks",), nodes=("node-02",)
    )
