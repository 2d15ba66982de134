"""NODE: on each node the finding nearest to the cause speaks; what follows from it is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.rules.early_scope import OWN_CAUSE
from correlator.attribution.symptom import Symptom
from topics.time import NS_PER_S, from_seconds

NAME: Final = "Xid149AndNvlinkFiltering"
SAME_CLOCK_NS: Final = NS_PER_S
"""Slack between a node's kernel log and its ranks' logs: one clock, two buffers."""
CUT_OFF_NS: Final = 3 * NS_PER_S
_NETWORK: Final = frozenset({"network_hca", "network_hca_port", "network_fabric"})
"""What they do to a program has names of its own; another exception is another fault."""
_DISK_LAYERS: Final = frozenset({"block", "nvme", "ext4", "jbd2", "xfs"})
_DISK_ERRNO: Final = frozenset({"storage.erofs", "storage.eio"})
_IO: Final = ("OSError", "IOError", "FileNotFoundError", "TimeoutError", "StaleFileHandle", "PermissionError")


@rule(name=NAME, kind="filter", phase="NODE")
def xid149_and_nvlink_filtering(case: Case) -> Sequence[Symptom]:
    """Of a node's findings the lowest layer stays; higher ones shortly before or after it are its effects.

    Needs a root on the node: a dead kernel over a device, a device over the links that saw it go, a NIC
    over its ports, any of them over the process errors of its ranks. Must not lower independent faults
    of two devices, or a program's own error that came first.
    """
    lowered: dict[Symptom, tuple[str, str]] = {}
    adopted: dict[Symptom, str] = {}
    for node in sorted({s.node for s in case.roots if s.node}):
        own = [s for s in case.active if s.node == node]
        heads = sorted((s for s in case.roots if s.node == node and s.tier <= 4), key=_nearness)
        for head in heads:
            if head in lowered:
                continue
            for other in own:
                if other is head or other in lowered:
                    continue
                if _follows(head, other, case):
                    lowered[other] = (NAME, f"follows from {head.code} on {node}")
                    if head.subdomain == "pcie" and other.entity and other.entity.startswith("gpu/"):
                        adopted.setdefault(head, other.entity)
    changed = case.change(lambda s: s.demote(*lowered[s]) if s in lowered else s)
    return [
        s.but(entity=adopted[s]) if s in adopted and (s.entity or "").startswith("pci/") else s
        for s in changed
    ]


def _nearness(s: Symptom) -> tuple[object, ...]:
    return (s.tier, s.order, s.begins, s.sort_key())


def _follows(head: Symptom, other: Symptom, case: Case) -> bool:
    upstream = from_seconds(case.view.settings.upstream_s)
    if other.role in ("intent", "info", "context"):
        return False
    if other.begun < head.begins - upstream or _outlived(head, other, case):
        return False
    if other.role == "root" and other.tier <= 4:
        return _same_fault(head, other)
    if other.attrs.get("by_absence"):
        return _of_rank(head, other, case)
    if other.role == "root" and other.subdomain in OWN_CAUSE:
        if other.time < head.begins - SAME_CLOCK_NS:
            return False
        if head.subdomain in _NETWORK:
            return False
        if head.strength == "lethal":
            return True
        exception = str((other.attrs.get("details") or {}).get("exception", ""))
        return head.domain == "storage" and exception.rpartition(".")[2] in _IO
    return True


def _of_rank(head: Symptom, absent: Symptom, case: Case) -> bool:
    """Whether a rank that never came is held up by what failed on its node: of the GPUs only by its own."""
    if not (head.entity or "").startswith("gpu/"):
        return True
    return absent.rank == case.view.rank_on(head.node or "", head.attrs.get("uuid"), head.attrs.get("index"))


def _outlived(head: Symptom, other: Symptom, case: Case) -> bool:
    """Whether a fault had effects while the node, dead later, was still heard: it is no part of the death."""
    if head.subdomain != "node_down" or other.role != "root" or other.tier <= 1 or other.tier == 5:
        return False
    alive, eps = head.begins, case.view.eps(head.node)
    return other.begins < alive - eps and any(
        head.node in (e.node, e.peer) and other.begins - eps <= e.time < alive - eps for e in case.seen
    )


def _of_device(head: Symptom, other: Symptom) -> bool:
    """Whether a kernel that stumbled, but lived on, stumbled over a device that was lost before."""
    certain = other.strength == "lethal" and other.tier == 2 and other.begins < head.begins
    return certain and head.subdomain == "kernel_fatal" and head.strength == "likely"


def _device(s: Symptom) -> str:
    """A NIC by its RDMA device, whether its PCI address, the adapter or a port is named."""
    kind, _, name = (s.entity or "").partition("/")
    attached = s.attrs.get("attached") if kind == "pci" else None
    return str(attached or (name.partition("/")[0] if kind in ("port", "hca") else s.entity))


def _same_fault(head: Symptom, other: Symptom) -> bool:
    """Whether two roots of one node are one fault, told by two layers."""
    if other.entity == head.entity:
        return True
    if head.entity == "node" and head.tier == 1:
        return not _of_device(head, other)
    if head.subdomain == "pcie" and _device(head) == _device(other) and head.begins <= other.begun:
        return True
    if head.subdomain == "pcie" and other.subdomain == "network_hca_port":
        # what hangs on a bridge that is cut off goes at once; where the device is known, it was asked above
        at_once = head.begins <= other.begun and other.begins - head.begun <= CUT_OFF_NS
        return at_once and head.code == "aer.dpc" and not head.attrs.get("attached")
    if other.tier > head.tier:
        if {head.subdomain, other.subdomain} <= {"network_hca", "network_hca_port"}:
            return True
        return other.strength == "likely" or head.tier == 1 or other.tier - head.tier >= 2
    if head.subdomain == other.subdomain == "node_mount":
        return _same_disk(head, other)
    if "sxid" in head.attrs and "sxid" in other.attrs:
        return True  # one switch told twice, or several that lost the same GPU: the first one speaks
    if head.subdomain == "pcie":
        if other.subdomain == "pcie":  # a port, and what hangs on it
            return abs(other.begins - head.begins) <= CUT_OFF_NS
        return other.subdomain in ("accelerator_gpu", "accelerator_fabric", "network_hca")
    return other.subdomain == "accelerator_fabric" and head.order < other.order


def _same_disk(head: Symptom, other: Symptom) -> bool:
    """Whether the block layer, a file system on it and a program speak of one local disk."""
    if not head.attrs.get("kernel"):
        return False
    if not other.attrs.get("kernel"):
        return other.code in _DISK_ERRNO and head.code.partition(".")[0] in _DISK_LAYERS
    one, two = ((s.entity or "").partition("/")[2] for s in (head, other))
    return bool(one and two) and (one.startswith(two) or two.startswith(one))
