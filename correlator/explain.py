"""From a kernel line to an action: the chain behind a verdict, from the events alone.

Every derived event names its causes by id: an action its attribution and evidence, a verdict's symptoms
their evidence, a signal the raw events behind it. Pure: whoever calls it brings the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from topics.derived import Action, Attribution, Health, Signal, Symptom
from topics.events import Event
from topics.payloads import Aer, Check, IbPort, Job, Kernel, Log, Sxid, Xid
from topics.time import format_rfc3339

What = Literal["action", "verdict", "symptom", "signal", "raw", "unknown"]
MOST_CHILDREN: Final = 40


@dataclass(slots=True)
class Link:
    """One element of a chain, with what it rests on below it."""

    what: What
    id: str
    title: str
    time: int | None = None
    note: str | None = None
    children: list[Link] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"what": self.what, "id": self.id, "title": self.title}
        if self.time is not None:
            told["time"] = format_rfc3339(self.time)
        if self.note:
            told["note"] = self.note
        if self.children:
            told["children"] = [child.to_dict() for child in self.children]
        return told


class Chains:
    """Answers over a set of events; of a verdict's revisions the last one counts."""

    def __init__(self, events: Iterable[Event[Any]]) -> None:
        self._by_id: dict[str, Event[Any]] = {}
        for event in events:
            self._by_id.setdefault(event.id, event)
        self._verdicts: dict[tuple[str, int], Event[Attribution]] = {}
        for event in self._by_id.values():
            if isinstance(event.data, Attribution):
                key = (event.data.job_id, event.data.attempt)
                known = self._verdicts.get(key)
                if known is None or event.data.revision > known.data.revision:
                    self._verdicts[key] = event

    def of_job(self, job_id: str) -> list[Link]:
        """Per attempt its last verdict with what it rests on, and the actions that came of it."""
        return [
            self._of_verdict(event, with_actions=True)
            for (job, _), event in sorted(self._verdicts.items())
            if job == job_id
        ]

    def of_event(self, event_id: str) -> list[Link]:
        """An event with what it rests on; below a raw event or a signal stands what rests on it."""
        event = self._by_id.get(event_id)
        if event is None:
            return []
        link = self._link(event)
        if not isinstance(event.data, Action | Attribution):
            link.children += self._users(event_id, set())
        return [link]

    def _link(self, event: Event[Any]) -> Link:
        if isinstance(event.data, Action):
            return self._of_action(event)
        if isinstance(event.data, Attribution):
            return self._of_verdict(event, with_actions=False)
        if isinstance(event.data, Signal):
            return self._of_signal(event)
        return Link("raw", event.id, describe(event), event.time, _note(event))

    def _of_action(self, event: Event[Action]) -> Link:
        refused = [f"{g.guard}: {g.detail}" for g in event.data.guards if not g.passed]
        note = "refused: " + "; ".join(refused) if refused else ("dry run" if event.data.dry_run else None)
        return Link(
            "action", event.id, describe(event), event.time, note, self._all(event.data.because, {event.id})
        )

    def _of_verdict(self, event: Event[Attribution], *, with_actions: bool) -> Link:
        data = event.data
        children = [self._of_symptom(s) for s in (*data.active, *data.interesting)[:MOST_CHILDREN]]
        if with_actions:
            ids = {
                e.id
                for e in self._by_id.values()
                if isinstance(e.data, Attribution)
                and (e.data.job_id, e.data.attempt) == (data.job_id, data.attempt)
            }
            actions = [
                e for e in self._by_id.values() if isinstance(e.data, Action) and ids & set(e.data.because)
            ]
            for action in sorted(actions, key=lambda e: (e.time, e.id)):
                told = self._of_action(action)
                told.children = []  # what it rests on stands beside it
                children.append(told)
        note = f"{data.phase}, revision {data.revision}; rules: {', '.join(data.rules) or 'none'}"
        return Link("verdict", event.id, describe(event), data.onset or event.time, note, children)

    def _of_symptom(self, s: Symptom) -> Link:
        where = " ".join(x for x in (s.node, s.entity if s.entity != "node" else None) if x)
        peer = f" blames {s.peer}" if s.peer else ""
        note = f"{s.demoted_by}: {s.reason}" if s.demoted_by else ("cause" if s.tier <= 5 else None)
        title = f"{s.code} {where}{peer}".strip()
        return Link(
            "symptom", s.evidence[0] if s.evidence else "", title, s.time, note, self._all(s.evidence, set())
        )

    def _of_signal(self, event: Event[Signal]) -> Link:
        children = self._all(event.data.evidence, {event.id})
        return Link("signal", event.id, describe(event), event.time, _note(event), children)

    def _all(self, ids: Sequence[str], above: set[str]) -> list[Link]:
        links = []
        known = {i: self._by_id[i].time for i in ids if i in self._by_id}
        for event_id in sorted(set(ids), key=lambda i: (known.get(i, 0), i))[:MOST_CHILDREN]:
            if event_id in above:
                continue
            event = self._by_id.get(event_id)
            if event is None:
                links.append(Link("unknown", event_id, "not among the events at hand"))
            elif isinstance(event.data, Attribution):
                links.append(Link("verdict", event.id, describe(event), event.time, event.data.phase))
            else:
                links.append(self._link(event))
        return links

    def _users(self, event_id: str, seen: set[str]) -> list[Link]:
        """Signals, last verdicts and actions that name an event, and who names them in turn."""
        links: list[Link] = []
        for event in sorted(self._by_id.values(), key=lambda e: (e.time, e.id)):
            if event.id in seen or event_id not in _named_by(event):
                continue
            if isinstance(event.data, Attribution) and event not in self._verdicts.values():
                continue
            seen.add(event.id)
            what: What = (
                "action"
                if isinstance(event.data, Action)
                else "verdict"
                if isinstance(event.data, Attribution)
                else "signal"
            )
            below = self._users(event.id, seen)
            links.append(Link(what, event.id, describe(event), event.time, _note(event), below))
        return links


def _named_by(event: Event[Any]) -> set[str]:
    data = event.data
    match data:
        case Signal():
            return set(data.evidence)
        case Action():
            return set(data.because)
        case Attribution():
            return {i for s in (*data.active, *data.interesting) for i in s.evidence}
        case Health():
            return {i for r in data.reasons for i in r.evidence}
    return set()


def describe(event: Event[Any]) -> str:
    """An event in a few words."""
    data = event.data
    node = event.node or (event.source.split("/")[2] if event.source.count("/") >= 3 else "")
    match data:
        case Action():
            return f"{data.action} {', '.join(data.exclude_nodes or data.nodes)}: {data.reason}"
        case Attribution():
            who = ", ".join(f"{c.node or ''} {c.entity or ''}".strip() for c in data.culprits) or "nobody"
            return (
                f"job {data.job_id} attempt {data.attempt} {data.terminal_state}: "
                f"{data.domain}/{data.subdomain}, {who}"
            )
        case Signal():
            value = f" {data.value:g} {data.unit}" if data.value is not None else ""
            return f"{data.signal} {data.entity} {data.level or data.state}{value}"
        case Xid():
            return f"{node}: {data.message}"
        case Sxid() | Kernel() | Check() | Log():
            return f"{node}: {data.message}"
        case Aer():
            return f"{node}: PCIe {data.severity} {data.pci_bdf} {' '.join(data.errors)}".rstrip()
        case IbPort():
            return f"{node}: {data.device}/{data.port} {data.previous_state or '?'} -> {data.state}"
        case Job():
            return f"job {data.job_id} attempt {data.attempt} {data.state}"
    return f"{node}: {event.kind} {event.subject}"


def _note(event: Event[Any]) -> str | None:
    if getattr(event.data, "written_by", None) == "userspace":
        return "written by a program, not the kernel"
    return "drill" if event.drill else None


def mermaid(links: Iterable[Link]) -> str:
    """A flowchart, causes above what they cause."""
    lines = ["flowchart BT"]
    names: dict[str, str] = {}

    def name(link: Link) -> str:
        key = f"{link.what} {link.id} {link.title}"
        if key not in names:
            names[key] = f"n{len(names)}"
            text = link.title.replace('"', "'").replace("\n", " ")[:120]
            lines.append(f'  {names[key]}["{text}"]:::{link.what}')
        return names[key]

    def walk(link: Link) -> None:
        own = name(link)
        for child in link.children:
            edge = (own, name(child)) if child.what == "action" else (name(child), own)
            lines.append(f"  {edge[0]} --> {edge[1]}")
            walk(child)

    for link in links:
        walk(link)
    return "\n".join(dict.fromkeys(lines)) + "\n"
