"""EARLY, GPUs: bursts of XIDs and the far end of NVLinks."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom
from correlator.attribution.view import gpu_entity
from topics.time import from_seconds


@rule(name="HandleXidBurstEvents", kind="refiner", phase="EARLY", order=30)
def handle_xid_burst_events(case: Case) -> Sequence[Symptom]:
    """Of a burst of XIDs on one GPU the one nearest to the cause speaks for all.

    Needs XIDs of one GPU with gaps below ten seconds; their order is that of the code table: lost GPU and
    memory before link, link before a program's own faults, those before the codes that follow others. Must
    not catch XIDs of different GPUs, or of the same GPU minutes apart.
    """
    gap = from_seconds(case.view.settings.burst_gap_s)
    best: dict[Symptom, Symptom] = {}
    by_gpu: dict[tuple[str, str], list[Symptom]] = {}
    for s in case.active:
        if "xid" in s.attrs:
            by_gpu.setdefault(s.place, []).append(s)
    for found in by_gpu.values():
        for burst in _bursts(sorted(found, key=lambda s: (s.time, s.sort_key())), gap):
            head = min(burst, key=lambda s: (s.order, s.strength not in ("lethal", "likely"), s.time, s.code))
            best.update({s: head for s in burst if s is not head})
    return case.change(lambda s: _lower(s, best.get(s)))


def _bursts(found: list[Symptom], gap: int) -> list[list[Symptom]]:
    bursts: list[list[Symptom]] = []
    last = 0
    for s in found:
        if bursts and s.time - last <= gap:
            bursts[-1].append(s)
        else:
            bursts.append([s])
        last = max(last, s.time, int(s.attrs.get("last", 0)))
    return bursts


def _lower(s: Symptom, head: Symptom | None) -> Symptom:
    if head is None or s.role == "info":
        return s
    if head.code == s.code:
        return s.demote("HandleXidBurstEvents", f"the same burst as {head.code} before")
    return s.demote("HandleXidBurstEvents", f"part of the burst of {head.code} on this GPU")


@rule(name="NvlinkPeerRedirect", kind="refiner", phase="EARLY", order=35)
def nvlink_peer_redirect(case: Case) -> Sequence[Symptom]:
    """An NVLink 5 error whose words say "the other end" is the other end's fault.

    Needs link-down sub-codes 21 or 32 to 37, and the inventory's word on who the other end is. Without it
    the reporting GPU is only where to begin looking. Must not move the blame of local signal integrity.
    """
    changed: list[Symptom] = []
    for s in case.symptoms:
        if not s.active or s.attrs.get("decoded") != "peer":
            changed.append(s)
            continue
        peer = s.attrs.get("peer")
        if not peer:
            changed.append(s.but(role="effect", strength="none", tier=5, attrs={**s.attrs, "suspect": True}))
            continue
        entity = gpu_entity(peer.get("gpu_uuid"), peer.get("gpu_index"), None)
        changed.append(s.demote("NvlinkPeerRedirect", f"its words blame {peer['node']} {entity}"))
        changed.append(
            s.but(
                node=peer["node"],
                entity=entity,
                peer=None,
                nodes=frozenset(n for n in (peer["node"], s.node) if n),
                attrs={
                    **s.attrs,
                    "decoded": "peer_end",
                    "uuid": peer.get("gpu_uuid"),
                    "index": peer.get("gpu_index"),
                    "via": s.node,
                },
            )
        )
    return changed
