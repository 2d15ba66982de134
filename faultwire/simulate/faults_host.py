"""Faults of nodes, power and storage, and those of programs. Each gives the attempts that it hits."""

from __future__ import annotations

from math import ceil

from faultwire.simulate import words
from faultwire.simulate.attempt import Attempt
from faultwire.simulate.labels import NO_RESET, WATCH, Culprit, Label
from faultwire.simulate.scene import Hit, Scene, Target
from topics.time import from_seconds

EXCEPTIONS = ("ValueError: no shard left", "KeyError: 'labels'", "IndexError: list index out of range")


def node_power_loss(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A node goes silent at once; the others run out of retries, and the scheduler misses it."""
    site = scene.facts.site
    node = scene.draw(site.nodes, target.node)
    scene.silence(node, time)
    a = scene.running(node, time)
    if a is None:
        return []
    a.steps_end = time
    for n, other in enumerate(a.others(node)[:7]):
        a.status_12(time + from_seconds(a.budget_s * 1.03 + 0.6 + n * 0.2), other, node, 0)
    noticed = time + from_seconds(a.budget_s + 30)
    a.say(noticed, a.others(node)[0], words.node_failure(site.name(node)))
    a.ends("NODE_FAIL", noticed + from_seconds(2))
    name = site.name(node)
    why = f"{name} falls silent, and all its peers run out of retries towards it."
    label = Label("hardware", "node_down", why, (Culprit(name, "node"),), "NODE_FAIL", NO_RESET, (name,))
    return [Hit(a, label, (node,))]


def rack_power_brake(scene: Scene, time: int, target: Target) -> list[Hit]:
    """The power of a rack is short: all its GPUs are braked, for `seconds` or to the end."""
    site = scene.facts.site
    rack = site.rack(scene.draw(-(-site.nodes // site.rack_nodes), target.rack))
    struck: dict[int, list[int]] = {}
    attempts: dict[int, Attempt] = {}
    for n, node in enumerate(rack):
        for gpu in range(site.gpus):
            at = time + from_seconds(n * 0.5 + gpu * 0.01)
            scene.throttle(node, gpu, at, "hw_slowdown", "hw_power_brake")
            if target.seconds is not None:
                scene.throttle(node, gpu, at + from_seconds(target.seconds))
        a = scene.running(node, time)
        if a is not None:
            attempts[id(a)] = a
            struck.setdefault(id(a), []).append(node)
    if target.seconds is not None:
        return []
    return [Hit(a, _braked(scene, a, struck[key], time)) for key, a in attempts.items()]


def storage_stall(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A file server hangs: steps stop everywhere, mounts complain a minute later, watchdogs after that."""
    hits = []
    for a in scene.attempts(time):
        least = min(len(a.nodes), max(3, ceil(target.share * len(a.nodes))))
        for n, node in enumerate(a.nodes[:least]):
            at = time + from_seconds(60 + n * min(1.0, 20 / least))
            scene.kernel(node, at, words.server_gone(target.server))
        a.steps_end = time
        waited = time + from_seconds(a.group_timeout_s + 6)
        for node in a.nodes[:3]:
            a.watchdog(waited, node)
        a.torn_down(waited + from_seconds(4), None)
        a.ends("FAILED", waited + from_seconds(9), 134)
        why = f"{target.server} stops answering {least} of {len(a.nodes)} nodes; the watchdogs only notice."
        culprit = Culprit(None, f"filesystem/{target.server}", ("filesystem/shared",))
        hits.append(Hit(a, Label("storage", "shared_filesystem", why, (culprit,))))
    return hits


def program_error(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A rank raises an exception of its own."""
    site = scene.facts.site
    node, local = scene.draw(site.nodes, target.node), scene.draw(site.gpus, target.gpu)
    a = scene.running(node, time)
    if a is None:
        return []
    a.steps_end = time
    what = EXCEPTIONS[scene.random.randrange(len(EXCEPTIONS))]
    a.raises(time, node, local, what)
    a.closed(time + from_seconds(1), a.others(node)[0], node, local)
    a.say(time + from_seconds(2), node, words.child_failed(local, 1))
    a.torn_down(time + from_seconds(3), node, local, "Exited with exit code 1")
    a.ends("FAILED", time + from_seconds(8), 1)
    rank = a.rank(node, local)
    why = f"Rank {rank} raises {what.partition(':')[0]} before anything else happens."
    return [Hit(a, Label("workload", "code_exception", why, (Culprit(site.name(node), f"rank/{rank}"),)))]


def silent_stall(scene: Scene, time: int, target: Target) -> list[Hit]:
    """Steps stop and all watchdogs fire: nobody can tell why."""
    a = scene.running(scene.draw(scene.facts.site.nodes, target.node), time)
    if a is None:
        return []
    a.steps_end = time
    waited = time + from_seconds(a.group_timeout_s + 3)
    for node in a.nodes:
        a.watchdog(waited, node)
    a.torn_down(waited + from_seconds(3), None)
    a.ends("FAILED", waited + from_seconds(7), 134)
    why = "All nodes are seen and clean, and all ranks time out alike."
    return [Hit(a, Label("unknown", "insufficient_evidence", why))]


def _braked(scene: Scene, a: Attempt, struck: list[int], time: int) -> Label:
    site = scene.facts.site
    a.slower_from = time
    names = tuple(site.name(n) for n in struck)
    gpus = tuple(
        Culprit(site.name(n), f"gpu/{site.uuid(n, g)}", (f"gpu/{g}",))
        for n in struck
        for g in range(site.gpus)
    )
    why = f"The GPUs of {len(struck)} nodes of the job are braked within seconds."
    if len(struck) >= 3:
        return Label("hardware", "power_thermal", why, gpus, "RUNNING_DEGRADED")
    subdomain = "power_thermal" if len(struck) == 1 else "ambiguous"
    return Label("hardware", subdomain, why, gpus, "RUNNING_DEGRADED", WATCH, names)
