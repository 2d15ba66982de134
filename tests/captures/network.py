# ruff: noqa: E501 - log lines are quoted whole
"""Scenarios: ports, NICs, switches and the fabric."""

from __future__ import annotations

from typing import Any

from tests.captures.builder import CaptureBuilder, expected
from tests.captures.catalogue import CHECKS, NODE_NO_RESET, scenario

NODE = "node-07"


def port(node: str, device: str) -> tuple[str, str]:
    return (node, f"port/{device}/1")


def killed_by_port(
    c: CaptureBuilder,
    version: str,
    after: float,
    *,
    down: float | None,
    nccl: dict[str, Any] | None = None,
    t: float = 121.0,
) -> Any:
    """The port goes down at `t`, both ends give up `after` seconds later."""
    job = c.job(version=version, nccl=nccl).starts_up().steps(t - 1)
    c.port_down(NODE, "mlx5_3", job.at(t), down)
    job.status12(job.at(t + after), "node-02", NODE, 3)
    job.status12(job.at(t + after + 0.3), NODE, "node-02", 3)
    job.torn_down(job.at(t + after + 2), by="node-02", local=3).fails(job.at(t + after + 6), 134)
    return job


@scenario("outage-45s-nccl-2.27", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """45 s are more than the 30 s of NCCL 2.27."""
    killed_by_port(c, "2.27.3", 31.0, down=45.0)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-2s-nccl-2.12", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Two seconds kill NCCL 2.12, which gives up after half a second."""
    killed_by_port(c, "2.12.12", 0.6, down=2.0)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-40s-under-timeout-22")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """NCCL_IB_TIMEOUT=22 keeps trying for two minutes: 40 s are survived, a rank raises a minute later."""
    job = c.job(version="2.21.5", nccl={"version": "2.21.5", "ib_timeout": 22}).starts_up().steps(120)
    c.port_down(NODE, "mlx5_3", job.at(121), 40.0)
    job.steps(230, first=165, number=30)
    job.raises(job.at(232), "node-01", 2, "ValueError: no shard left")
    job.closed(job.at(233), "node-03", "node-01", 2)
    job.child_failed(job.at(234), "node-01", 2, 1).fails(job.at(238))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("outage-150s-under-timeout-22", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The same setting and 150 s: steps stay away for two minutes before NCCL gives up."""
    job = c.job(version="2.21.5", nccl={"version": "2.21.5", "ib_timeout": 22}).starts_up().steps(120)
    c.port_down(NODE, "mlx5_3", job.at(121), 150.0)
    job.status12(job.at(242), "node-02", NODE, 3)
    job.status12(job.at(242.3), NODE, "node-02", 3)
    job.torn_down(job.at(244), by="node-02", local=3).fails(job.at(248), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("epochs-that-count-anew-then-an-outage", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Every rank prints every step, each epoch counts from 0: the last step is the last one, not the highest."""
    job = c.job(version="2.27.3").starts_up()
    for i in range(36):
        for node in c.nodes:
            for local in range(8):
                text = f"Epoch {i // 12}: step {i % 12}, loss: 2.31"
                job.say(job.at(20 + i * 5 + local * 0.002), node, text, job.rank(node, local))
    c.port_down(NODE, "mlx5_3", job.at(196), 45.0)
    job.status12(job.at(227), "node-02", NODE, 3)
    job.status12(job.at(227.3), NODE, "node-02", 3)
    job.torn_down(job.at(229), by="node-02", local=3).fails(job.at(233), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-and-timeout-from-the-log")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The record knows no NCCL settings; the log says 2.21 and NCCL_IB_TIMEOUT=14: 3 s are lethal."""
    job = c.job(version="2.21.5", nccl={}).starts_up().steps(120)
    job.say(
        job.at(5.3), "node-01", "node-01:4000:4000 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 14.", 0
    )
    c.port_down(NODE, "mlx5_3", job.at(121), 3.0)
    job.status12(job.at(121.7), "node-02", NODE, 3)
    job.torn_down(job.at(124), by="node-02", local=3).fails(job.at(128), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-only-in-the-workload-log", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No port collector at all: the ranks of the node print port error, and later port active."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.failed[NODE] = {"ib_port": "no access to /sys/class/infiniband"}
    c.levels[NODE] = {}
    r = job.rank(NODE, 3)
    head = f"{NODE}:25065:25156 [3] transport/net_ib.cc:118 NCCL WARN NET/IB : mlx5_3:1 Got async event :"
    job.say(job.at(121.03), NODE, f"{head} port error", r)
    job.say(job.at(133.03), NODE, f"{head} port active", r)
    job.status12(job.at(129.2), "node-02", NODE, 3)
    job.status12(job.at(129.4), NODE, "node-02", 3)
    job.torn_down(job.at(132), by="node-02", local=3).fails(job.at(136), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


def unseen_transition(c: CaptureBuilder, at: float, *, back: float | None) -> None:
    """The port is down from `at` on as the heartbeats tell; the transition itself was lost."""
    c.level_changes.append((at, NODE, "mlx5_3/1", "DOWN"))
    if back is not None:
        c.port(NODE, "mlx5_3", back, "ACTIVE", "DOWN")


@scenario("outage-only-in-the-heartbeats", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No transition was seen: a heartbeat says ACTIVE, the next one DOWN, and transfers fail just after it."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    unseen_transition(c, job.at(121), back=None)
    job.status12(job.at(129.2), "node-02", NODE, 3).status12(job.at(129.5), NODE, "node-02", 3)
    job.torn_down(job.at(132), by="node-02", local=3).fails(job.at(136), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-whose-down-edge-was-lost")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Heartbeats say DOWN, the port comes back by an edge, and a rank says when it went away."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    unseen_transition(c, job.at(121), back=job.at(145))
    head = f"{NODE}:25065:25156 [3] transport/net_ib.cc:118 NCCL WARN NET/IB : mlx5_3:1 Got async event :"
    job.say(job.at(121.1), NODE, f"{head} port error", job.rank(NODE, 3))
    job.status12(job.at(129.2), "node-02", NODE, 3).status12(job.at(129.5), NODE, "node-02", 3)
    job.torn_down(job.at(132), by="node-02", local=3).fails(job.at(160), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-in-the-heartbeats-that-no-transfer-felt")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A port is found down by a heartbeat after a rank raised; no transfer failed, so it may not be dated back."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    unseen_transition(c, job.at(124), back=None)
    job.raises(job.at(123), "node-01", 2, "KeyError: 'grad_norm'")
    job.closed(job.at(124), "node-03", "node-01", 2)
    job.child_failed(job.at(125), "node-01", 2, 1).fails(job.at(160))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("outage-kernel-and-ports-only")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """No workload log: a lethal outage, then the job's end."""
    job = c.job(version="2.21.5")
    c.port_down(NODE, "mlx5_3", job.at(121), 12.0)
    job.fails(job.at(140), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-never-comes-back")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The port stays down until the end of the capture."""
    killed_by_port(c, "2.23.4", 31.0, down=None)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("outage-with-failover")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """NCCL 2.30 moves the traffic elsewhere: two minutes without the port, and the job completes."""
    job = c.job(version="2.30.4", nccl={"version": "2.30.4", "failover": True}).starts_up().steps(280)
    c.port_down(NODE, "mlx5_3", job.at(121), 120.0)
    job.say(
        job.at(151),
        NODE,
        f"{NODE}:25065:25156 [3] transport/net_ib/p2p.cc:118 NCCL WARN NET/IB: Device 3 marked as failed. Initiating recovery? Yes",
        job.rank(NODE, 3),
    )
    job.ends("COMPLETED", job.at(290), exit_code=0)
    return expected("none/completed", state="COMPLETED")


@scenario("outage-of-an-unused-port")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The storage port is down for two minutes; the job does not use it, and a rank raises meanwhile."""
    job = c.job(ports=["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]).starts_up().steps(150)
    c.port_down("node-01", "mlx5_7", job.at(140), 120.0)
    job.raises(job.at(152), "node-01", 2, "ZeroDivisionError: division by zero")
    job.closed(job.at(153), "node-03", "node-01", 2)
    job.child_failed(job.at(154), "node-01", 2, 1).fails(job.at(158))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("outage-after-the-failure")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A rank raises; half a minute later the node is rebooted and its ports go down: an after-effect."""
    job = c.job().starts_up().steps(150)
    job.raises(job.at(152), "node-01", 2, "ValueError: no shard left")
    job.closed(job.at(153), "node-03", "node-01", 2)
    job.child_failed(job.at(154), "node-01", 2, 1).torn_down(
        job.at(155), by="node-01", how="Exited with exit code 1", local=2
    )
    c.port_down("node-06", "mlx5_2", job.at(185), 60.0)
    job.fails(job.at(160))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("outage-not-yet-lethal", carried_by=("AfterEffect",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A port is down when a rank raises, but NCCL would have waited 25 s more."""
    job = c.job(version="2.27.3").starts_up().steps(150)
    c.port_down("node-06", "mlx5_2", job.at(148), 50.0)
    job.raises(job.at(153), "node-01", 2, "ValueError: no shard left")
    job.closed(job.at(154), "node-03", "node-01", 2)
    job.child_failed(job.at(155), "node-01", 2, 1).torn_down(
        job.at(156), by="node-01", how="Exited with exit code 1", local=2
    )
    job.fails(job.at(160))
    return expected(
        "workload/code_exception",
        ("node-01", "rank/2"),
        actions=("cordon", "drain", "run_checks"),
        nodes=("node-06",),
    )


@scenario("leaf-switch-dies", carried_by=("LeafSwitchMerge",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """leaf-13 takes the fourth rail of every node down at once."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    for i, node in enumerate(c.nodes):
        c.port_down(node, "mlx5_3", job.at(121 + i * 0.2), 40.0)
    for node, peer in (("node-01", "node-02"), ("node-03", "node-04"), ("node-05", "node-06")):
        job.status12(job.at(129.5), node, peer, 3)
    job.torn_down(job.at(132)).fails(job.at(136), 134)
    return expected(
        "hardware/network_fabric",
        (None, "switch/leaf-13", ("fabric",)),
        actions=("interrupt_and_restart",),
        nodes=(),
    )


@scenario("two-ports-are-no-switch")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Two ports of two nodes fail together: no switch is proven, and which one began can't be told."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.port_down("node-02", "mlx5_3", job.at(121), 20.0)
    c.port_down("node-07", "mlx5_3", job.at(121.3), 20.0)
    job.status12(job.at(129.0), "node-02", "node-07", 3)
    job.status12(job.at(129.2), "node-07", "node-02", 3)
    job.torn_down(job.at(132)).fails(job.at(136), 134)
    return expected(
        "hardware/ambiguous",
        port("node-02", "mlx5_3"),
        port("node-07", "mlx5_3"),
        actions=("run_checks",),
        nodes=("node-02", "node-07"),
    )


@scenario("path-between-healthy-nodes", carried_by=("FabricPath",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Retries run out between disjoint pairs of healthy nodes: the path between them."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    for i, (a, b) in enumerate((("node-01", "node-05"), ("node-02", "node-06"), ("node-03", "node-07"))):
        job.status12(job.at(129 + i * 0.1), a, b, 3)
        job.status12(job.at(129.3 + i * 0.1), b, a, 3)
    job.torn_down(job.at(132)).fails(job.at(136), 134)
    return expected(
        "hardware/network_fabric", (None, "fabric"), accept=[["unknown", "insufficient_evidence"]]
    )


@scenario("one-pair-of-healthy-nodes")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Retries run out between two nodes, neither of which shows anything: either end, or the path."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    job.status12(job.at(129), "node-01", "node-05", 3)
    job.status12(job.at(129.3), "node-05", "node-01", 3)
    job.torn_down(job.at(132)).fails(job.at(136), 134)
    return expected(
        "unknown/insufficient_evidence",
        ("node-01", "node"),
        ("node-05", "node"),
        actions=("run_checks",),
        nodes=("node-01", "node-05"),
    )


@scenario("nic-firmware-dies", carried_by=("ExtractKernelLines",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The NIC's firmware reports a fatal error; its port goes down with it."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    pci = "0000:5e:00.0"
    c.kmsg(
        NODE,
        job.at(121),
        f"mlx5_core {pci}: print_health_info:391:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
    )
    c.kmsg(NODE, job.at(121.001), f"mlx5_core {pci}: print_health_info:395:(pid 0): assert_var[0] 0x00000001")
    c.kmsg(
        NODE,
        job.at(121.002),
        f"mlx5_core {pci}: print_health_info:406:(pid 0): synd 0x1: firmware internal error",
    )
    c.kmsg(
        NODE,
        job.at(121.5),
        f"mlx5_core {pci}: poll_health:800:(pid 0): device's health compromised - reached miss count",
    )
    c.port_down(NODE, "mlx5_3", job.at(122), 60.0)
    job.status12(job.at(130), "node-02", NODE, 3)
    job.torn_down(job.at(132), by=NODE, local=3).fails(job.at(136), 134)
    return expected(
        "hardware/network_hca", (NODE, f"pci/{pci}", ("port/mlx5_3/1",)), actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("no-rank-finds-its-interface", carried_by=("StartupFabricConfig",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """NCCL_SOCKET_IFNAME fits no interface of any node: all ranks fail before the first step."""
    job = c.job().starts_up(chatty=False)
    for r, (node, local) in job.rank_nodes.items():
        head = f"{node}:{400 + r}:{600 + r} [{local}] misc/socket.cc:489 NCCL WARN"
        job.say(job.at(9 + r * 0.01), node, f"{head} Bootstrap : no socket interface found", r)
    job.torn_down(job.at(12), by="node-01", how="Exited with exit code 1").fails(job.at(15))
    return expected("network/fabric_config", (None, "fabric"))


@scenario("one-node-finds-no-interface")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Only the ranks of one node find no interface: that node is to be looked at, not the configuration."""
    job = c.job().starts_up(chatty=False)
    for local in range(8):
        head = f"node-04:{400 + local}:{600 + local} [{local}] misc/socket.cc:489 NCCL WARN"
        job.say(job.at(9 + local * 0.01), "node-04", f"{head} Bootstrap : no socket interface found",
                job.rank("node-04", local))  # fmt: skip
    job.torn_down(job.at(12), by="node-04", how="Exited with exit code 1").fails(job.at(15))
    return expected("unknown/insufficient_evidence", ("node-04", "node"), actions=CHECKS, nodes=("node-04",))


@scenario("queue-pairs-never-come-up", carried_by=("StartupFabricConfig",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Before the first step, on many nodes: INIT to RTR times out."""
    job = c.job(version="2.21.5").starts_up()
    for i, node in enumerate(c.nodes[:6]):
        r = job.rank(node, 0)
        job.say(
            job.at(30 + i * 0.1),
            node,
            f"{node}:4000:4001 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID fe80::1, remote GID fe80::2",
            r,
        )
        job.say(
            job.at(30.2 + i * 0.1),
            node,
            f"[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled system error",
            r,
        )
    job.torn_down(job.at(35)).fails(job.at(40), 1)
    return expected("network/fabric_config", (None, "fabric"))


@scenario("one-node-can-not-connect")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Only one node fails to bring its queue pairs up: not the fabric's configuration."""
    job = c.job(version="2.21.5").starts_up()
    r = job.rank(NODE, 0)
    job.say(
        job.at(30),
        NODE,
        f"{NODE}:4000:4001 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR",
        r,
    )
    job.torn_down(job.at(35), by=NODE, how="Exited with exit code 1").fails(job.at(40), 1)
    return expected("unknown/insufficient_evidence", (NODE, None), actions=("run_checks",), nodes=(NODE,))


@scenario("uncertain-band-survived")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """8 s under a budget of 7.5 to 8.6 s: this time it was survived, and the job completes."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    c.port_down(NODE, "mlx5_3", job.at(121), 8.0)
    job.steps(250, first=131, number=20)
    job.ends("COMPLETED", job.at(260), exit_code=0)
    return expected(
        "none/completed", state="COMPLETED", actions=("interrupt_and_restart", "cordon"), nodes=(NODE,)
    )


@scenario("flaps-in-one-retry", carried_by=("ExtractOutages",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Three outages of 3 s with gaps in which no retry falls: together more than NCCL 2.21 keeps trying."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    for since in (121.0, 124.3, 127.6):
        c.port_down(NODE, "mlx5_3", job.at(since), 3.0)
    job.status12(job.at(129.2), "node-02", NODE, 3)
    job.status12(job.at(129.5), NODE, "node-02", 3)
    job.torn_down(job.at(131), by="node-02", local=3).fails(job.at(135), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("flap-and-an-unknown-death", carried_by=("PortOutageBudget",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A flap far below the budget on the very node that everybody loses a moment later: no cause yet."""
    job = c.job(version="2.27.3").starts_up().steps(120)
    c.port_down(NODE, "mlx5_3", job.at(121), 1.5)
    for i, node in enumerate(("node-01", "node-03", "node-04")):
        job.closed(job.at(126 + i), node, NODE, 3)
    job.torn_down(job.at(130)).fails(job.at(134), 134)
    return expected("unknown/insufficient_evidence", (NODE, "node"), actions=("run_checks",), nodes=(NODE,))


def nic_fatal(c: CaptureBuilder, at: float, bdf: str, recovery: str = "failed") -> None:
    """A fatal PCIe error of a NIC, as the kernel tells it."""
    c.kmsg(NODE, at, f"pcieport 0000:5d:01.0: AER: Uncorrectable (Fatal) error received: {bdf}")
    c.kmsg(
        NODE,
        at + 0.0001,
        f"mlx5_core {bdf}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)",
    )
    c.kmsg(NODE, at + 0.0002, f"mlx5_core {bdf}:   device [15b3:1021] error status/mask=00000010/00000000")
    c.kmsg(NODE, at + 0.0003, f"mlx5_core {bdf}:    [ 4] DLP                    (First)")
    c.kmsg(NODE, at + 0.3, f"mlx5_core {bdf}: AER: device recovery {recovery}")


@scenario("pcie-takes-the-nic-and-its-port", carried_by=("ExtractAer",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A fatal PCIe error cuts a NIC off: its port goes down with it, and one device is to blame."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    nic_fatal(c, job.at(121), "0000:5e:00.0")
    c.port_down(NODE, "mlx5_3", job.at(121.8), None)
    job.status12(job.at(129.5), "node-02", NODE, 3)
    job.torn_down(job.at(132), by=NODE, local=3).fails(job.at(136), 134)
    return expected(
        "hardware/pcie",
        (NODE, "pci/0000:5e:00.0", ("port/mlx5_3/1",)),
        actions=NODE_NO_RESET,
        nodes=(NODE,),
    )


@scenario("pcie-of-one-nic-port-of-another")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A fatal PCIe error of one NIC within the clock error of the outage of another: two devices, two faults."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    nic_fatal(c, job.at(121), "0000:9a:00.0")
    c.port_down(NODE, "mlx5_3", job.at(121.8), None)
    job.status12(job.at(129.5), "node-02", NODE, 3)
    job.torn_down(job.at(132), by=NODE, local=3).fails(job.at(136), 134)
    return expected(
        "hardware/ambiguous",
        (NODE, "pci/0000:9a:00.0"),
        port(NODE, "mlx5_3"),
        actions=NODE_NO_RESET,
        nodes=(NODE,),
    )


def unplugged(c: CaptureBuilder, at: float, seconds: float | None) -> None:
    c.kmsg(NODE, at, "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged")
    c.port_down(NODE, "mlx5_3", at + 0.2, seconds)


@scenario("cable-unplugged")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Somebody pulls a cable: the port's outage, and no fault of the adapter."""
    job = c.job(version="2.21.5").starts_up().steps(120)
    unplugged(c, job.at(121), None)
    job.status12(job.at(129), "node-02", NODE, 3)
    job.torn_down(job.at(132), by="node-02", local=3).fails(job.at(136), 134)
    return expected("hardware/network_hca_port", port(NODE, "mlx5_3"), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("cable-moved-and-an-unknown-death")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A cable is out for less than the budget on the node that everybody loses: that has not killed it."""
    job = c.job(version="2.27.3").starts_up().steps(120)
    unplugged(c, job.at(121), 1.5)
    for i, node in enumerate(("node-01", "node-03", "node-04")):
        job.closed(job.at(126 + i), node, NODE, 3)
    job.torn_down(job.at(130)).fails(job.at(134), 134)
    return expected("unknown/insufficient_evidence", (NODE, "node"), actions=("run_checks",), nodes=(NODE,))
