"""Faults of ports, NICs and switches. Each gives the attempts that it hits."""

from __future__ import annotations

from collections.abc import Iterable

from faultwire.simulate import words
from faultwire.simulate.attempt import Attempt
from faultwire.simulate.labels import CHECKS, INTERRUPT, NO_RESET, Culprit, Label
from faultwire.simulate.scene import Hit, Scene, Target
from topics.nccl import UNCERTAIN_UNTIL
from topics.time import from_seconds

SPREAD_S = 1.5
"""Ports behind one switch go down within so many seconds of each other."""


def port_outage(scene: Scene, time: int, target: Target) -> list[Hit]:
    """One port is down once, for longer than NCCL waits unless `seconds` says otherwise."""
    site = scene.facts.site
    node, port = scene.draw(site.nodes, target.node), scene.draw(site.ports, target.port)
    a = scene.running(node, time)
    budget = a.budget_s if a is not None else 30.0
    seconds = target.seconds or round(budget * scene.random.uniform(1.4, 2.5), 3)
    scene.port_down(node, port, time, seconds)
    if a is None:
        return []
    if seconds <= budget * UNCERTAIN_UNTIL:
        if seconds >= budget:
            a.endangered_by.append(node)
        return []
    gives_up(a, time, [(a.others(node)[0], node)], port)
    return [Hit(a, _port_label(scene, a, node, port, seconds), () if target.returns else (node,))]


def port_flap(scene: Scene, time: int, target: Target) -> list[Hit]:
    """One port is down for a moment that every job survives."""
    a = scene.running(scene.draw(scene.facts.site.nodes, target.node), time)
    longest = 0.2 * a.budget_s if a is not None else 1.0
    node = a.nodes[scene.random.randrange(len(a.nodes))] if a is not None else target.node
    scene.port_down(
        scene.draw(scene.facts.site.nodes, node),
        scene.draw(scene.facts.site.ports, target.port),
        time,
        target.seconds or round(scene.random.uniform(0.05, 1.0) * min(longest, 1.5), 3),
    )
    return []


def leaf_switch(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A leaf switch takes the port of its rail from every node of its pod."""
    site = scene.facts.site
    pod = scene.draw(-(-site.nodes // site.leaf_nodes), target.pod)
    return _switches(scene, time, target, site.on_leaf(pod))


def spine_switch(scene: Scene, time: int, target: Target) -> list[Hit]:
    """The spine of a rail goes; its leaves, without an uplink, close their ports to the nodes.

    That is what uplink tracking does. All nodes of the pods lose the same port.
    """
    site = scene.facts.site
    nodes = site.nodes if target.pods is None else min(site.nodes, target.pods * site.leaf_nodes)
    return _switches(scene, time, target, range(nodes))


def nic_firmware(scene: Scene, time: int, target: Target) -> list[Hit]:
    """The firmware of a NIC dies, and its port with it."""
    site = scene.facts.site
    node, port = scene.draw(site.nodes, target.node), scene.draw(site.ports, target.port)
    pci = site.nic_pci(port)
    for line, text in enumerate(words.nic_health(pci)):
        scene.kernel(node, time + from_seconds(line * 0.001 if line < 3 else 0.5), text)
    a = scene.running(node, time)
    down = time + from_seconds(1)
    scene.port_down(node, port, down, target.seconds or (a.budget_s * 3 if a is not None else 60.0))
    if a is None:
        return []
    gives_up(a, down, [(a.others(node)[0], node)], port)
    name = site.name(node)
    culprit = Culprit(name, f"pci/{pci}", (f"port/{site.device(port)}/1",))
    why = f"The firmware of {site.device(port)} of {name} reports a fatal error before its port goes down."
    label = Label("hardware", "network_hca", why, (culprit,), "FAILED", NO_RESET, (name,))
    return [Hit(a, label, () if target.returns else (node,))]


def gives_up(a: Attempt, down: int, pairs: Iterable[tuple[int, int]], port: int) -> None:
    """Both ends of each dead path run out of retries, and the step falls apart."""
    at = down + from_seconds(a.budget_s * 1.03 + 0.4)
    a.steps_end = min(down, a.steps_end or down)
    for n, (one, other) in enumerate(pairs):
        a.status_12(at + from_seconds(n * 0.1), one, other, port)
        a.status_12(at + from_seconds(n * 0.1 + 0.3), other, one, port)
    a.torn_down(at + from_seconds(2), None)
    a.ends("FAILED", at + from_seconds(6), 134)


def _switches(scene: Scene, time: int, target: Target, nodes: range) -> list[Hit]:
    site = scene.facts.site
    port = scene.draw(site.ports, target.port)
    struck: dict[int, list[int]] = {}
    attempts: dict[int, Attempt] = {}
    seconds = target.seconds or 60.0
    for node in nodes:
        at = time + from_seconds(round(scene.random.random() * SPREAD_S, 3))
        scene.port_down(node, port, at, seconds)
        a = scene.running(node, time)
        if a is not None:
            attempts[id(a)] = a
            struck.setdefault(id(a), []).append(node)
    hits = []
    for key, a in attempts.items():
        if seconds > a.budget_s * UNCERTAIN_UNTIL:
            own = struck[key]
            gives_up(a, time + from_seconds(SPREAD_S), _pairs(a, own), port)
            hits.append(Hit(a, _switch_label(scene, a, own, port, seconds)))
        elif seconds >= a.budget_s:
            a.endangered_by.extend(struck[key])
    return hits


def _pairs(a: Attempt, struck: list[int]) -> list[tuple[int, int]]:
    """Up to three pairs of nodes that lose each other."""
    if len(struck) == 1:
        return [(a.others(struck[0])[0], struck[0])]
    return list(zip(struck[0:6:2], struck[1:6:2], strict=False))


def _port_label(scene: Scene, a: Attempt, node: int, port: int, seconds: float) -> Label:
    name, device = scene.facts.site.name(node), scene.facts.site.device(port)
    why = f"{device} of {name} was down for {seconds:.1f} s; NCCL {a.version} waits for {a.budget_s:.1f} s."
    culprit = Culprit(name, f"port/{device}/1")
    return Label("hardware", "network_hca_port", why, (culprit,), "FAILED", NO_RESET, (name,))


def _switch_label(scene: Scene, a: Attempt, struck: list[int], port: int, seconds: float) -> Label:
    """Three nodes prove a switch or the fabric; one or two are ports that failed."""
    site = scene.facts.site
    if len(struck) == 1:
        return _port_label(scene, a, struck[0], port, seconds)
    names = tuple(site.name(n) for n in struck)
    if len(struck) == 2:
        ports = tuple(Culprit(name, f"port/{site.device(port)}/1") for name in names)
        why = "Two ports failed together: no switch is proven, and which one began can't be told."
        return Label("hardware", "ambiguous", why, ports, "FAILED", CHECKS, names)
    leaves = sorted({f"switch/{site.leaf(n, port)}" for n in struck})
    entity, also = (leaves[0], ("fabric",)) if len(leaves) == 1 else ("fabric", tuple(leaves))
    why = f"Port {port} of {len(struck)} nodes of the job went down together, behind {len(leaves)} switches."
    return Label(
        "hardware", "network_fabric", why, (Culprit(None, entity, also),), "FAILED", (INTERRUPT,), ()
    )
