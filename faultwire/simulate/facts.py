"""What nodes say in events of their own: levels, transitions, samples. Each gives whole events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from faultwire.simulate.site import Site
from topics import ids
from topics.events import Event, make
from topics.payloads import (
    CollectorStatus,
    Gpu,
    Heartbeat,
    IbPort,
    Levels,
    Payload,
    PortState,
    Throttle,
)

COLLECTORS: Final = ("kmsg", "ports", "nvml", "nvml_events", "aer", "logs")
"""Readers of an agent on a training node, all of them at work."""

REASON_BITS: Final = {
    "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80,
}  # fmt: skip
"""Bits of the clock-event mask (NVML, nvmlClocksEventReasons)."""

DRIVER: Final = "570.124.06"
RATE_GBPS: Final = 400.0


@dataclass(frozen=True)
class Facts:
    """Makes the events of a site. `drill` marks every one of them."""

    site: Site
    drill: bool = False

    def event(
        self, data: Payload, node: str, collector: str, subject: str, time: int, state: str
    ) -> Event[Any]:
        return make(
            data,
            id=ids.transition_id(self.site.cluster, node, subject, data.kind, time, state),
            source=f"/{self.site.cluster}/{node}/{collector}",
            subject=subject,
            time=time,
            key=node,
            provenance="synthetic",
            drill=True if self.drill else None,
        )

    def port(
        self, node: int, port: int, time: int, state: PortState, previous: PortState, phys: str
    ) -> Event[Any]:
        device = self.site.device(port)
        data = IbPort(
            device=device,
            port=1,
            netdev=f"ib{port}",
            link_layer="InfiniBand",
            state=state,
            phys_state=phys,
            previous_state=previous,
            rate_gbps=RATE_GBPS if state == "ACTIVE" else None,
            switch=self.site.leaf(node, port),
            switch_port=self.site.switch_port(node),
            via="simulated",
        )
        return self.event(data, self.site.name(node), "ports", f"port/{device}/1", time, state)

    def throttle(self, node: int, gpu: int, time: int, reasons: tuple[str, ...]) -> Event[Any]:
        uuid = self.site.uuid(node, gpu)
        data = Throttle(gpu_uuid=uuid, reasons=list(reasons), mask=sum(REASON_BITS[r] for r in reasons))
        return self.event(data, self.site.name(node), "nvml_events", f"gpu/{uuid}", time, hex(data.mask))

    def mask(self, uuid: str, time: int, node: str) -> Event[Any]:
        """A full sample of the mask of a GPU that nothing slows."""
        data = Throttle(gpu_uuid=uuid, reasons=[], mask=0)
        return self.event(data, node, "nvml_events", f"gpu/{uuid}", time, "0x0")

    def heartbeat(
        self,
        node: int,
        time: int,
        *,
        boot_id: str,
        uptime_s: float,
        interval_s: float,
        ports: dict[str, str],
        nvlinks: dict[str, str],
        throttle: dict[str, list[str]],
        name: str | None = None,
    ) -> Event[Any]:
        ok = CollectorStatus(status="ok", lost=0)
        data = Heartbeat(
            boot_id=boot_id,
            uptime_s=uptime_s,
            interval_s=interval_s,
            inventory_version=1,
            state=Levels(ports=ports, nvlinks=nvlinks, throttle=throttle),
            collectors=dict.fromkeys(COLLECTORS, ok),
            driver_version=DRIVER,
        )
        return self.event(data, name or self.site.name(node), "agent", "node", time, "heartbeat")

    def gpu(self, uuid: str, index: int, time: int, node: str, *, warm: float) -> Event[Any]:
        """A full sample under load; `warm` (0 to 1) moves it within what healthy GPUs show."""
        data = Gpu(
            gpu_uuid=uuid,
            index=index,
            pci_bdf=f"{self.site.gpu_pci(index)}.0",
            model="NVIDIA H100 80GB HBM3",
            temperature_c=round(58 + 6 * warm, 1),
            memory_temperature_c=round(70 + 6 * warm, 1),
            thermal_margin_c=25.0,
            power_w=round(630 + 20 * warm, 1),
            sm_clock_mhz=1980,
            utilization=0.98,
            ecc={"corrected_volatile": 0, "uncorrected_volatile": 0},
            remapped_rows={"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
            pcie={"gen": 5, "gen_max": 5, "width": 16, "width_max": 16, "replay": 0},
            fabric_state="completed",
        )
        return self.event(data, node, "nvml", f"gpu/{uuid}", time, "sample")
