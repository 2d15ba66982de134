"""What every healthy node says all the time: heartbeats, and full samples of its GPUs.

Nearly all traffic of a fleet is this, so it is built from templates; a node that has something else to
say gets its heartbeat built whole. Nothing is kept per node but its place in the order of phases.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from faultwire.simulate.facts import Facts
from faultwire.simulate.items import Batch
from faultwire.simulate.levels import NodeLevels
from faultwire.simulate.wire import MARK_NUMBER, MARK_TIME, Template, mark
from topics import ids
from topics.time import NS_PER_S, NS_PER_US, format_rfc3339, from_seconds

VARIANTS: Final = 8
"""Different samples that take turns; enough that no two neighbours say the same."""

UPTIME_S: Final = 500_000.0
"""How long the nodes have been up when the simulation begins."""


class Background:
    """The steady traffic of a site from `start` to `end`, in order of time."""

    def __init__(
        self,
        facts: Facts,
        start: int,
        end: int,
        *,
        interval_s: float = 10.0,
        sample_s: float | None = 30.0,
        levels: Mapping[int, NodeLevels] | None = None,
    ) -> None:
        self.facts = facts
        self.site = facts.site
        self.start = start
        self.end = end
        self.interval_s = interval_s
        self.sample_s = sample_s
        self.levels = levels or {}

    def heartbeats(self) -> Iterator[Batch]:
        """One record a node and interval."""
        cluster = self.site.cluster
        for time, node in self._turns(from_seconds(self.interval_s)):
            known = self.levels.get(node)
            if known is not None and not known.heard(time):
                continue
            name = self.site.name(node)
            levels = self._healthy.replace(b"@tag@", self.site.tag(node).encode())
            if known is not None:
                levels = self._changed(levels, node, time, known)
            values = {
                "time": format_rfc3339(time).encode(),
                "number": b"%.1f" % self._uptime(time),
                "node": name.encode(),
                "boot": self.site.boot_id(node).encode(),
                "id": ids.transition_id(cluster, name, "node", "heartbeat", time, "heartbeat").encode(),
                "levels": levels,
            }
            yield Batch(time, "raw.node", name, self._beat.fill(values), 1)

    def samples(self) -> Iterator[Batch]:
        """Counters of all GPUs of a node in one record, and their clock-event masks in another."""
        if self.sample_s is None:
            return
        for number, (time, node) in enumerate(self._turns(from_seconds(self.sample_s))):
            known = self.levels.get(node)
            if known is not None and not known.heard(time):
                continue
            name = self.site.name(node)
            values = {
                "time": format_rfc3339(time).encode(),
                "node": name.encode(),
                "tag": self.site.tag(node).encode(),
            }
            subjects = [f"gpu/{self.site.uuid(node, gpu)}" for gpu in range(self.site.gpus)]
            values |= self._ids(subjects, name, "gpu", time, "sample")
            gpus = self._gpus[number % VARIANTS]
            yield Batch(time, "raw.gpu", name, gpus.fill(values), gpus.size)
            if known is not None and known.throttle_at(time):
                continue  # the edges have told; a sample that says otherwise would be false
            values |= self._ids(subjects, name, "throttle", time, "0x0")
            yield Batch(time, "raw.throttle", name, self._masks.fill(values), self._masks.size)

    # -- inside ----------------------------------------------------------------------------------------

    def _turns(self, interval: int) -> Iterator[tuple[int, int]]:
        """(time, node): each node once an interval, at a phase of its own."""
        tags = sorted((int(self.site.tag(n), 16), n) for n in range(self.site.nodes))
        nodes = array("I", (n for _, n in tags))
        phases = array("Q", (tag * interval // 2**32 // NS_PER_US * NS_PER_US for tag, _ in tags))
        begin = self.start
        while begin < self.end:
            for phase, node in zip(phases, nodes, strict=True):
                if begin + phase >= self.end:
                    return
                yield begin + phase, node
            begin += interval

    def _uptime(self, time: int) -> float:
        return UPTIME_S + (time - self.start) / NS_PER_S

    def _ids(self, subjects: list[str], name: str, kind: str, time: int, state: str) -> dict[str, bytes]:
        cluster = self.site.cluster
        return {
            f"id{gpu}": ids.transition_id(cluster, name, subject, kind, time, state).encode()
            for gpu, subject in enumerate(subjects)
        }

    def _changed(self, levels: bytes, node: int, time: int, known: NodeLevels) -> bytes:
        """The healthy levels with what is otherwise at that time."""
        site = self.site
        for port, state in known.ports_at(time).items():
            levels = _put(levels, f"{site.device(port)}/1", b'"ACTIVE"', f'"{state}"')
        for (gpu, link), state in known.links_at(time).items():
            levels = _put(levels, f"{site.uuid(node, gpu)}/{link}", b'"active"', f'"{state}"')
        for gpu, reasons in known.throttle_at(time).items():
            told = ",".join(f'"{reason}"' for reason in reasons)
            levels = _put(levels, site.uuid(node, gpu), b"[]", f"[{told}]")
        return levels

    @cached_property
    def _beat(self) -> Template:
        """A heartbeat whose levels, long and the same on every healthy node but for its tag, are one slot."""
        event = self.facts.heartbeat(
            0, MARK_TIME, boot_id=mark("boot"), uptime_s=MARK_NUMBER, interval_s=self.interval_s,
            ports={mark("levels"): "ACTIVE"}, nvlinks={}, throttle={}, name=mark("node"),
        )  # fmt: skip
        return _LevelsTemplate([event.model_copy(update={"id": mark("id")})])

    @cached_property
    def _healthy(self) -> bytes:
        tails = [f"GPU-{mark('tag')}{self.site.tail(gpu)}" for gpu in range(self.site.gpus)]
        event = self.facts.heartbeat(
            0, self.start, boot_id="", uptime_s=0.0, interval_s=self.interval_s,
            ports={f"{self.site.device(p)}/1": "ACTIVE" for p in range(self.site.ports)},
            nvlinks={f"{uuid}/{link}": "active" for uuid in tails for link in range(self.site.nvlinks)},
            throttle={uuid: [] for uuid in tails},
        )  # fmt: skip
        return event.data.state.model_dump_json().encode()  # type: ignore[no-any-return]

    @cached_property
    def _gpus(self) -> list[Template]:
        return [
            Template(
                [
                    self.facts.gpu(
                        f"GPU-{mark('tag')}{self.site.tail(gpu)}", gpu, MARK_TIME, mark("node"),
                        warm=((gpu * 5 + variant * 3) % VARIANTS) / VARIANTS,
                    ).model_copy(update={"id": mark(f"id{gpu}")})
                    for gpu in range(self.site.gpus)
                ]
            )
            for variant in range(VARIANTS)
        ]  # fmt: skip

    @cached_property
    def _masks(self) -> Template:
        return Template(
            [
                self.facts.mask(
                    f"GPU-{mark('tag')}{self.site.tail(gpu)}", MARK_TIME, mark("node")
                ).model_copy(update={"id": mark(f"id{gpu}")})
                for gpu in range(self.site.gpus)
            ]
        )


def _put(levels: bytes, key: str, before: bytes, after: str) -> bytes:
    head = f'"{key}":'.encode()
    changed = levels.replace(head + before, head + after.encode(), 1)
    if changed == levels:
        raise AssertionError(f"a heartbeat has no {key}")
    return changed


class _LevelsTemplate(Template):
    """The slot `levels` is the whole object in which its mark stands."""

    def _text(self, text: bytes) -> bytes:
        whole = b'{"ports":{"@levels@":"ACTIVE"},"nvlinks":{},"throttle":{}}'
        if whole not in text:
            raise AssertionError("the levels of a heartbeat are written otherwise than expected")
        return text.replace(whole, b"@levels@")
