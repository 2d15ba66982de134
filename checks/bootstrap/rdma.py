"""RDMA write bandwidth of each NIC, looped back within the host: NIC, its PCIe link and its memory path.

Server and client run on the NIC's own NUMA node, one NIC after another; where perftest can, through GPU
memory (GPUDirect). The floor follows the rate of the port. A device that is missing is no "0 Gb/s": that is
for the topology check, and a port that the manifest has and that is down fails by that name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checks import host, manifest
from checks.context import CannotTestError, Context, NotHereError
from checks.host import RdmaPort
from checks.model import Declaration, Limit, Metric, Need, Outcome, Parameter, listed
from checks.parsers import perftest
from checks.parsers.errors import UnreadableError
from checks.platforms import Platform, unknown
from checks.process import Ran
from checks.settings import CheckSettings

LISTEN_WITHIN_S = 20.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Looped:
    """One port: Gb/s, or why there are none."""

    port: RdmaPort
    gbit_s: float | None = None
    problem: str | None = None
    through_gpu: bool = False


class Rdma:
    """Loopback bandwidth of each RDMA NIC."""

    declaration = Declaration(
        name="rdma",
        layer="bootstrap",
        about="RDMA write bandwidth of each NIC, looped back within the host",
        needs=frozenset({Need.NETWORK, Need.EXCLUSIVE}),
        cost_s=60.0,
        limit_s=300.0,
        parameters=(
            Parameter("seconds", 5.0, "s", "for each port"),
            Parameter("size", 8388608.0, "B", "of one message"),
            Parameter("gpu_memory", "auto", "", "auto, never: through GPU memory where perftest can"),
            Parameter("gid_index", "", "", "for RoCE, where the first does not suit"),
        ),
        metrics=("gbit_s.<device>/<port>",),
    )

    async def prepare(self, ctx: Context) -> None:
        del ctx

    async def run(self, ctx: Context) -> Outcome:
        ports = host.rdma_ports(ctx.settings.sysfs_root)
        expected = manifest.expected_ports(ctx.settings.manifest)
        active = [p for p in ports if p.state == "ACTIVE"]
        down = [p for p in ports if p.state != "ACTIVE" and p.name in expected]
        if not active and not down:
            raise NotHereError("no RDMA port is active")
        gpus = await self._gpus(ctx)
        looped, transcripts = [], []
        for port in active:
            result, transcript = await self._loop(ctx, port, gpus)
            looped.append(result)
            transcripts.append(transcript)
        platform = await self._platform(ctx)
        outcome = judge(looped, [p.name for p in down], platform)
        return Outcome(
            outcome.verdict, outcome.message, outcome.metrics, outcome.limits, "\n".join(transcripts)
        )

    def commands(self, settings: CheckSettings) -> list[str]:
        tool = " ".join(settings.tool("ib_write_bw"))
        return [f"{tool} -d <device> -i <port> -s <size> -D <seconds> -F --report_gbits, and once more to it"]

    async def _gpus(self, ctx: Context) -> Mapping[str, int]:
        """GPU index by address; nothing where GPU memory is not wanted or perftest knows none."""
        if ctx.text("gpu_memory") == "never":
            return {}
        try:
            report = await ctx.gpus()
        except (NotHereError, CannotTestError):
            return {}
        told = await ctx.tool("ib_write_bw", "--help", limit_s=10.0)
        knows = "use_cuda" in told.output + told.errors
        return {gpu.bdf: gpu.index for gpu in report.gpus} if knows else {}

    async def _platform(self, ctx: Context) -> Platform:
        try:
            return await ctx.platform()
        except (NotHereError, CannotTestError):
            return unknown()

    async def _loop(self, ctx: Context, port: RdmaPort, gpus: Mapping[str, int]) -> tuple[Looped, str]:
        gpu = nearest(port, gpus, host.pci_devices(ctx.settings.sysfs_root)) if gpus else None
        if gpu is not None:
            result, transcript = await self._once(ctx, port, (f"--use_cuda={gpu}",))
            if result.problem is None:
                return Looped(port, result.gbit_s, through_gpu=True), transcript
        return await self._once(ctx, port, ())

    async def _once(self, ctx: Context, port: RdmaPort, more: tuple[str, ...]) -> tuple[Looped, str]:
        number = _free_port()
        seconds = ctx.number("seconds")
        arguments = [
            "-d", port.device, "-i", str(port.port), "-s", f"{ctx.number('size'):.0f}", "-F",
            "-D", f"{seconds:.0f}", "-p", str(number), "--report_gbits", *more,
        ]  # fmt: skip
        if ctx.text("gid_index"):
            arguments += ["-x", ctx.text("gid_index")]
        bound = self._bound(ctx, port)
        limit = seconds + 30.0
        serving = asyncio.create_task(ctx.tool("ib_write_bw", *arguments, limit_s=limit, before=bound))
        try:
            if not await _listening(ctx, number, serving):
                return await _no_server(port, serving)
            client = await ctx.tool("ib_write_bw", *arguments, "127.0.0.1", limit_s=limit, before=bound)
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError, CannotTestError):
                await serving
        return _looped(port, client), client.transcript

    def _bound(self, ctx: Context, port: RdmaPort) -> tuple[str, ...]:
        """Onto the NIC's NUMA node, where there is more than one and numactl."""
        if port.numa_node is None or not ctx.has("numactl"):
            return ()
        node = str(port.numa_node)
        return (*ctx.settings.tool("numactl"), f"--cpunodebind={node}", f"--membind={node}")


def judge(looped: Sequence[Looped], down: Sequence[str], platform: Platform) -> Outcome:
    """Pure. `down` are ports that the manifest has and that are not active."""
    floor = platform.floor("rdma", "of_line")
    failures = [f"{name} is not active" for name in down]
    errors: list[str] = []
    metrics: list[Metric] = []
    limits: dict[str, Limit] = {}
    for result in looped:
        if result.gbit_s is None:
            errors.append(f"{result.port.name}: {result.problem}")
            continue
        name = f"gbit_s.{result.port.name}"
        metrics.append(Metric(name, result.gbit_s, "Gb/s"))
        if floor is None or result.port.rate_gbit_s is None:
            continue
        limits[name] = floor.scaled(result.port.rate_gbit_s)
        if result.gbit_s < limits[name].value:
            how = " through GPU memory" if result.through_gpu else ""
            failures.append(
                f"{result.port.name}: {result.gbit_s:.0f} Gb/s{how}, at least {limits[name].value:.0f} is due"
            )
    told = (tuple(metrics), limits)
    if failures:
        return Outcome("fail", listed(failures), *told)
    if errors:
        return Outcome("error", listed(errors), *told)
    values = sorted(m.value for m in metrics)
    through = sum(r.through_gpu for r in looped)
    return Outcome(
        "pass", f"{len(values)} ports: {values[0]:.0f} to {values[-1]:.0f} Gb/s, "
        f"{through} of them through GPU memory", *told,
    )  # fmt: skip


def nearest(port: RdmaPort, gpus: Mapping[str, int], devices: Sequence[host.PciDevice]) -> int | None:
    """The GPU that shares most bridges with the NIC; of equals, the one on its NUMA node."""
    by_bdf = {device.bdf: device for device in devices}
    own = by_bdf.get(port.bdf or "")
    if own is None:
        return None

    def closeness(bdf: str) -> tuple[int, bool]:
        other = by_bdf[bdf]
        shared = sum(a == b for a, b in zip(own.upstream, other.upstream, strict=False))
        return shared, own.numa_node == other.numa_node

    known = [bdf for bdf in gpus if bdf in by_bdf]
    best = max(known, key=closeness, default=None)
    return None if best is None else gpus[best]


async def _listening(ctx: Context, number: int, serving: asyncio.Task[Ran]) -> bool:
    """The server has opened its port; False when it has ended, or does not within the time."""
    try:
        async with asyncio.timeout(LISTEN_WITHIN_S):
            while not host.listens(ctx.settings.proc_root, number):
                if serving.done():
                    return False
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        return False
    return True


async def _no_server(port: RdmaPort, serving: asyncio.Task[Ran]) -> tuple[Looped, str]:
    if not serving.done():
        return Looped(port, problem="the server does not listen"), ""
    ran = await serving
    return Looped(port, problem=ran.complaint), ran.transcript


def _looped(port: RdmaPort, client: Ran) -> Looped:
    if client.status or client.timed_out:
        return Looped(port, problem=client.complaint)
    try:
        return Looped(port, perftest.average_gbit_s(client.output))
    except UnreadableError as exc:
        return Looped(port, problem=str(exc))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
