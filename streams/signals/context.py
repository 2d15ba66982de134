"""What a detector may ask about the node it looks at, beside its own state."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streams.clock import NodeClock
from streams.placement import Placements, Use
from streams.signals.beside import Beside
from streams.signals.counters import Counters
from streams.signals.history import History
from streams.signals.samples import Samples
from streams.signals.sequences import Sequences
from streams.signals.thresholds import Effective
from topics.events import Event
from topics.numbers import whole
from topics.payloads import Gpu, Heartbeat, Payload, Placement, Xid
from topics.time import from_seconds

KEPT_BEATS: Final = 64
MAX_LINKS: Final = 64
"""No GPU has as many; a link with a higher number is said by mistake."""


@dataclass(frozen=True, slots=True, order=True)
class Beat:
    """What one heartbeat said about levels; equal maps are shared between beats."""

    time: int
    id: str = field(compare=False)
    ports: Mapping[str, str] = field(compare=False)
    collectors: Mapping[str, str] = field(compare=False)
    nvlinks: Mapping[str, str] = field(compare=False)
    throttle: Mapping[str, Sequence[str]] = field(compare=False)
    drill: bool = field(compare=False, default=False)


@dataclass(slots=True)
class Device:
    """A GPU as far as its events told: what joins its names."""

    index: int | None = None
    pci_bdf: str | None = None
    model: str | None = None


@dataclass(slots=True)
class Context:
    """Facts about one node that several detectors share. Rebuilt from events; bounded."""

    cluster: str
    node: str
    thresholds: Effective
    clock: NodeClock = field(default_factory=NodeClock)
    now: int = 0
    """Our time at the record being applied."""
    resumed: int = 0
    """Our time at which the node was first heard of here, or taken over."""
    told_before: int = 0
    """Up to when, in the node's time as they knew it, its former owners may have told what was due."""
    values: dict[tuple[str, str, str | None], float] = field(default_factory=dict)
    """Thresholds looked up so far; emptied when a GPU's model becomes known."""
    known: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Per detector the entities that it keeps a state of."""
    placements: Placements = field(default_factory=Placements)
    beats: list[Beat] = field(default_factory=list)
    gpus: dict[str, Device] = field(default_factory=dict)
    ports_active: dict[str, int] = field(default_factory=dict)
    """When a port was first known to be ACTIVE. One that never was is not cabled, not broken."""
    links_active: dict[str, int] = field(default_factory=dict)
    """Per GPU a bit mask of the NVLinks that were ever active in sight."""
    quiet_links: Mapping[str, str] | None = None
    """The last heartbeat's links, when all of them were well."""
    throttle_read: dict[str, int] = field(default_factory=dict)
    """Per GPU when its throttle counters were read last."""
    beside: Beside = field(default_factory=Beside)
    """The last full sample of each GPU."""
    gradients: dict[str, History] = field(default_factory=dict)
    """Per GPU how its memory's temperature used to stand against its core's."""
    sequences: Sequences = field(default_factory=Sequences)
    counters: Counters = field(default_factory=Counters)
    samples: Samples = field(default_factory=Samples)
    boot_id: str | None = None
    boot_time: int | None = None
    high_water: int = 0
    """Latest event time seen."""
    late: int = 0
    """Observations refused because they came later than the allowed lateness."""
    changed: bool = False
    """Something here must survive a restart and has changed."""

    @property
    def oldest(self) -> int:
        """What is older than this comes too late."""
        return self.high_water - self.thresholds.ns("general", "allowed_lateness")

    def ns(self, signal: str, name: str, gpu: str | None = None) -> int:
        """A threshold in nanoseconds, for this GPU's model if one is named."""
        return self.thresholds.ns(signal, name, self.model_of(gpu) if gpu else None)

    def value(self, signal: str, name: str, gpu: str | None = None) -> float:
        found = self.values.get((signal, name, gpu))
        if found is None:
            found = self.thresholds.value(signal, name, self.model_of(gpu) if gpu else None)
            self.values[signal, name, gpu] = found
        return found

    def model_of(self, uuid: str) -> str | None:
        device = self.gpus.get(uuid)
        return device.model if device else None

    def booting(self, time: int) -> bool:
        """Links and ports come up in the first minutes after a boot; that they are not yet is no fault."""
        return self.boot_time is not None and 0 <= time - self.boot_time < self.ns("general", "boot_grace")

    def since_beat(self, time: int, port: str) -> int:
        """How long before `time` the port's level was last told; 0 when it never was."""
        for beat in reversed(self.beats[: bisect_left(self.beats, time, key=_time)]):
            if port in beat.ports:
                return time - beat.time
        return 0

    def link_active(self, name: str) -> None:
        """An NVLink, `<gpu uuid>/<link>`, was active."""
        gpu, _, link = name.rpartition("/")
        known, number = self.links_active.get(gpu, 0), whole(link, MAX_LINKS)
        if number is not None and not known >> number & 1:
            self.links_active[gpu] = known | 1 << number
            self.changed = True

    def link_was_active(self, name: str) -> bool:
        gpu, _, link = name.rpartition("/")
        number = whole(link, MAX_LINKS)
        return number is not None and bool(self.links_active.get(gpu, 0) >> number & 1)

    def links_of(self, beat: Event[Heartbeat]) -> Mapping[str, str]:
        """Its NVLink levels; the same object as last time when they are the same."""
        last = self.beats[-1] if self.beats else None
        return last.nvlinks if last is not None and last.time == beat.time else beat.data.state.nvlinks

    def job_on(self, subject: str, time: int) -> str | None:
        """The job that used this GPU then; None if none did, or it can't be told."""
        jobs = {u.job_id for u in self.placements.uses if u.running_at(time) and self.uses_gpu(u, subject)}
        return min(jobs, default=None) if len(jobs) == 1 else None

    def uses_gpu(self, use: Use, subject: str) -> bool:
        """The attempt uses the GPU `gpu/<uuid or index>`, or nobody can tell which ones it uses."""
        if use.gpus is None:
            return True
        name = subject.removeprefix("gpu/")
        names = {name}
        device = self.gpus.get(name)
        if device is not None and device.index is not None:
            names.add(str(device.index))
        names |= {uuid for uuid, d in self.gpus.items() if d.index is not None and str(d.index) == name}
        used = {str(g) for g in use.gpus}
        if names & used:
            return True
        named_alike = name.isdigit() == all(g.isdigit() for g in used)
        return not named_alike and len(names) == 1  # an index against UUIDs, and nothing joins them

    def learn(self, event: Event[Any]) -> None:
        """Take in what an event says about the node as such."""
        self.high_water = max(self.high_water, event.time)
        learner = _LEARNERS.get(type(event.data))
        if learner is not None:
            learner(self, event)

    def _learn_xid(self, event: Event[Xid]) -> None:
        data = event.data
        if data.gpu_uuid is not None:
            self._learn_device(data.gpu_uuid, data.gpu_index, data.pci_bdf, None)

    def _learn_gpu(self, event: Event[Gpu]) -> None:
        data = event.data
        self.samples.learn(event)
        self.beside.learn(event.time, data, self)
        self._learn_device(data.gpu_uuid, data.index, data.pci_bdf, data.model)

    def _learn_placement(self, event: Event[Placement]) -> None:
        self.placements = self.placements.with_list(event.time, event.data.attempts)

    def _learn_beat(self, event: Event[Heartbeat]) -> None:
        data = event.data
        if self.boot_time is None or data.boot_id != self.boot_id:
            boot = event.time - from_seconds(max(data.uptime_s, 0.0))
            if self.boot_time is None or boot > self.boot_time:
                self.boot_id, self.boot_time = data.boot_id, boot
                self.changed = True
        ports: Mapping[str, str] = data.state.ports
        collectors: Mapping[str, str] = {n: c.status for n, c in data.collectors.items()}
        nvlinks: Mapping[str, str] = data.state.nvlinks
        throttle: Mapping[str, Sequence[str]] = data.state.throttle
        if self.beats:
            last = self.beats[-1]
            ports = last.ports if ports == last.ports else ports
            collectors = last.collectors if collectors == last.collectors else collectors
            nvlinks = last.nvlinks if nvlinks == last.nvlinks else nvlinks
            throttle = last.throttle if throttle == last.throttle else throttle
        if nvlinks is data.state.nvlinks:
            for name, level in nvlinks.items():
                if level == "active":
                    self.link_active(name)
        if ports is data.state.ports or event.time < self.beats[-1].time:
            for name, level in ports.items():
                if level == "ACTIVE" and self.ports_active.get(name, event.time + 1) > event.time:
                    self.changed |= name not in self.ports_active
                    self.ports_active[name] = event.time
        beat = Beat(event.time, event.id, ports, collectors, nvlinks, throttle, bool(event.drill))
        if not self.beats or event.time > self.beats[-1].time:
            self.beats.append(beat)
            if len(self.beats) > KEPT_BEATS or self.beats[0].time < self.oldest:
                del self.beats[0]
        elif not any(b.time == event.time for b in self.beats):
            insort(self.beats, beat)

    def _learn_device(self, uuid: str, index: int | None, bdf: str | None, model: str | None) -> None:
        device = self.gpus.get(uuid)
        if device is None:
            device = self.gpus[uuid] = Device()
        for name, value in (("index", index), ("pci_bdf", bdf), ("model", model)):
            if value is not None and getattr(device, name) != value:
                setattr(device, name, value)
                self.changed = True
                self.values.clear()

    def dump(self) -> Any:
        return {
            "hw": self.high_water,
            "clock": self.clock.offset,
            "told": self.told_before,
            "boot": [self.boot_id, self.boot_time],
            "ports": self.ports_active,
            "links": self.links_active,
            "counters": self.counters.dump(),
            "gradients": {u: [[k, n] for k, n in sorted(h.bins.items())] for u, h in self.gradients.items()},
            "gpus": {u: [d.index, d.pci_bdf, d.model] for u, d in self.gpus.items()},
            "place": self.placements.dump(),
        }

    def restore(self, raw: Any) -> None:
        self.high_water = raw["hw"]
        self.clock = NodeClock(raw["clock"])
        self.told_before = raw.get("told", 0)
        self.boot_id, self.boot_time = raw["boot"]
        self.ports_active = dict(raw["ports"])
        self.links_active = dict(raw["links"])
        self.counters = Counters.load(raw["counters"])
        self.gradients = {u: History(dict(bins)) for u, bins in raw["gradients"].items()}
        self.gpus = {u: Device(*d) for u, d in raw["gpus"].items()}
        self.placements = Placements.load(raw["place"])


def _time(beat: Beat) -> int:
    return beat.time


_LEARNERS: Final[dict[type[Payload], Callable[[Context, Event[Any]], None]]] = {
    Heartbeat: Context._learn_beat,
    Gpu: Context._learn_gpu,
    Xid: Context._learn_xid,
    Placement: Context._learn_placement,
}
