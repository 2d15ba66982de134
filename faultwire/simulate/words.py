# ruff: noqa: E501 - log lines are quoted whole
"""Lines as programs, launchers and kernels print them. Text only; the real parsers read it."""

from __future__ import annotations

from topics.nccl import parse_version


def status_12(host: str, local: int, peer: str, version: str, device: str) -> str:
    """A completion error after all retries, in the words of that NCCL version. `peer` is an address."""
    head = f"{host}:24410:24501 [{local}] transport/net_ib.cc:1568 NCCL WARN"
    minor = (parse_version(version) or (2, 21, 0))[1]
    if minor <= 19:
        return f"{head} NET/IB : Got completion from peer {peer} with error 12, opcode 0, len 0, vendor err 129 (Send)"
    if minor <= 21:
        return f"{head} NET/IB : Got completion from peer {peer} with status=12 opcode=0 len=0 vendor err 129 (Send)"
    if minor <= 28:
        return (
            f"{head} NET/IB: Got completion from peer {peer} with status=12 opcode=0 len=0 "
            f"vendor err 129 (Send) hca {device}"
        )
    return (
        f"{head} NET/IB: Got completion from peer {peer} with status=IBV_WC_RETRY_EXC_ERR(12) "
        f"opcode=IBV_WC_SEND(0) vendor_err=129 hca {device}"
    )


def connection_closed(host: str, local: int, peer: str) -> str:
    return (
        f"{host}:40766:40857 [{local}] misc/socket.cc:881 NCCL WARN socketProgress: "
        f"Connection closed by remote peer {peer}<54317>"
    )


def remote_error(rank: int) -> str:
    return f"[rank{rank}]: ncclRemoteError: remote process exited or there was a network error"


def watchdog(rank: int, timeout_s: float, sequence: int = 1771) -> str:
    ms = round(timeout_s * 1000)
    return (
        f"[rank{rank}]:[E101 00:00:00.000000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, "
        f"Timeout(ms)={ms}) ran for {ms + 26} milliseconds before timing out."
    )


def traceback(rank: int, what: str) -> list[str]:
    """An uncaught exception as PyTorch's hook prints it."""
    return [
        f"[rank{rank}]: {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/opt/train/train.py", line 412, in main',
            "    run(cfg)",
            what,
        )
    ]


def child_failed(local: int, exit_code: int) -> str:
    return (
        "E0101 00:00:00.000000 41229 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        f"(exitcode: {exit_code}) local_rank: {local} (pid: {41269 + local}) of binary: /usr/bin/python3"
    )


def step(number: int, step_s: float) -> str:
    return f"step={number} loss=2.31 grad_norm=0.81 lr=2.90e-04 step_time_s={step_s:.2f} tok_s=1676000"


def bootstrap(host: str, address: str) -> str:
    return f"{host}:4000:4000 [0] NCCL INFO Bootstrap : Using eth0:{address}<0>"


def version(text: str) -> str:
    return f"NCCL version {text}+cuda12.4"


def task_died(node: str, rank: int, how: str) -> str:
    return f"srun: error: {node}: task {rank}: {how}"


STEP_ABORTED = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."


def tasks_terminated(node: str, first: int, last: int) -> str:
    return f"srun: error: {node}: tasks {first}-{last}: Terminated"


def node_failure(node: str) -> str:
    return f"srun: error: Node failure on {node}"


def gpu_named(pci: str, uuid: str) -> str:
    return f"NVRM: GPU at PCI:{pci}: {uuid}"


def xid(pci: str, code: int, body: str) -> str:
    return f"NVRM: Xid (PCI:{pci}): {code}, {body}"


FELL_OFF_THE_BUS = "GPU has fallen off the bus."
UNCONTAINED = "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No"
CONTAINED = "Contained: SM (0x9). RST: No, D-RST: No"
SIGNAL_INTEGRITY = 4
"""Sub-code of an NVLink 5 link-down event: the link's own signal."""


def gsp_timeout(gpu: int) -> str:
    return (
        f"Timeout after 45s of waiting for RPC response from GPU{gpu} GSP! "
        "Expected function 76 (GSP_RM_CONTROL) (0x2080012b 0x4)."
    )


def link_down(link: int, subcode: int) -> str:
    """XID 149 as the driver prints it before branch 575."""
    word = subcode << 20 | link << 13 | 0x1C6
    rest = " ".join(["0x00000000"] * 5)
    return f"NETIR_LINK_EVT Fatal   XC0 i0 Link {link:02d} (0x{word:08x} {rest})"


def nic_health(pci: str) -> list[str]:
    """What mlx5_core says when the firmware of a NIC has died."""
    return [
        f"mlx5_core {pci}: print_health_info:391:(pid 0): Health issue observed, firmware internal error, "
        "severity(3) ERROR:",
        f"mlx5_core {pci}: print_health_info:395:(pid 0): assert_var[0] 0x00000001",
        f"mlx5_core {pci}: print_health_info:406:(pid 0): synd 0x1: firmware internal error",
        f"mlx5_core {pci}: poll_health:800:(pid 0): device's health compromised - reached miss count",
    ]


def server_gone(server: str) -> str:
    return f"nfs: server {server} not responding, still trying"
