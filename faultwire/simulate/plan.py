"""What happens: jobs, faults, consequences and right verdicts, decided before anything is told.

The plan grows with jobs and faults, not with the traffic: the fleet's steady stream is made while it is
read (`stream`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from random import Random
from typing import Final

from faultwire.simulate.attempt import Attempt
from faultwire.simulate.facts import Facts
from faultwire.simulate.faults import FAULTS
from faultwire.simulate.items import Item
from faultwire.simulate.labels import INTERRUPT, WATCH, Label, Labels
from faultwire.simulate.levels import NodeLevels
from faultwire.simulate.rates import fault_model
from faultwire.simulate.scenario import Scenario
from faultwire.simulate.scene import Scene, Target
from faultwire.simulate.site import Site
from topics.time import from_seconds

FIRST_START_S: Final = 12.0
"""Jobs start after every node has sent a heartbeat."""
WARM_S: Final = 60.0
"""A fault by chance comes no earlier in an attempt: nobody can judge an attempt without progress."""
RESTART_S: Final = 45.0
"""From the end of an attempt to the next one."""
LAST_S: Final = 20.0
"""Attempts that are left complete so long before the end."""
SETTLED_S: Final = 120.0
"""After the end of an attempt its nodes are left alone for so long, unless the next one is on them."""
FIRST_JOB_ID: Final = 7001


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault as it came about, for people."""

    time: int
    kind: str
    attempts: tuple[str, ...]
    verdicts: tuple[str, ...]


@dataclass
class Plan:
    """A simulation, ready to be told."""

    scenario: Scenario
    site: Site
    facts: Facts
    seed: int
    start: int
    end: int
    attempts: list[Attempt] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    levels: dict[int, NodeLevels] = field(default_factory=dict)
    labels: Labels = field(default_factory=Labels)
    happened: list[Happened] = field(default_factory=list)


def plan(scenario: Scenario, *, seed: int, start: int, cluster: str = "sim", drill: bool = False) -> Plan:
    """Decide everything. `start` in nanoseconds; the same arguments give the same plan."""
    size = scenario.site
    site = Site(
        cluster, size.nodes, size.gpus, size.ports, size.nvlinks, size.rack_nodes, size.leaf_nodes, seed
    )
    facts = Facts(site, drill)
    made = Plan(scenario, site, facts, seed, start, start + from_seconds(scenario.duration))
    _Planner(made).run()
    return made


class _Planner:
    def __init__(self, made: Plan) -> None:
        self.made = made
        self.site = made.site
        self.random = Random(f"plan/{made.seed}")  # noqa: S311 - repeatable, not secret
        self.on_node: dict[int, Attempt] = {}
        self.degraded: set[int] = set()
        self.ready: dict[int, int] = {}
        """Node -> from when on chance may strike it."""
        self.planned = 0
        """Occasions with a lower number are the scenario's own, and come when it says."""
        self.spare: list[int] = []
        self.scene = Scene(
            made.facts, self.random, made.end, running=self._running, attempts=self._all_running
        )

    def run(self) -> None:
        self._place_jobs()
        self._happens()
        self._finish()
        made = self.made
        made.items = sorted(
            [*self.scene.items, *(line for a in made.attempts for line in (a.begins(), *a.lines))],
            key=lambda item: item[0],
        )
        made.levels = dict(self.scene.levels)

    # -- jobs ------------------------------------------------------------------------------------------

    def _place_jobs(self) -> None:
        free = list(range(self.site.nodes))
        job_id = FIRST_JOB_ID
        for jobs in self.made.scenario.jobs:
            room = (len(free) - self.made.scenario.spares) // jobs.nodes
            for _ in range(jobs.count if isinstance(jobs.count, int) else room):
                nodes, free = free[: jobs.nodes], free[jobs.nodes :]
                self._begin(
                    Attempt(
                        self.site,
                        str(job_id),
                        1,
                        tuple(nodes),
                        self.made.start + from_seconds(FIRST_START_S),
                        jobs.nccl,
                        jobs.step_s,
                        jobs.group_timeout,
                    )
                )
                job_id += 1
        self.spare = free

    def _begin(self, a: Attempt) -> None:
        a.starts_up()
        self.made.attempts.append(a)
        self.on_node.update(dict.fromkeys(a.nodes, a))
        self.ready.update(dict.fromkeys(a.nodes, a.start + from_seconds(WARM_S)))

    def _running(self, node: int, time: int) -> Attempt | None:
        a = self.on_node.get(node)
        alive = a is not None and a.start <= time and a.end is None and id(a) not in self.degraded
        return a if alive else None

    def _all_running(self, time: int) -> list[Attempt]:
        return [a for a in self.made.attempts if self._running(a.nodes[0], time) is a]

    # -- faults ----------------------------------------------------------------------------------------

    def _occasions(self) -> Iterator[tuple[int, str, Target]]:
        """(time, kind, target): what the scenario says, and what chance adds."""
        made = self.made
        for fault in made.scenario.faults:
            for n in range(fault.repeat):
                self.planned += 1
                yield made.start + from_seconds(fault.at + n * fault.every), fault.kind, fault.target
        if not made.scenario.accelerate:
            return
        for kind, rate in fault_model().per_second(self.site.nodes * self.site.gpus).items():
            at = 0.0
            while (
                at := at + self.random.expovariate(rate * made.scenario.accelerate)
            ) < made.scenario.duration:
                node = self.random.randrange(self.site.nodes)
                pod = node // self.site.leaf_nodes
                yield made.start + from_seconds(round(at, 3)), kind, Target(node=node, pod=pod)

    def _happens(self) -> None:
        """One after the other. A fault by chance that comes too early for what it would meet comes later."""
        waiting = [(time, n, kind, target) for n, (time, kind, target) in enumerate(self._occasions())]
        heapify(waiting)
        while waiting:
            time, n, kind, target = heappop(waiting)
            ready = time if n < self.planned else max(time, self._ready(kind, target))
            if ready > time:
                heappush(waiting, (ready, n, kind, target))
            elif self._fits(time, kind, target):
                self._happen(time, kind, target)

    def _ready(self, kind: str, target: Target) -> int:
        """When everything that the fault touches is in a state in which its effects can be told apart."""
        node = target.node or 0
        touched = self.site.on_leaf(node // self.site.leaf_nodes) if kind == "leaf_switch" else (node,)
        return max(self.ready.get(n, 0) for n in touched)

    def _fits(self, time: int, kind: str, target: Target) -> bool:
        """The story ends before the simulation does."""
        tail_s = FAULTS[kind].tail_s
        a = self.on_node.get(target.node) if target.node is not None else None
        met = [a] if a is not None else self._all_running(time)
        tail = max((tail_s(m) for m in met), default=0.0)
        return time + from_seconds(tail + LAST_S) <= self.made.end

    def _happen(self, time: int, kind: str, target: Target) -> None:
        fault = FAULTS[kind]
        hits = fault.happen(self.scene, time, target)
        for hit in hits:
            self.made.labels.add(hit.attempt.job_id, hit.attempt.number, fault.family, hit.label)
            if hit.label.state == "RUNNING_DEGRADED":
                self.degraded.add(id(hit.attempt))
                self.ready.update(dict.fromkeys(hit.attempt.nodes, self.made.end))
            else:
                self._restart(hit.attempt, hit.out)
        self.made.happened.append(
            Happened(
                time, kind,
                tuple(f"{h.attempt.job_id}/{h.attempt.number}" for h in hits),
                tuple(f"{h.label.domain}/{h.label.subdomain}" for h in hits),
            )
        )  # fmt: skip

    def _restart(self, ended: Attempt, out: tuple[int, ...]) -> None:
        """The next attempt, on spare nodes in place of those that are out."""
        settled = (ended.end or ended.start) + from_seconds(SETTLED_S)
        for node in ended.nodes:
            self.on_node.pop(node, None)
            self.ready[node] = settled
        nodes = [n for n in ended.nodes if n not in out]
        while self.spare and len(nodes) < len(ended.nodes):
            nodes.append(self.spare.pop(0))
        start = (ended.end or ended.start) + from_seconds(RESTART_S)
        if start + from_seconds(WARM_S + LAST_S) < self.made.end and len(nodes) >= 4:
            again = replace(
                ended,
                number=ended.number + 1,
                endangered_by=[],
                nodes=tuple(nodes),
                start=start,
                steps_end=None,
                end=None,
                lines=[],
            )
            self._begin(again)

    def _finish(self) -> None:
        for a in self.made.attempts:
            if a.end is None and id(a) not in self.degraded:
                at = self.made.end - from_seconds(LAST_S)
                a.steps_end = at
                a.ends("COMPLETED", at, 0)
                why = "Nothing that happened ended it."
                label = Label("none", "completed", why, state="COMPLETED")
                if a.endangered_by:
                    names = tuple(self.site.name(node) for node in a.endangered_by)
                    label = replace(label, actions=(INTERRUPT, *WATCH), nodes=names)
                self.made.labels.add(a.job_id, a.number, "healthy", label)


def summary(made: Plan) -> dict[str, int]:
    """How often each fault came about."""
    return dict(sorted(Counter(h.kind for h in made.happened).items()))
