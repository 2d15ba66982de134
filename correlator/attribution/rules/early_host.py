"""EARLY, hosts: silence, shared storage, and what strikes many nodes at once."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.attribution.case import Case
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Symptom
from topics.lines import NODE_LOST
from topics.time import NS_PER_S, from_seconds

TOGETHER_NS = 60 * NS_PER_S
STORAGE_NS = 600 * NS_PER_S


@rule(name="ProofOfLife", kind="refiner", phase="EARLY", order=58)
def proof_of_life(case: Case) -> Sequence[Symptom]:
    """An observer's report of a dead node comes late, but the node died after its own last sign of life.

    Needs a heartbeat, a kernel line, a rank's line or a training step (which needs every rank) before the
    report. Where that sign is a device lost for good and no heartbeats date the death, the device was first.
    Must not take what others print about the node, or what it prints after a reboot, for its life.
    """
    steps = case.view.store.progress.distinct()

    def check(s: Symptom) -> Symptom:
        if s.code == "node_silent" or s.subdomain != "node_down" or s.node is None or s.latest is None:
            return s
        silences = [x for x in case.symptoms if x.code == "node_silent" and x.node == s.node]
        last = max((x for x in silences if x.time <= s.time), key=lambda x: x.time, default=None)
        until = s.time if last is None else min(s.time, last.begun)
        signs = [x.time for x in case.symptoms if x.node == s.node and _own_word(x)]
        signs += [*steps, *([last.time] if last is not None else [])]
        alive = max((t for t in signs if t <= until), default=s.begins)
        if last is None and any(
            x.node == s.node and x.tier == 2 and x.strength == "lethal" and s.begins <= x.begins <= until
            for x in case.roots
        ):
            return s.but(start=s.time)
        return s.but(start=max(s.begins, alive))

    return case.change(check)


def _own_word(s: Symptom) -> bool:
    """Whether the node itself said it: its kernel, or a rank on it."""
    if s.attrs.get("decoded") == "peer_end":
        return False
    if any(name in s.attrs for name in ("category", "xid", "sxid", "bdf")):
        return True
    details = s.attrs.get("details") or {}
    return s.rank is not None and not (details.get("node") or details.get("host"))


@rule(name="NodeSilence", kind="filter", phase="EARLY", order=60)
def node_silence(case: Case) -> Sequence[Symptom]:
    """A node that falls silent is down, unless somebody still hears it, or nobody is heard at all.

    Needs the end of its heartbeats (or the scheduler's word). Must not catch a dead agent on a living node
    whose ranks still print, a broken telemetry path (most nodes silent at once, and the scheduler has not
    lost them), or a node that a scheduler lost from sight while its heartbeats go on.
    """
    view = case.view
    silent = [s for s in case.active if s.code == "node_silent"]
    many = len(view.nodes) >= 3 and len({s.node for s in silent if s.until is None}) * 2 > len(view.nodes)
    lost = {s.node for s in case.symptoms if s.code in NODE_LOST}
    last_word: dict[str, int] = {}
    for s in case.symptoms:
        if s.node is not None and s.code != "node_silent" and s.tier > 0 and s.rank is not None:
            last_word[s.node] = max(last_word.get(s.node, 0), s.time)

    def check(s: Symptom) -> Symptom:
        if s.code == "node_silent":
            if many and s.node not in lost:
                return s.demote("NodeSilence", "most nodes fell silent at once: the telemetry did")
            spoke = last_word.get(s.node or "")
            if spoke is not None and spoke > s.time + 2 * view.eps(s.node) + _grace(s):
                return s.demote("NodeSilence", "its ranks still print: only the agent is silent")
            if s.until is not None and not s.attrs.get("rebooted"):
                return s.but(strength="likely")
            return s
        if s.subdomain == "node_down" and s.node is not None:
            quiet = any(other.node == s.node for other in silent)
            if not quiet and view.lives(s.node):
                return s.but(
                    role="effect", tier=5, strength="none", attrs={**s.attrs, "suspect": True}
                ).demote("NodeSilence", "its heartbeats go on")
        return s

    return case.change(check)


def _grace(s: Symptom) -> int:
    """A silent node was alive for up to one interval after its last heartbeat."""
    interval = s.attrs.get("interval_s")
    return from_seconds(float(interval)) if isinstance(interval, int | float) else 15 * NS_PER_S


@rule(name="SharedStorageMerge", kind="refiner", phase="EARLY", order=65)
def shared_storage_merge(case: Case) -> Sequence[Symptom]:
    """Storage trouble on many nodes is the shared file system's, not theirs.

    Needs storage findings on three nodes, and on a quarter of the attempt's. Must not catch the mount of
    one or two nodes.
    """
    settings = case.view.settings
    least = max(settings.merge_nodes, round(settings.shared_fraction * len(case.view.nodes)))
    found = [s for s in case.roots if s.domain == "storage"]
    nodes = {n for s in found for n in _tellers(s)}
    if len(nodes) < least:
        return case.symptoms
    first = min(found, key=lambda s: (s.begins, s.sort_key()))
    together = [s for s in found if s.begins <= first.begins + STORAGE_NS]
    if len({n for s in together for n in _tellers(s)}) < least:
        return case.symptoms
    counts: dict[str, set[str]] = {}
    for s in together:
        if s.entity and s.entity != "node" and s.node:
            counts.setdefault(s.entity, set()).update(_tellers(s))
    named = max(counts, key=lambda e: (len(counts[e]), e), default=None)
    entity = named if named is not None and len(counts[named]) * 2 >= len(nodes) else "filesystem/shared"
    ended = [s.until for s in together if s.until is not None]
    whole = Symptom(
        code="storage.shared",
        time=first.time,
        tier=3,
        role="root",
        entity=entity,
        evidence=tuple(sorted({i for s in together for i in s.evidence})),
        domain="storage",
        subdomain="shared_filesystem",
        strength="likely",
        start=first.begins,
        until=max(ended) if len(ended) == len(together) else None,
        lasting=True,
        nodes=frozenset(nodes),
        drill=any(s.drill for s in together),
    )
    lowered = case.change(
        lambda s: s.demote("SharedStorageMerge", f"one of {len(nodes)} nodes") if s in together else s
    )
    return [*lowered, whole]


def _tellers(s: Symptom) -> frozenset[str]:
    """All nodes that told the same of the same mount; of a storm of lines only the first are kept."""
    return frozenset(n for n in (s.node, *s.attrs.get("on", ())) if n)


@rule(name="FacilityEvent", kind="refiner", phase="EARLY", order=70)
def facility_event(case: Case) -> Sequence[Symptom]:
    """Power or cooling that strikes several nodes within a minute is one event of the facility.

    Needs nodes that fall silent, or are braked or heat-throttled, on three nodes together. The nodes are
    then named together, and are no rivals for the blame. Must not join findings of different kinds.
    """
    least = case.view.settings.merge_nodes
    joint: set[Symptom] = set()
    for code in ("node_silent", "throttle"):
        found = sorted((s for s in case.active if s.code == code and s.role == "root"), key=lambda s: s.time)
        for first in found:
            together = [s for s in found if first.time <= s.time <= first.time + TOGETHER_NS]
            if len({s.node for s in together}) >= least:
                joint.update(together)
    if not joint:
        return case.symptoms
    return case.change(lambda s: s.but(attrs={**s.attrs, "joint": True}) if s in joint else s)
