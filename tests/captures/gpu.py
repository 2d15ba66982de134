# ruff: noqa: E501 - log lines are quoted whole
"""Scenarios: GPUs, their memory, links and PCIe."""

from __future__ import annotations

from typing import Any

from tests.captures.builder import USER, CaptureBuilder, expected
from tests.captures.catalogue import NODE_ALL, NODE_NO_RESET, scenario

SI4 = "NETIR_LINK_EVT Fatal   XC0 i0 Link 08 (0x004105c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
NODE = "node-05"


def link_down(subcode: int, link: int = 8) -> str:
    word = subcode << 20 | link << 13 | 0x1C6
    return f"NETIR_LINK_EVT Fatal   XC0 i0 Link {link:02d} (0x{word:08x} 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"


def gpu(c: CaptureBuilder, node: str, index: int) -> tuple[str, str, tuple[str, ...]]:
    uuid = c.gpu(node, index)
    return (node, f"gpu/{uuid}", (f"gpu/{index}", f"nvlink/{uuid}/8"))


def dies(
    c: CaptureBuilder,
    t: float,
    *,
    node: str = NODE,
    local: int = 2,
    blamed: bool = True,
    version: str = "2.21.5",
) -> Any:
    """A rank of `node` ends, others see it close."""
    job = c.job(version=version).starts_up().steps(t - 1)
    if blamed:
        for i, other in enumerate(("node-01", "node-03", "node-06")):
            job.closed(job.at(t + 3 + i), other, node, local)
    job.torn_down(job.at(t + 8), by=node, local=local)
    job.fails(job.at(t + 12), 134)
    return job


@scenario("xid48-double-bit", carried_by=("ExtractXid",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A double-bit error with the codes that follow it, and the CUDA error of the rank."""
    job = dies(c, 120)
    t = job.at(121)
    c.xid(
        NODE,
        2,
        t,
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, subpartition 1.",
        pid=41283,
    )
    c.xid(
        NODE,
        2,
        t + 0.1,
        63,
        "Row Remapper: New row (0x0000000e9b9107e0) marked for remapping, reset gpu to activate.",
    )
    c.xid(NODE, 2, t + 0.2, 45, "Ch 00000020, engmask 00000101", pid=41283)
    c.xid(NODE, 2, t + 0.3, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    job.raises(t + 0.5, NODE, 2, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
    return expected("hardware/accelerator_memory", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid94-contained-kills-its-rank", carried_by=("ExtractXid",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A contained error ends the process that read the bad data, and the job with it."""
    job = dies(c, 120)
    c.xid(NODE, 2, job.at(121), 94, "Contained: SM (0x9). RST: No, D-RST: No", pid=41283)
    return expected("hardware/accelerator_memory", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid140-no-workload-log", carried_by=("ExtractXid",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Only the kernel speaks: an ECC escape, then the job's end; no line of the workload at all."""
    job = c.job()
    c.xid(
        NODE,
        4,
        job.at(121),
        140,
        "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0, MMU:0, PCIE:0",
    )
    job.fails(job.at(140), 1)
    return expected("hardware/accelerator_memory", gpu(c, NODE, 4), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid79-after-pcie-fatal", carried_by=("ExtractAer",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A fatal PCIe error cuts the GPU off; the driver notices and says XID 79."""
    job = dies(c, 120)
    t = job.at(121)
    bdf = "0000:52:00.0"
    c.kmsg(NODE, t, f"pcieport 0000:51:01.0: AER: Uncorrectable (Fatal) error received: {bdf}")
    c.kmsg(
        NODE,
        t + 0.0001,
        f"nvidia {bdf}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
    )
    c.kmsg(NODE, t + 0.0002, f"nvidia {bdf}:   device [10de:2330] error status/mask=00040000/00000000")
    c.kmsg(NODE, t + 0.0003, f"nvidia {bdf}:    [18] MalfTLP                (First)")
    c.xid(NODE, 2, t + 0.4, 79, "GPU has fallen off the bus.")
    uuid = c.gpu(NODE, 2)
    return expected(
        "hardware/pcie", (NODE, f"gpu/{uuid}", (f"pci/{bdf}",)), actions=NODE_NO_RESET, nodes=(NODE,)
    )


@scenario("xid79-correctable-noise-before", carried_by=("ExtractXid",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Correctable PCIe errors are everywhere; the lost GPU is the cause, not they."""
    job = dies(c, 120)
    bdf = "0000:52:00.0"
    for t in (100.0, 119.0):
        c.kmsg(NODE, job.at(t), f"pcieport 0000:51:01.0: AER: Corrected error received: {bdf}")
        c.kmsg(
            NODE,
            job.at(t) + 0.0001,
            f"nvidia {bdf}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        )
        c.kmsg(
            NODE,
            job.at(t) + 0.0002,
            f"nvidia {bdf}:   device [10de:2330] error status/mask=00000001/0000a000",
        )
        c.kmsg(NODE, job.at(t) + 0.0003, f"nvidia {bdf}:    [ 0] RxErr                  (First)")
    c.xid(NODE, 2, job.at(121), 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    c.kmsg(NODE, job.at(121) + 0.0002, "NVRM: GPU 0000:52:00.0: GPU has fallen off the bus.")
    return expected("hardware/accelerator_gpu", gpu(c, NODE, 2), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("xid79-takes-its-links-along", carried_by=("Xid149AndNvlinkFiltering",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A lost GPU makes its neighbours report NVLink errors: it stays one fault."""
    job = dies(c, 120)
    c.xid(NODE, 2, job.at(121), 79, "GPU has fallen off the bus.")
    for other in (0, 1, 3, 4):
        c.xid(
            NODE,
            other,
            job.at(121.4 + other / 10),
            74,
            "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        )
    return expected("hardware/accelerator_gpu", gpu(c, NODE, 2), actions=NODE_NO_RESET, nodes=(NODE,))


@scenario("xid119-gsp-timeout", carried_by=("ExtractXid",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The driver says it 45 s late: GSP hung, steps stopped, the watchdog of the others fired first."""
    job = c.job(group_timeout_s=40.0).starts_up().steps(120)
    c.xid(
        NODE,
        2,
        job.at(167),
        119,
        "Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080012b 0x4).",
        pid=41283,
    )
    for node in ("node-01", "node-03", "node-06"):
        job.watchdog(job.at(163), node)
    job.torn_down(job.at(170)).fails(job.at(175), 134)
    return expected("hardware/accelerator_gpu", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid120-gsp-crash")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """GSP firmware crashed."""
    job = dies(c, 120)
    c.xid(
        NODE,
        2,
        job.at(121),
        120,
        "GSP task exception: load access fault (cause:0x5) @ pc:0x1a8bf8c, partition:4#0, task:3",
    )
    return expected("hardware/accelerator_gpu", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid74-hopper-link")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """An NVLink of a Hopper GPU fails; nothing on the network says a word, the watchdog does."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    c.xid(
        NODE,
        2,
        job.at(121),
        74,
        "NVLink: fatal error detected on link 3(0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    )
    c.xid(NODE, 2, job.at(121.5), 45, "Ch 00000020, engmask 00000101", pid=41283)
    for node in ("node-01", "node-03", "node-06"):
        job.watchdog(job.at(182), node)
    job.torn_down(job.at(184)).fails(job.at(186), 134)
    return expected("hardware/accelerator_fabric", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("xid149-blames-the-peer", carried_by=("NvlinkPeerRedirect",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Sub-code 37: the other end of the link is the source; the inventory knows who that is."""
    job = dies(c, 120, node="node-02", local=1, version="2.26.2")
    c.peers = {"node-02": {"1/8": "node-04/3"}}
    c.xid("node-02", 1, job.at(121), 149, link_down(37))
    return expected("hardware/accelerator_fabric", gpu(c, "node-04", 3), actions=NODE_ALL, nodes=("node-04",))


@scenario("xid149-blames-an-unknown-peer", carried_by=("NvlinkPeerRedirect",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Sub-code 37, and nobody knows who hangs on the other end: nothing firm can be said."""
    job = dies(c, 120, node="node-02", local=1, version="2.26.2")
    c.xid("node-02", 1, job.at(121), 149, link_down(37))
    return expected(
        "unknown/insufficient_evidence", ("node-02", None), actions=("run_checks",), nodes=("node-02",)
    )


@scenario("xid149-taken-down-by-software")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Sub-code 15: software took the link down. That is no hardware fault, and who did it is unknown."""
    job = dies(c, 120, node="node-02", local=1, version="2.26.2")
    c.xid("node-02", 1, job.at(121), 149, link_down(15))
    return expected(
        "unknown/insufficient_evidence", ("node-02", None), actions=("run_checks",), nodes=("node-02",)
    )


@scenario("xid149-follows-others-but-is-alone", carried_by=("LoneSympathy",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A link that "went down with others", where no other did: the GPU is reported alone."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    c.xid("node-02", 1, job.at(121), 149, link_down(0))
    for node in ("node-01", "node-03"):
        job.watchdog(job.at(182), node)
    job.torn_down(job.at(184)).fails(job.at(188), 134)
    return expected("hardware/accelerator_fabric", gpu(c, "node-02", 1), actions=NODE_ALL, nodes=("node-02",))


@scenario("xid149-bit-errors-only")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A bit-error event is a trend, and the job completes."""
    job = c.job(version="2.26.2").starts_up().steps(180)
    c.xid(
        "node-02",
        1,
        job.at(121),
        149,
        "NETIR_BER_EVENT Nonfatal XC0 i0 Link 08 (0x00010226 0x00000001 0x00000000 0x00000000 0x00000000 0x00000000)",
    )
    job.ends("COMPLETED", job.at(190), exit_code=0)
    return expected("none/completed", state="COMPLETED")


@scenario("nvswitch-fatal", carried_by=("ExtractSxid", "Xid149AndNvlinkFiltering"))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A fatal NVSwitch error takes NVLink from four GPUs of its node."""
    job = c.job(group_timeout_s=60.0).starts_up().steps(120)
    t = job.at(121)
    c.kmsg(
        NODE,
        t,
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 23001, Fatal, Link 33 xbar ingress parity error (First)",
    )
    c.kmsg(
        NODE,
        t + 0.0001,
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 23001, Severity 1 Engine instance 33 Sub-engine instance 00",
    )
    for i in (0, 1, 2, 3):
        c.xid(
            NODE,
            i,
            t + 0.3 + i / 10,
            74,
            "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        )
    for node in ("node-01", "node-03", "node-06"):
        job.watchdog(job.at(182), node)
    job.torn_down(job.at(184)).fails(job.at(186), 134)
    return expected(
        "hardware/accelerator_fabric",
        (NODE, "nvswitch/1", ("nvswitch/0000:86:00.0",)),
        actions=NODE_ALL,
        nodes=(NODE,),
    )


@scenario("nvswitch-non-fatal")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A non-fatal NVSwitch error hours of steps before somebody's KeyError is not the cause."""
    job = c.job().starts_up().steps(150)
    c.kmsg(
        NODE,
        job.at(100),
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20009, Non-fatal, Link 33 RX Short Error Rate",
    )
    job.raises(job.at(152), "node-01", 2, "KeyError: 'position_ids'")
    job.closed(job.at(153), "node-03", "node-01", 2)
    job.child_failed(job.at(154), "node-01", 2, 1).torn_down(
        job.at(155), by="node-01", how="Exited with exit code 1", local=2
    )
    job.fails(job.at(160))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("pcie-containment-of-a-gpu", carried_by=("ExtractAer",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """DPC on the port above a GPU cuts it off."""
    job = dies(c, 120)
    t = job.at(121)
    bdf = "0000:52:00.0"
    c.kmsg(NODE, t, "pcieport 0000:51:01.0: DPC: containment event, status:0x1f01 source:0x0000")
    c.kmsg(NODE, t + 0.0001, "pcieport 0000:51:01.0: DPC: unmasked uncorrectable error detected")
    c.kmsg(
        NODE,
        t + 0.0002,
        f"nvidia {bdf}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)",
    )
    c.xid(NODE, 2, t + 0.4, 79, "GPU has fallen off the bus.")
    uuid = c.gpu(NODE, 2)
    return expected(
        "hardware/pcie",
        (NODE, f"gpu/{uuid}", (f"pci/{bdf}", "pci/0000:51:01.0")),
        actions=NODE_NO_RESET,
        nodes=(NODE,),
    )


@scenario("spoofed-xid79", carried_by=("SpoofedEvidence",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Somebody echoes an XID into /dev/kmsg just before a rank raises: user space proves nothing."""
    job = c.job().starts_up().steps(150)
    c.xid(NODE, 2, job.at(151), 79, "GPU has fallen off the bus.", pid=4242, prefix=USER)
    job.raises(job.at(152), "node-01", 2, "AssertionError: batch of rank 2 is empty")
    job.closed(job.at(153), "node-03", "node-01", 2)
    job.child_failed(job.at(154), "node-01", 2, 1).torn_down(
        job.at(155), by="node-01", how="Exited with exit code 1", local=2
    )
    job.fails(job.at(160))
    return expected("workload/code_exception", ("node-01", "rank/2"))


@scenario("spoofed-xid79-and-nothing-else", carried_by=("SpoofedEvidence",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The spoofed line is all there is: no verdict, only a suspect whom others name."""
    job = dies(c, 120)
    c.xid(NODE, 2, job.at(121), 79, "GPU has fallen off the bus.", pid=4242, prefix=USER)
    return expected("unknown/insufficient_evidence", (NODE, "node"), actions=("run_checks",), nodes=(NODE,))


@scenario("xid79-on-another-jobs-gpu")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Two jobs share the nodes; GPU 6 belongs to the second one, which alone is hit."""
    one = c.job("7001", gpus=[0, 1, 2, 3]).starts_up().steps(200)
    two = c.job("7002", gpus=[4, 5, 6, 7], start=22.0).starts_up().steps(118)
    c.xid(NODE, 6, two.at(120), 79, "GPU has fallen off the bus.")
    two.closed(two.at(123), "node-01", NODE, 4).torn_down(two.at(125), by=NODE, local=6).fails(
        two.at(130), 134
    )
    one.ends("COMPLETED", one.at(210), exit_code=0)
    label = expected(
        "hardware/accelerator_gpu", gpu(c, NODE, 6), job_id="7002", actions=NODE_NO_RESET, nodes=(NODE,)
    )
    label["also"] = [expected("none/completed", state="COMPLETED")]
    return label


@scenario("stale-xid95-same-node", carried_by=("StaleEvidence",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """An XID of before the attempt, mended by a reset, on the very node where a rank raises later."""
    c.xid(
        "node-01",
        2,
        2.0,
        95,
        "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
        pid=999,
        process="eval_harness",
    )
    c.xid("node-01", 2, 2.5, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    c.xid("node-01", 2, 10.0, 154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
    job = c.job(start=900.0).starts_up()
    job.raises(job.at(102), "node-01", 2, "ValueError: learning-rate schedule has no phase for step 37")
    job.closed(job.at(103), "node-03", "node-01", 2)
    job.child_failed(job.at(104), "node-01", 2, 1).torn_down(
        job.at(105), by="node-01", how="Exited with exit code 1", local=2
    )
    job.fails(job.at(110))
    return expected(
        "workload/code_exception",
        ("node-01", "rank/2"),
        actions=("cordon", "drain", "reset_gpu", "run_checks"),
        nodes=("node-01",),
    )


@scenario("xid31-of-a-program", carried_by=("Gb200PriorityRootCause",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """One rank reads where it must not: illegal access, XID 31 and 43."""
    job = c.job().starts_up().steps(150)
    rank = job.rank(NODE, 2)
    c.xid(
        NODE,
        2,
        job.at(151.9),
        31,
        "Ch 00000023, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC6 GPCCLIENT_T1_13 faulted @ 0x6f6f_320c2000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        pid=41283,
    )
    c.xid(NODE, 2, job.at(151.95), 43, "Ch 00000020, engmask 00000101", pid=41283)
    job.raises(
        job.at(152), NODE, 2, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )
    job.closed(job.at(153), "node-03", NODE, 2)
    job.child_failed(job.at(154), NODE, 2, -6).torn_down(job.at(155), by=NODE, local=2)
    job.fails(job.at(160), 134)
    return expected("workload/gpu_code_fault", (NODE, f"rank/{rank}", (f"gpu/{c.gpu(NODE, 2)}",)))


@scenario("xid31-on-every-gpu", carried_by=("SameError",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Every GPU reports the program's fault at once; the log of one node has whole seconds and seems earlier."""
    job = c.job().starts_up().steps(100)
    for node, local in job.rank_nodes.values():
        at = 102.0 if node == "node-03" else 102.5 + local * 0.01
        fault = (
            "Ch 00000023, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_4 faulted @ 0x7f4d_10000000"
        )
        c.xid(node, local, job.at(at), 31, fault, pid=41269 + local)
    what = "RuntimeError: CUDA error: an illegal memory access was encountered"
    for node, local in job.rank_nodes.values():
        job.raises(job.at(102.8 + local * 0.01), node, local, what)
    job.torn_down(job.at(106), by="node-01", how="Exited with exit code 1").fails(job.at(110))
    return expected("workload/gpu_code_fault")


@scenario("xid31-kernel-only")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The same without a word of the workload: the GPU's rank is known from the record."""
    job = c.job()
    rank = job.rank(NODE, 2)
    c.xid(
        NODE,
        2,
        job.at(151.9),
        31,
        "Ch 00000023, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC6 GPCCLIENT_T1_13 faulted @ 0x6f6f_320c2000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        pid=41283,
    )
    job.fails(job.at(160), 134)
    return expected("workload/gpu_code_fault", (NODE, f"rank/{rank}", (f"gpu/{c.gpu(NODE, 2)}",)))


@scenario("illegal-access-and-xid95", carried_by=("Xid149AndNvlinkFiltering",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """The same words of CUDA, but the kernel says uncontained memory error: hardware."""
    job = dies(c, 120)
    c.xid(NODE, 2, job.at(121), 95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No")
    job.raises(
        job.at(121.3), NODE, 2, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )
    return expected("hardware/accelerator_memory", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))


@scenario("launch-failure-without-xid", carried_by=("AmbiguousGpuError",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """ "unspecified launch failure", a clean kernel log: the program or the GPU, nobody can tell."""
    job = c.job().starts_up().steps(150)
    job.raises(job.at(152), NODE, 2, "torch.AcceleratorError: CUDA error: unspecified launch failure")
    job.closed(job.at(153), "node-03", NODE, 2)
    job.child_failed(job.at(154), NODE, 2, -6).torn_down(job.at(155), by=NODE, local=2)
    job.fails(job.at(160), 134)
    rank = job.rank(NODE, 2)
    return expected("unknown/ambiguous", (NODE, f"rank/{rank}", (f"gpu/{c.gpu(NODE, 2)}", "node")),
                    actions=("run_checks",), nodes=(NODE,))  # fmt: skip


@scenario("ecc-words-without-kernel-log", carried_by=("CoverageGap",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """CUDA says illegal access, and the kernel log that could say otherwise was never read."""
    job = c.job().starts_up().steps(150)
    c.failed[NODE] = {"kmsg": "open /dev/kmsg: permission denied"}
    c.no_kernel_log.add(NODE)
    job.raises(
        job.at(152), NODE, 2, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )
    job.closed(job.at(153), "node-03", NODE, 2)
    job.child_failed(job.at(154), NODE, 2, -6).torn_down(job.at(155), by=NODE, local=2)
    job.fails(job.at(160), 134)
    return expected("unknown/insufficient_evidence", (NODE, None), actions=("run_checks",), nodes=(NODE,))


@scenario("xid63-and-a-completed-job")
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A remapped row is bookkeeping; the job completes."""
    job = c.job().starts_up().steps(180)
    c.xid(
        NODE,
        2,
        job.at(121),
        63,
        "Row Remapper: New row (0x0000000e9b9107e0) marked for remapping, reset gpu to activate.",
    )
    job.ends("COMPLETED", job.at(190), exit_code=0)
    return expected("none/completed", state="COMPLETED")


@scenario("xid74-survived-then-assertion", carried_by=("SurvivedEvidence",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """A link error after which a dozen steps complete has not ended the job; a rank's assertion has."""
    job = c.job().starts_up().steps(180)
    c.xid(
        "node-01",
        2,
        job.at(110),
        74,
        "NVLink: fatal error detected on link 3(0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    )
    job.raises(job.at(182), "node-01", 2, "AssertionError: batch of rank 2 is empty")
    job.closed(job.at(183), "node-03", "node-01", 2)
    job.child_failed(job.at(184), "node-01", 2, 1).torn_down(
        job.at(185), by="node-01", how="Exited with exit code 1", local=2
    )
    job.fails(job.at(190))
    return expected(
        "workload/code_exception",
        ("node-01", "rank/2"),
        actions=("cordon", "drain", "reset_gpu", "run_checks"),
        nodes=("node-01",),
    )


@scenario("xid74-storm-ends-in-xid79", carried_by=("HandleXidBurstEvents",))
def _(c: CaptureBuilder) -> dict[str, Any]:
    """Link errors every eight seconds for most of a minute, then the GPU is gone: it was going all along."""
    job = dies(c, 165)
    job.lines = [line for line in job.lines if "step=" not in line[3] or line[0] < job.at(120)]
    for i in range(6):
        c.xid(
            NODE,
            2,
            job.at(122 + 8 * i),
            74,
            "NVLink: fatal error detected on link 3(0x200000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        )
    c.xid(NODE, 2, job.at(166), 79, "GPU has fallen off the bus.")
    return expected("hardware/accelerator_gpu", gpu(c, NODE, 2), actions=NODE_ALL, nodes=(NODE,))
