"""Small builders of raw events, and a harness that plays them into node processors like Kafka would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streams.engine.api import Output, SourceRef
from streams.processor import NodeProcessor
from streams.signals.settings import SignalSettings
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.derived import Signal
from topics.events import Event, make
from topics.ids import fact_id
from topics.payloads import (
    CollectorStatus,
    Heartbeat,
    IbPort,
    Levels,
    NcclSettings,
    PlacedAttempt,
    Placement,
    Xid,
)
from topics.time import NS_PER_S

T0 = 1_770_000_000 * NS_PER_S
"""Second 0 of the tests."""
CLUSTER = "c1"
NODE = "node-01"


def at(seconds: float) -> int:
    return T0 + round(seconds * 1_000_000) * 1000


def raw(
    data: Any, seconds: float, *, node: str = NODE, subject: str = "node", **attributes: Any
) -> Event[Any]:
    """A raw event; the same content gives the same id, as in real life."""
    time = at(seconds)
    return make(
        data,
        id=fact_id(node, subject, data.kind, time, data.model_dump_json()),
        source=f"/{CLUSTER}/{node}/test",
        subject=subject,
        time=time,
        key=node,
        **attributes,
    )


def port_event(
    device: str,
    state: str,
    seconds: float,
    *,
    node: str = NODE,
    phys: str | None = None,
    was: str | None = None,
    missed: int | None = None,
    by: str | None = None,
    **attributes: Any,
) -> Event[IbPort]:
    data = IbPort(
        device=device,
        port=1,
        link_layer="InfiniBand",
        state=state,  # type: ignore[arg-type]
        phys_state=phys,
        previous_state=was,
        missed_transitions=missed,
        written_by=by,  # type: ignore[arg-type]
        via="kmsg" if by else "netlink",
    )
    return raw(data, seconds, node=node, subject=f"port/{device}/1", **attributes)


def beat(
    seconds: float,
    ports: dict[str, str] | None = None,
    *,
    node: str = NODE,
    interval: float = 10.0,
    boot: str = "boot-1",
    uptime: float | None = None,
    collectors: dict[str, str] | None = None,
    nvlinks: dict[str, str] | None = None,
    throttle: dict[str, list[str]] | None = None,
    **attributes: Any,
) -> Event[Heartbeat]:
    data = Heartbeat(
        boot_id=boot,
        uptime_s=seconds + 1_000_000.0 if uptime is None else uptime,
        interval_s=interval,
        inventory_version=1,
        state=Levels(
            ports={f"{d}/1": s for d, s in (ports or {}).items()},
            nvlinks=nvlinks or {},
            throttle=throttle or {},
        ),
        collectors={
            name: CollectorStatus(status=status)  # type: ignore[arg-type]
            for name, status in (collectors or {"kmsg": "ok"}).items()
        },
    )
    return raw(data, seconds, node=node, **attributes)


def placed(
    seconds: float,
    *jobs: tuple[str, int],
    node: str = NODE,
    since: float = 0.0,
    until: float | None = None,
    nccl: NcclSettings | None = None,
    ports: list[str] | None = None,
    gpus: list[int | str] | None = None,
) -> Event[Placement]:
    attempts = [
        PlacedAttempt(
            job_id=job,
            attempt=attempt,
            since=at(since),
            until=None if until is None else at(until),
            nccl=nccl or NcclSettings(version="2.21.5"),
            ports=ports,
            gpus=gpus,
        )
        for job, attempt in jobs
    ]
    return raw(Placement(attempts=attempts), seconds, node=node)


def xid(code: int, seconds: float, *, gpu: str = "GPU-0", node: str = NODE, **fields: Any) -> Event[Xid]:
    attributes = {k: fields.pop(k) for k in ("drill", "provenance") if k in fields}
    known: dict[str, Any] = {
        "severity": "fatal",
        "attribution": "hardware",
        "resolution": "RESET_GPU",
        "mnemonic": "TEST",
        "pci_bdf": "0000:1b:00.0",
        "message": f"Xid {code}",
        "via": "kmsg",
    }
    data = Xid(**{**known, "xid": code, "gpu_uuid": gpu, **fields})
    return raw(data, seconds, node=node, subject=f"gpu/{gpu}", **attributes)


class Fleet:
    """Processors, each with its share of the nodes, and the state store that survives them.

    Records are handed in with a clock that only goes forward; deadlines between them fire at their time.
    """

    def __init__(self, processors: int = 1, settings: SignalSettings | None = None) -> None:
        self.settings = settings
        self.processors = [NodeProcessor(settings) for _ in range(processors)]
        self.store: dict[str, bytes] = {}
        self.outputs: list[Output] = []
        self.now = 0
        self.offset = 0

    def owner(self, node: str) -> NodeProcessor:
        return self.processors[sum(node.encode()) % len(self.processors)]

    def put(self, *events: Event[Any], now: float | None = None) -> list[Output]:
        """One record: all events of one node and topic, at `now` (seconds) or the last one's time."""
        moment = max(e.time for e in events) if now is None else at(now)
        before = len(self.outputs)
        self.advance_to(moment)
        self._hand_in(RAW_TOPIC_OF_KIND[events[0].kind], events[0].partitionkey, list(events))
        return self.outputs[before:]

    def _hand_in(self, topic: str, key: str, events: list[Event[Any]]) -> None:
        self.offset += 1
        source = SourceRef(topic, 0, self.offset, self.now)
        effects = self.owner(key).on_record(key, source, events, self.now)
        if effects.state is not None:
            self.store[key] = effects.state
        self._emit(effects.outputs)

    def _emit(self, outputs: Sequence[Output]) -> None:
        """What goes to a topic that the core reads comes back as a record, as it would on Kafka."""
        self.outputs += outputs
        for output in outputs:
            if output.topic in NodeProcessor.sources:
                self._hand_in(output.topic, output.key, [output.event])

    def play(self, events: Iterable[Event[Any]]) -> None:
        for event in sorted(events, key=lambda e: e.time):
            self.put(event)

    def advance(self, seconds: float) -> list[Output]:
        before = len(self.outputs)
        self.advance_to(at(seconds))
        return self.outputs[before:]

    def advance_to(self, moment: int) -> None:
        while True:
            due = min((d for p in self.processors if (d := p.next_due()) is not None), default=None)
            if due is None or due > moment:
                break
            self.now = max(self.now, due)
            for processor in self.processors:
                self._emit(processor.on_due(self.now))
        self.now = max(self.now, moment)

    def restart(self, processors: int | None = None) -> None:
        """All workers die; others take over what had been written."""
        self.processors = [NodeProcessor(self.settings) for _ in range(processors or len(self.processors))]
        for node, state in self.store.items():
            self.owner(node).load(node, state)

    def signals(self, *names: str) -> list[Event[Signal]]:
        """What a subscriber of `signals` holds to be true: each id once, corrected ones dropped."""
        events: dict[str, Event[Signal]] = {}
        wrong: set[str] = set()
        corrections: dict[str, list[str]] = {}
        for output in self.outputs:
            if output.topic == "signals":
                if output.event.id in events:
                    continue
                events[output.event.id] = output.event
                named = corrections[output.event.id] = output.event.data.detail.get("corrects", [])
                wrong.update(named)
                wrong.difference_update(x for name in named for x in corrections.get(name, ()))
        return [
            e
            for e in events.values()
            if e.id not in wrong
            and not e.data.detail.get("retracted")
            and e.data.level != "corrected"
            and (not names or e.data.signal in names)
        ]

    def told(self, *names: str) -> list[tuple[str, str, str | None, float | None]]:
        """`(signal, state, level, value)` in order."""
        return [(e.data.signal, e.data.state, e.data.level, e.data.value) for e in self.signals(*names)]


def health_states(outputs: Sequence[Output], node: str = NODE) -> list[str]:
    """The states that a node went through, each id once."""
    seen: dict[str, str] = {}
    for o in outputs:
        if o.topic == "health" and o.key == node:
            seen.setdefault(o.event.id, o.event.data.state)
    return list(seen.values())


def evidence(outputs: Sequence[Output], job: str | None = None) -> list[Event[Any]]:
    return [o.event for o in outputs if o.topic == "evidence" and (job is None or o.key == job)]
