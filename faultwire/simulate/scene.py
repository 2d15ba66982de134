"""What a fault has to work with, and what it leaves behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from faultwire.simulate import words
from faultwire.simulate.attempt import Attempt
from faultwire.simulate.facts import Facts
from faultwire.simulate.items import Batch, Item, KernelLine
from faultwire.simulate.labels import Label
from faultwire.simulate.levels import NodeLevels
from faultwire.simulate.wire import batch
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import Event
from topics.payloads import PortState
from topics.time import from_seconds

SWEEP_SHARE: Final = 0.75
"""Of an outage, the part until the link is up again; the rest the subnet manager needs."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how; what is None is drawn."""

    node: int | None = None
    gpu: int | None = None
    port: int | None = None
    pod: int | None = None
    """Nodes that share leaf switches."""
    rack: int | None = None
    pods: int | None = None
    """How many pods a spine switch takes along; all for None."""
    seconds: float | None = None
    server: str = "fs-02"
    share: float = 0.75
    """Of the nodes of an attempt, how many lose the file server."""
    returns: bool = False
    """The node goes back into service unmended: the next attempt runs on it again."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An attempt that a fault met, the verdict that is right for it, and the nodes to do without now."""

    attempt: Attempt
    label: Label
    out: tuple[int, ...] = ()


@dataclass
class Scene:
    """The running simulation as faults see it."""

    facts: Facts
    random: Random
    end: int
    running: Callable[[int, int], Attempt | None]
    """(node, time) -> the attempt that uses the node then."""
    attempts: Callable[[int], list[Attempt]]
    levels: dict[int, NodeLevels] = field(default_factory=lambda: defaultdict(NodeLevels))
    items: list[Item] = field(default_factory=list)

    def tell(self, events: Iterable[Event[Any]]) -> None:
        """Events of nodes, one record each, as a collector sends edges: at once."""
        for event in events:
            topic = RAW_TOPIC_OF_KIND[event.kind]
            self.items.append(Batch(event.time, topic, event.partitionkey, batch([event]), 1))

    def kernel(self, node: int, time: int, text: str) -> None:
        self.items.append(KernelLine(time, self.facts.site.name(node), text))

    def xid(self, node: int, gpu: int, time: int, code: int, body: str) -> None:
        site = self.facts.site
        named = words.gpu_named(site.gpu_pci(gpu), site.uuid(node, gpu))
        self.kernel(node, time - from_seconds(2e-5), named)
        self.kernel(node, time, words.xid(site.gpu_pci(gpu), code, body))

    def port_down(self, node: int, port: int, time: int, seconds: float | None) -> None:
        """DOWN, INIT when the link is back, ACTIVE when the subnet manager has swept; or for good."""
        steps: list[tuple[int, PortState, PortState, str]] = [(time, "DOWN", "ACTIVE", "Polling")]
        if seconds is not None:
            steps += [
                (time + from_seconds(seconds * SWEEP_SHARE), "INIT", "DOWN", "LinkUp"),
                (time + from_seconds(seconds), "ACTIVE", "INIT", "LinkUp"),
            ]
        for at, state, previous, phys in steps:
            if at < self.end:
                self.levels[node].ports[port].append((at, state))
                self.tell([self.facts.port(node, port, at, state, previous, phys)])

    def throttle(self, node: int, gpu: int, time: int, *reasons: str) -> None:
        self.levels[node].throttle[gpu].append((time, reasons))
        self.tell([self.facts.throttle(node, gpu, time, reasons)])

    def silence(self, node: int, time: int) -> None:
        """Nothing is heard of the node from now on."""
        self.levels[node].silent.append((time, self.end))

    def draw(self, below: int, given: int | None) -> int:
        """`given`, or any number from 0 to `below` - 1."""
        return given if given is not None else self.random.randrange(below)
