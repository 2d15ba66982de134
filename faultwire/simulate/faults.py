"""All faults by name, and how much time each needs until its job's end has been told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from faultwire.simulate import faults_gpu, faults_host, faults_network
from faultwire.simulate.attempt import Attempt
from faultwire.simulate.scene import Hit, Scene, Target


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `family` goes into the labels; `tail_s` is how long its story takes at most."""

    happen: Callable[[Scene, int, Target], list[Hit]]
    family: str
    tail_s: Callable[[Attempt], float]

    @property
    def about(self) -> str:
        return (self.happen.__doc__ or "").strip().splitlines()[0]


def _budget(a: Attempt) -> float:
    return a.budget_s * 1.1 + 12


def _watchdog(a: Attempt) -> float:
    return a.group_timeout_s + 20


FAULTS: Final[dict[str, Fault]] = {
    "gpu_off_bus": Fault(faults_gpu.gpu_off_bus, "gpu", lambda _: 15),
    "memory_uncontained": Fault(faults_gpu.memory_uncontained, "gpu-memory", lambda _: 15),
    "gsp_timeout": Fault(faults_gpu.gsp_timeout, "gpu", lambda _: 62),
    "nvlink_signal": Fault(faults_gpu.nvlink_signal, "gpu-fabric", lambda _: 15),
    "gpu_overheats": Fault(faults_gpu.gpu_overheats, "thermal", lambda _: 180),
    "port_outage": Fault(faults_network.port_outage, "ib-port", _budget),
    "port_flap": Fault(faults_network.port_flap, "ib-port", lambda _: 3),
    "leaf_switch": Fault(faults_network.leaf_switch, "switch", _budget),
    "spine_switch": Fault(faults_network.spine_switch, "switch", _budget),
    "nic_firmware": Fault(faults_network.nic_firmware, "nic", _budget),
    "node_power_loss": Fault(faults_host.node_power_loss, "node", lambda a: a.budget_s + 35),
    "rack_power_brake": Fault(faults_host.rack_power_brake, "power", lambda _: 180),
    "storage_stall": Fault(faults_host.storage_stall, "storage", _watchdog),
    "program_error": Fault(faults_host.program_error, "workload", lambda _: 10),
    "silent_stall": Fault(faults_host.silent_stall, "unknown", _watchdog),
}
