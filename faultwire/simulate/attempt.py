"""One attempt of a job as its ranks, its launcher and its scheduler see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from faultwire.simulate import words
from faultwire.simulate.items import Item, JobChange, JobLine
from faultwire.simulate.site import Site
from topics.nccl import transport_budget_s
from topics.payloads import Job, JobState, NcclSettings, RankPlace
from topics.time import from_seconds

LARGEST_WITH_RANKS: Final = 128
"""Larger attempts leave their map of ranks out, as schedulers do: the record would pass a megabyte."""
LARGEST_WITH_DEVICES: Final = 1024

STEPS_BEGIN_S: Final = 20.0
"""From the start of an attempt to its first step."""


@dataclass
class Attempt:
    """`nodes` are indices of the site; times are nanoseconds. `steps_end` is set by what stops it."""

    site: Site
    job_id: str
    number: int
    nodes: tuple[int, ...]
    start: int
    version: str
    step_s: float
    group_timeout_s: float
    name: str = "pretrain"
    steps_end: int | None = None
    slower_from: int | None = None
    """From here on a step takes twice as long."""
    end: int | None = None
    endangered_by: list[int] = field(default_factory=list)
    """Nodes whose port was down for about as long as NCCL waits: to interrupt would not have been wrong."""
    lines: list[Item] = field(default_factory=list)

    @cached_property
    def budget_s(self) -> float:
        """Seconds that a dead path is survived."""
        return transport_budget_s(self.version) or 30.0

    @cached_property
    def places(self) -> dict[int, int]:
        """Node -> its place in the attempt."""
        return {node: place for place, node in enumerate(self.nodes)}

    def rank(self, node: int, local: int = 0) -> int:
        return self.places[node] * self.site.gpus + local

    def others(self, *nodes: int) -> list[int]:
        return [n for n in self.nodes if n not in nodes]

    # -- what it prints --------------------------------------------------------------------------------

    def say(self, time: int, node: int, text: str, local: int | None = None) -> None:
        rank = None if local is None else self.rank(node, local)
        self.lines.append(JobLine(time, self.site.name(node), self.job_id, self.number, rank, text))

    def starts_up(self) -> None:
        for place, node in enumerate(self.nodes):
            at = self.start + from_seconds(5 + place * 0.0001)
            host = self.site.name(node)
            self.say(at, node, words.bootstrap(host, self.site.address(node)), 0)
            if place == 0:
                self.say(at, node, words.version(self.version), 0)

    def status_12(self, time: int, node: int, peer: int, port: int) -> None:
        local = port % self.site.gpus
        host, address = self.site.name(node), f"{self.site.address(peer)}<43148>"
        self.say(
            time, node, words.status_12(host, local, address, self.version, self.site.device(port)), local
        )

    def closed(self, time: int, node: int, peer: int, local: int) -> None:
        host = self.site.name(node)
        self.say(time, node, words.connection_closed(host, local, self.site.name(peer)), local)
        self.say(time + from_seconds(0.25), node, words.remote_error(self.rank(node, local)), local)

    def watchdog(self, time: int, node: int) -> None:
        self.say(time, node, words.watchdog(self.rank(node), self.group_timeout_s), 0)

    def raises(self, time: int, node: int, local: int, what: str) -> None:
        for line, text in enumerate(words.traceback(self.rank(node, local), what)):
            self.say(time + from_seconds(line * 1e-5), node, text, local)

    def torn_down(
        self, time: int, by: int | None, local: int = 0, how: str = "Aborted (core dumped)"
    ) -> None:
        first = self.nodes[0]
        if by is not None:
            self.say(time, first, words.task_died(self.site.name(by), self.rank(by, local), how))
        self.say(time + from_seconds(0.5), first, words.STEP_ABORTED)
        for node in self.nodes:
            if node != by:
                low = self.rank(node)
                text = words.tasks_terminated(self.site.name(node), low, low + self.site.gpus - 1)
                self.say(time + from_seconds(2), first, text)

    # -- what the scheduler says -----------------------------------------------------------------------

    def begins(self) -> JobChange:
        return JobChange(self.start, self._record("RUNNING"))

    def ends(
        self, state: JobState, time: int, exit_code: int | None = None, reason: str | None = None
    ) -> None:
        self.end = time
        self.lines.append(JobChange(time, self._record(state, exit_code, reason)))

    def _record(self, state: JobState, exit_code: int | None = None, reason: str | None = None) -> Job:
        names = [self.site.name(n) for n in self.nodes]
        devices = len(names) <= LARGEST_WITH_DEVICES
        indices: Sequence[int | str] = range(self.site.gpus)
        ports = [self.site.device(p) for p in range(self.site.ports)]
        ranks = None
        if len(names) <= LARGEST_WITH_RANKS:
            ranks = {
                str(self.rank(node, gpu)): RankPlace(node=self.site.name(node), gpu=gpu)
                for node in self.nodes
                for gpu in range(self.site.gpus)
            }
        return Job(
            job_id=self.job_id,
            attempt=self.number,
            name=self.name,
            scheduler="slurm",
            state=state,
            reason=reason,
            exit_code=exit_code,
            start=self.start,
            end=None if state == "RUNNING" else self.end,
            nodes=names,
            gpus={name: list(indices) for name in names} if devices else None,
            ports=dict.fromkeys(names, ports) if devices else None,
            ranks=ranks,
            nccl=NcclSettings(version=self.version),
            process_group_timeout_s=self.group_timeout_s,
            phase="pretraining",
        )
