"""Faults of GPUs, their memory and their links. Each gives the attempts that it hits."""

from __future__ import annotations

from faultwire.simulate import words
from faultwire.simulate.attempt import Attempt
from faultwire.simulate.labels import NO_RESET, NODE_ACTIONS, Culprit, Label
from faultwire.simulate.scene import Hit, Scene, Target
from topics.time import from_seconds


def dies(a: Attempt, time: int, node: int, local: int) -> None:
    """The rank of a lost GPU ends, three others see it close its connections, the step falls apart."""
    a.steps_end = min(time, a.steps_end or time)
    for n, other in enumerate(a.others(node)[:3]):
        a.closed(time + from_seconds(3 + n), other, node, local)
    a.torn_down(time + from_seconds(8), node, local)
    a.ends("FAILED", time + from_seconds(12), 134)


def gpu_off_bus(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A GPU does not answer on PCI Express any more: XID 79."""
    node, gpu = _device(scene, target)
    scene.xid(node, gpu, time, 79, words.FELL_OFF_THE_BUS)
    return _hit(scene, time, node, gpu, target, "accelerator_gpu", "XID 79", NO_RESET)


def memory_uncontained(scene: Scene, time: int, target: Target) -> list[Hit]:
    """An uncorrectable error of HBM or SRAM that could not be contained: XID 95."""
    node, gpu = _device(scene, target)
    scene.xid(node, gpu, time, 95, words.UNCONTAINED)
    return _hit(scene, time, node, gpu, target, "accelerator_memory", "XID 95", NODE_ACTIONS)


def gsp_timeout(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A GPU's system processor hangs; the driver says so 45 s later: XID 119."""
    node, gpu = _device(scene, target)
    told = time + from_seconds(46)
    scene.xid(node, gpu, told, 119, words.gsp_timeout(gpu))
    a = scene.running(node, time)
    if a is not None:
        a.steps_end = time
    return _hit(scene, told, node, gpu, target, "accelerator_gpu", "XID 119", NODE_ACTIONS, a)


def nvlink_signal(scene: Scene, time: int, target: Target) -> list[Hit]:
    """The signal of an NVLink is too weak: XID 149 with a local sub-code, and the link is down."""
    node, gpu = _device(scene, target)
    link = scene.random.randrange(scene.facts.site.nvlinks)
    scene.xid(node, gpu, time, 149, words.link_down(link, words.SIGNAL_INTEGRITY))
    scene.levels[node].links[gpu, link].append((time, "inactive"))
    hits = _hit(scene, time, node, gpu, target, "accelerator_fabric", "XID 149, sub-code 4", NODE_ACTIONS)
    uuid = scene.facts.site.uuid(node, gpu)
    return [Hit(h.attempt, _also(h.label, f"nvlink/{uuid}/{link}"), h.out) for h in hits]


def gpu_overheats(scene: Scene, time: int, target: Target) -> list[Hit]:
    """A GPU's clocks are held down by its heat, until the run ends or for `seconds`."""
    node, gpu = _device(scene, target)
    scene.throttle(node, gpu, time, "hw_slowdown", "hw_thermal")
    if target.seconds is not None:
        scene.throttle(node, gpu, time + from_seconds(target.seconds))
        return []
    a = scene.running(node, time)
    if a is None:
        return []
    a.slower_from = time
    name = scene.facts.site.name(node)
    label = Label(
        "hardware", "power_thermal", "One GPU is slowed by its heat, and every step waits for it.",
        (_gpu(scene, node, gpu),), "RUNNING_DEGRADED", ("cordon", "drain", "run_checks"), (name,),
    )  # fmt: skip
    return [Hit(a, label)]


def _device(scene: Scene, target: Target) -> tuple[int, int]:
    site = scene.facts.site
    return scene.draw(site.nodes, target.node), scene.draw(site.gpus, target.gpu)


def _gpu(scene: Scene, node: int, gpu: int) -> Culprit:
    site = scene.facts.site
    return Culprit(site.name(node), f"gpu/{site.uuid(node, gpu)}", (f"gpu/{gpu}",))


def _hit(
    scene: Scene, time: int, node: int, gpu: int, target: Target, subdomain: str, what: str,
    actions: tuple[str, ...], a: Attempt | None = None,
) -> list[Hit]:  # fmt: skip
    a = a or scene.running(node, time)
    if a is None:
        return []
    dies(a, time, node, gpu)
    name = scene.facts.site.name(node)
    why = f"{what} of GPU {gpu} of {name} comes before everything that NCCL says."
    label = Label("hardware", subdomain, why, (_gpu(scene, node, gpu),), "FAILED", actions, (name,))
    return [Hit(a, label, () if target.returns else (node,))]


def _also(label: Label, entity: str) -> Label:
    culprits = tuple(Culprit(c.node, c.entity, (*c.also, entity)) for c in label.culprits)
    return Label(label.domain, label.subdomain, label.why, culprits, label.state, label.actions, label.nodes)
