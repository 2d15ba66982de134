"""Blame edges: who says that whom failed it, and where such chains end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from correlator.attribution.case import Case
from correlator.attribution.symptom import Symptom
from topics.derived import Culprit
from topics.lines import NODE_LOST

MAX_SUSPECTS: Final = 4
_TRANSFERS_FAIL: Final = frozenset({"network_hca_port", "network_hca", "network_fabric"})
_GAVE_UP: Final = frozenset({"pytorch.monitored_barrier"})
TRANSFER_ERRORS: Final = frozenset(
    {"nccl.ib_completion_error", "nccl.async_fatal", "nccl.verbs_error", "nccl.failover_fatal",
     "nccl.ofi_error", "nccl.qp_setup_error"}
)  # fmt: skip


def edges(case: Case) -> tuple[Symptom, ...]:
    """Active blame edges from one node of the attempt to another one.

    None to a node that had given up waiting by then: it is lost because it ended itself.
    """
    known = case.view.node_set
    gave_up: dict[str | None, int] = {}
    for s in case.active:
        if (s.role == "wait" or s.code in _GAVE_UP) and s.node is not None:
            gave_up[s.node] = min(s.time, gave_up.get(s.node, s.time))
    return tuple(
        s
        for s in case.active
        if s.role == "blame" and s.peer in known and s.node is not None and s.node != s.peer
        and not (s.peer in gave_up and gave_up[s.peer] <= s.time + case.view.eps(s.node, s.peer))
    )  # fmt: skip


def explained_by(root: Symptom, effects: Iterable[Symptom]) -> tuple[Symptom, ...]:
    """Those of the effects that a root accounts for: they name its node, or happen on it.

    A port or NIC shows itself by failing transfers. Closed sockets alone are how a process ends, so they
    count for it only together with such a failure.
    """
    nodes = root.nodes or ({root.node} if root.node else set())
    if not nodes:  # a switch, a file system, the fabric, all ranks: whatever they touch
        return tuple(effects)
    found = tuple(e for e in effects if e.peer in nodes or e.node in nodes)
    if root.subdomain in _TRANSFERS_FAIL and not any(e.code in TRANSFER_ERRORS for e in found):
        return tuple(e for e in found if e.role != "blame")
    return found


def ends(case: Case) -> list[str]:
    """The nodes at which chains of blame end: they are blamed, and blame nobody earlier.

    A node that was itself let down by another before anybody blamed it only passed the trouble on. Two
    that blame each other stand for the path between them: both stay.
    """
    found = edges(case)
    blamed: dict[str, int] = {}
    for edge in found:
        if edge.peer is not None:
            blamed[edge.peer] = min(edge.time, blamed.get(edge.peer, edge.time))
    mutual = {(e.node, e.peer) for e in found}
    passed_on: set[str] = set()
    for edge in found:
        if edge.node in blamed and edge.node is not None and edge.peer is not None:
            if (edge.peer, edge.node) in mutual:
                continue
            if edge.time <= blamed[edge.node] + case.view.eps(edge.node, edge.peer):
                passed_on.add(edge.node)
    left = [node for node in blamed if node not in passed_on] or list(blamed)
    return sorted(left, key=lambda node: (blamed[node], node))


def suspects(case: Case) -> tuple[Culprit, ...]:
    """Whom to look at when nothing says why: the ends of the chains, weighed by how many point there."""
    found = edges(case)
    last = ends(case)
    if last:
        weight = {n: len({e.node for e in found if e.peer == n}) for n in last}
        most = max(weight.values())
        chosen = [n for n in last if weight[n] == most][:MAX_SUSPECTS]
        return tuple(Culprit(node=n, entity="node") for n in sorted(chosen))
    hints = [s for s in case.active if s.attrs.get("suspect") and s.node is not None]
    if not hints:
        alone = [s for s in case.active if s.role == "effect" and s.node is not None]
        hints = alone if len({s.node for s in alone}) == 1 and len(case.view.nodes) > 1 else []
    if not hints:  # a scheduler's word on a node that was heard all along is still a word
        hints = [s for s in case.symptoms if s.code in NODE_LOST and s.node is not None]
    if not hints:
        return ()
    first = min(s.time for s in hints)
    near = {s.node for s in hints if s.time <= first + case.view.eps(s.node)}
    return tuple(Culprit(node=n, entity="node") for n in sorted(x for x in near if x)[:MAX_SUSPECTS])
