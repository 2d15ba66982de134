"""An attempt as attribution sees it: its record, its evidence, and who is who in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Literal

from correlator.evidence.jobrecord import ENDED
from correlator.evidence.ranks import Ranks
from correlator.evidence.sketch import Group
from correlator.evidence.spans import Span
from correlator.evidence.store import EvidenceStore
from correlator.settings import CorrelatorSettings
from topics.nccl import UNCERTAIN_UNTIL, default_ib_timeout, parse_version, transport_budget_s
from topics.numbers import whole
from topics.payloads import Job
from topics.time import NS_PER_US, from_seconds

PROCESS_GROUP_TIMEOUT_S: Final = 600.0
"""PyTorch's default for NCCL groups (kProcessGroupNCCLDefaultTimeout)."""

_SOCKET: Final = re.compile(r"\[?(?P<host>[^\s<>\[\]]+?)\]?(?:<\d+>|\|\d+)?$")
_RANKS: Final = re.compile(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?")

Provenance = Literal["live", "replay", "synthetic"]


_LIBFABRIC: Final = frozenset({"OFI", "AWS Libfabric"})


@dataclass(frozen=True)
class AttemptView:
    """Everything that a verdict may depend on. Nothing in it changes while a verdict is computed."""

    job_id: str
    attempt: int
    store: EvidenceStore
    settings: CorrelatorSettings
    now: int
    provenance: Provenance = "live"

    @cached_property
    def job(self) -> Job | None:
        return self.store.job.job()

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.job.nodes) if self.job else ()

    @cached_property
    def node_set(self) -> frozenset[str]:
        return frozenset(self.nodes)

    @cached_property
    def start(self) -> int | None:
        return self.job.start if self.job else None

    @cached_property
    def ended(self) -> bool:
        return self.job is not None and self.job.state in ENDED

    @cached_property
    def end(self) -> int | None:
        """When the attempt ended, for one that has."""
        if not self.ended or self.job is None:
            return None
        return self.job.end if self.job.end is not None else self.store.job.meta("_time")

    def groups(self, kind: str) -> list[Group]:
        found = self.store.groups.get(kind)
        return [found[key] for key in sorted(found)] if found is not None else []

    def spans(self, signal: str) -> list[tuple[str, str, Span]]:
        """(node, entity, span) of one signal, in order of names and starts."""
        return self._spans.get(signal, [])

    @cached_property
    def _spans(self) -> dict[str, list[tuple[str, str, Span]]]:
        """Sorted once: rules ask signal by signal, and a wide attempt has spans of thousands of ports."""
        found: dict[str, list[tuple[str, str, Span]]] = {}
        for key, spans in sorted(self.store.spans.items(), key=itemgetter(0)):
            told = ((key[1], key[2], spans.by_since[which]) for which in sorted(spans.by_since))
            found.setdefault(key[0], []).extend(told)
        return found

    @cached_property
    def signal_names(self) -> frozenset[str]:
        return frozenset(key[0] for key in self.store.spans)

    # -- NCCL ------------------------------------------------------------------------------------------
    def _setting(self, name: str) -> Any:
        known = self.store.settings.get(name)
        return known[2] if known else None

    @cached_property
    def nccl_version(self) -> str | None:
        said = self.job.nccl.version if self.job and self.job.nccl else None
        learnt = self._setting("version")
        return said or (str(learnt) if learnt is not None else None)

    @cached_property
    def budget_s(self) -> float | None:
        """Seconds that the attempt's transport survives a dead path; None when that can't be known."""
        nccl = self.job.nccl if self.job else None
        timeout = nccl.ib_timeout if nccl and nccl.ib_timeout is not None else self._number("NCCL_IB_TIMEOUT")
        retries = (
            nccl.ib_retry_cnt if nccl and nccl.ib_retry_cnt is not None else self._number("NCCL_IB_RETRY_CNT")
        )
        return transport_budget_s(self.nccl_version, timeout, retries)

    def _number(self, name: str) -> int | None:
        value = self._setting(name)
        try:
            return int(value) if value is not None else None
        except (TypeError, ValueError):
            return None

    @cached_property
    def budget_band_ns(self) -> tuple[int, int]:
        """Shortest and longest time after which a dead path may have killed the attempt.

        Without a known budget the defaults of all NCCL versions span it.
        """
        budget = self.budget_s
        if budget is not None:
            return _microseconds(budget), _microseconds(budget * UNCERTAIN_UNTIL)
        shortest = transport_budget_s(ib_timeout=default_ib_timeout("2.3.5")) or 0.47
        longest = transport_budget_s(ib_timeout=default_ib_timeout("2.99.0")) or 30.07
        return _microseconds(shortest), _microseconds(longest * UNCERTAIN_UNTIL)

    @cached_property
    def failover(self) -> bool:
        """Whether NCCL moves traffic off a dead port (2.30 and later, off by default)."""
        if self.job and self.job.nccl and self.job.nccl.failover is not None:
            return self.job.nccl.failover
        value = str(self._setting("NCCL_IB_RESILIENCY_PORT_FAILOVER") or "0")
        version = parse_version(self.nccl_version) if self.nccl_version else None
        return value not in ("0", "False") and (version is None or version >= (2, 30, 0))

    @cached_property
    def network(self) -> str | None:
        """What NCCL says that it uses: `IB` (RoCE as well), `Socket`, `OFI` (EFA)."""
        net = self._setting("net")
        return net.split("/")[0].strip() if isinstance(net, str) else None

    @cached_property
    def bears_ns(self) -> tuple[int, int]:
        """Shortest and longest outage of a port that may have ended the attempt: NCCL gives up, or
        PyTorch's watchdog, whose collective waits for the port. EFA has no budget of its own."""
        watchdog = _microseconds(self.group_timeout_s)
        low, high = (watchdog, watchdog) if self.network in _LIBFABRIC else self.budget_band_ns
        return min(low, watchdog), min(high, watchdog)

    @cached_property
    def group_timeout_s(self) -> float:
        if self.job and self.job.process_group_timeout_s is not None:
            return self.job.process_group_timeout_s
        return PROCESS_GROUP_TIMEOUT_S

    # -- who is who ------------------------------------------------------------------------------------
    @property
    def ranks(self) -> Ranks:
        return self.store.job.ranks

    @cached_property
    def _ranks_by_gpu(self) -> dict[str, dict[str, int]]:
        """Node -> GPU -> rank, for the nodes that were asked for."""
        return {}

    def rank_on(self, node: str, *gpu: int | str | None) -> int | None:
        """The rank that runs on one of the names of a GPU."""
        known = self._ranks_by_gpu.get(node)
        if known is None:
            known = {str(name): rank for rank, name in self.ranks.on(node) if name is not None}
            self._ranks_by_gpu[node] = known
        return next((known[str(name)] for name in gpu if name is not None and str(name) in known), None)

    def node_of_rank(self, rank: int) -> str | None:
        placed = self.ranks.get(rank)
        return placed[0] if placed else self._spoken.get(rank)

    @cached_property
    def _spoken(self) -> dict[int, str]:
        """rank -> node, as the ranks' own lines tell where the record does not."""
        return {
            found.rank: found.node
            for group in self.groups("log")
            for found in group.occurrences()
            if found.rank is not None and found.node is not None
        }

    @cached_property
    def world_size(self) -> int:
        return len(self.ranks)

    def node_named(self, host: str) -> str | None:
        """A node of the attempt by the name, full name or address that somebody prints."""
        if host in self.node_set:
            return host
        short = host.split(".", 1)[0]
        if short in self.node_set:
            return short
        known = self.store.addresses.get(host)
        return known[2] if known else None

    def node_of_peer(self, peer: str) -> str | None:
        """`10.20.0.7<43148>`, `node-05.c1.example<54317>`, `rank/3` -> node."""
        if peer.startswith("rank/") and (rank := whole(peer[5:])) is not None:
            return self.node_of_rank(rank)
        match = _SOCKET.match(peer.strip())
        if match is None:
            return None
        host = match["host"]
        found = self.node_named(host)
        if found is None and ":" in host:
            found = self.node_named(host.rpartition(":")[0].strip("[]"))
        return found

    def uses_gpu(self, node: str, *names: int | str | None) -> bool:
        """Whether the attempt uses the GPU with one of these names; True where that can't be told."""
        used = (self.job.gpus or {}).get(node) if self.job else None
        if used is None:
            return True
        known = [name for name in names if name is not None]
        if any(name in used or str(name) in map(str, used) for name in known):
            return True
        kinds = {type(name) for name in used}
        return not any(type(name) in kinds for name in known)

    def uses_port(self, node: str, entity: str) -> bool:
        """`port/mlx5_3/1`: whether the attempt uses the device; True where that can't be told."""
        used = (self.job.ports or {}).get(node) if self.job else None
        parts = entity.split("/")
        return used is None or len(parts) < 2 or parts[1] in used or "/".join(parts[1:]) in used

    # -- clocks ----------------------------------------------------------------------------------------
    @cached_property
    def _skews(self) -> dict[str, int]:
        skews: dict[str, int] = {}
        for node, _, span in self.spans("clock_skew"):
            if span.value is not None:
                skews[node] = max(skews.get(node, 0), from_seconds(abs(span.value)))
        return skews

    def eps(self, *nodes: str | None) -> int:
        """How far the clocks of these nodes may be apart from true time (the worst of them)."""
        least = from_seconds(self.settings.clock_eps_s)
        return max([least, *(self._skews.get(node, 0) for node in nodes if node)])

    @cached_property
    def widest_eps(self) -> int:
        return max([from_seconds(self.settings.clock_eps_s), *self._skews.values()])

    # -- coverage --------------------------------------------------------------------------------------
    def collector(self, node: str, collector: str, at: int) -> tuple[str, str]:
        """(status, reason) of a node's collector at a time; `unheard` for a node that never spoke."""
        book = self.store.coverage
        if not book.heard(node):
            return "unheard", "no heartbeat of this node was ever received"
        said = book.at(node, at)
        if collector in said:
            return said[collector]
        return "absent", f"the node reports no {collector} collector"

    def lives(self, node: str) -> bool:
        """Whether heartbeats tell of the node's life. One whose logs were only read afterwards has an `agent`
        that is absent: it tells what was read, and nothing about life."""
        book = self.store.coverage
        return book.heard(node) and book.at(node, self.now).get("agent", ("ok", ""))[0] != "absent"

    def blind(self, node: str, at: int, collectors: tuple[str, ...]) -> list[tuple[str, str, str]]:
        """Those of the collectors that could not see on `node` at `at`: (collector, status, reason)."""
        return [
            (name, *found)
            for name in collectors
            if (found := self.collector(node, name, at))[0] not in ("ok", "degraded")
        ]


def gpu_entity(uuid: str | None, index: int | None, bdf: str | None) -> str:
    """The contract's name of a GPU by what is known of it."""
    if uuid:
        return f"gpu/{uuid}"
    return f"gpu/{index}" if index is not None else f"pci/{bdf}"


def rank_list(text: str) -> list[int]:
    """`1, 3-5` -> [1, 3, 4, 5]; ranges of more than 4096 are taken by their ends."""
    ranks: list[int] = []
    for first, last in _RANKS.findall(text):
        low, high = int(first), int(last or first)
        ranks += range(low, high + 1) if 0 <= high - low <= 4096 else [low, high]
    return ranks


def _microseconds(s: float) -> int:
    """In whole microseconds, as event times are."""
    return from_seconds(s) // NS_PER_US * NS_PER_US
