"""What a kernel log costs: lines a second on one core, in CPU time of this process.

Run: `python -m bench.parsers [--json]`. The records are mixed noise of a healthy node; one line in a hundred
is a finding. Compared in the same run: a bare loop over the same lines, and one regular expression with
all that the handlers look for, which is the obvious way to write the pre-filter.
"""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import process_time

from collectors.inventory import GpuDevice, Inventory, PortDevice
from collectors.parsers import kernel, mlx5
from collectors.parsers.formats import read_kernel_log
from collectors.parsers.kernel_log import KernelLogParser
from collectors.parsers.records import KernelRecord

LINES = 20_000
START = 1_775_000_000_000_000_000
NODE = Inventory(
    gpus=(GpuDevice(1, "GPU-dc67f61a-dc29-d7cb-0992-0bde2df329c6", "0000:43:00.0"),),
    ports=(PortDevice("mlx5_5", 1, "ib5", "0000:c0:00.0"),),
)
NOISE = (
    "mlx5_core 0000:18:00.0: firmware version: 28.41.1000",
    "mlx5_core 0000:18:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
    "mlx5_core 0000:4f:00.0: mlx5_cmd_out_err:816:(pid 4877): ACCESS_REG(0x805) op_mod(0x1) failed, status bad "
    "resource(0x5), syndrome (0x305684), err(-22)",
    'audit: type=1400 audit(1773454200.113:356): apparmor="ALLOWED" operation="open" profile="telemetry-agent"',
    "docker0: port 1(veth70e6747) entered forwarding state",
    "EXT4-fs (nvme1n1p1): re-mounted 0fd1beef-9d84-44d8-0bfd-59577e460679 r/w. Quota mode: none.",
    "igb 0000:02:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29400. Sending cookies.",
    "EDAC MC2: 1 CE memory scrubbing error on CPU_SrcID#0_Ha#0_Chan#2_DIMM#0 (channel:3 slot:0)",
    "systemd[1]: Started nvidia-persistenced.service - NVIDIA Persistence Daemon.",
    "perf: interrupt took too long (2884 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "nvidia-uvm: Loaded the UVM driver, major device number 507.",
    "eth0: renamed from veth2a7c1f9",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth70e6747: link becomes ready",
    "usb 1-1.4: new high-speed USB device number 7 using xhci_hcd",
    "overlayfs: fs on '/var/lib/docker/overlay2/l/ABCD' does not support file handles, falling back to xino=off.",
)
FINDINGS = (
    "NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT Fatal   XC0 i0 Link 08 (0x004105c6 0x00000000 0x00000000)",
    "NVRM: Xid (PCI:0000:43:00): 31, pid=52386, name=python3, Ch 00000023, intr 10000000. MMU Fault: ENGINE CE0 "
    "HUBCLIENT_CE0 faulted @ 0x7fd1_a2000000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_WRITE",
    "mlx5_core 0000:c0:00.0: mlx5_5: Port: 1 Link DOWN",
    "mlx5_core 0000:c0:00.0: mlx5_5: Port: 1 Link ACTIVE",
    "nfs: server nas-01.cluster not responding, still trying",
)


def texts(findings: bool) -> list[str]:
    mixed = list(NOISE) * (LINES // len(NOISE) + 1)
    if findings:
        mixed[50::100] = [FINDINGS[n % len(FINDINGS)] for n in range(len(mixed[50::100]))]
    return mixed[:LINES]


def records(lines: Sequence[str]) -> list[KernelRecord]:
    return [
        KernelRecord(START + number * 10_000_000, number, "boot", line, "kernel", 6)
        for number, line in enumerate(lines)
    ]


def clock(number: int) -> str:
    """Twenty lines a second."""
    second = number // 20
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


PRINTERS: dict[str, Callable[[int, str], str]] = {
    "kmsg": lambda n, text: f"6,{n},{n * 50_000},-;{text}",
    "dmesg": lambda n, text: f"[{n / 20:12.6f}] {text}",
    "dmesg -T": lambda n, text: f"[Sun Mar 15 {clock(n)} 2026] {text}",
    "dmesg iso": lambda n, text: f"2026-03-15T{clock(n)},285060+00:00 {text}",
    "journal iso": lambda n, text: f"2026-03-15T{clock(n)}.285060+0000 n1 kernel: {text}",
    "journal json": lambda n, text: json.dumps(
        {
            "__REALTIME_TIMESTAMP": str(1_773_453_600_000_000 + n * 50_000),
            "_TRANSPORT": "kernel",
            "PRIORITY": "6",
            "SYSLOG_FACILITY": "0",
            "MESSAGE": text,
        }
    ),
    "syslog": lambda n, text: f"Mar 15 {clock(n)} n1 kernel: {text}",
}


def rate_of(run: Callable[[], object], lines: int = LINES, best_of: int = 15) -> float:
    """Lines a second: the best of several short passes, since others use this machine too."""
    best = float("inf")
    for _ in range(best_of):
        begun = process_time()
        run()
        best = min(best, process_time() - begun)
    return lines / best


def feed(taken: Iterable[KernelRecord]) -> int:
    reading = KernelLogParser("c1", "node-02", NODE)
    return sum(len(reading.feed(one)) for one in taken)


def bare(taken: Iterable[KernelRecord]) -> int:
    return sum(1 for one in taken if one.text)


def one_expression() -> re.Pattern[str]:
    parts = [shape.pattern.pattern for shape in (*kernel.shapes(), *mlx5.shapes())]
    parts = [re.sub(r"\(\?P<\w+>", "(?:", part) for part in parts]
    return re.compile(
        "|".join([*parts, "NVRM: ", r"SXid \(", "AER: ", "Link (?:up|down|DOWN|ACTIVE)", "carrier"])
    )


def measure(best_of: int) -> dict[str, float]:
    rate = partial(rate_of, best_of=best_of)
    noise, mixed = records(texts(findings=False)), records(texts(findings=True))
    expression = one_expression()
    found: dict[str, float] = {
        "records, noise only": rate(lambda: feed(noise)),
        "records, one finding in a hundred": rate(lambda: feed(mixed)),
    }
    for name, printer in PRINTERS.items():
        lines = [printer(number, text) for number, text in enumerate(texts(findings=True))]
        found[f"file, {name}"] = rate(
            lambda lines=lines: feed(read_kernel_log(lines, boot_time=START, reference=START))  # type: ignore[misc]
        )
    found["comparison: bare loop over records"] = rate(lambda: bare(noise))
    found["comparison: one expression as filter"] = rate(
        lambda: sum(1 for one in noise[: LINES // 10] if expression.search(one.text)), LINES // 10
    )
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true")
    options.add_argument("--best-of", type=int, default=15)
    told = options.parse_args()
    found = measure(told.best_of)
    if told.json:
        print(
            json.dumps(
                {"machine": machine(), "lines_per_s": {k: round(v) for k, v in found.items()}}, indent=2
            )
        )
        return
    print(f"{machine()}; {LINES:,} lines, CPU time, best of {told.best_of}")
    for name, value in found.items():
        print(f"  {name:<40} {value:>12,.0f} lines/s {1e6 / value:>8.2f} us a line")


def machine() -> str:
    return f"{platform.machine()}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
