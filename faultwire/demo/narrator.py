"""Tells what happens, one line an event, as it happens.

Colours and symbols say the room (raw, signal, verdict, action); every line also says it in words, so
`--plain` output, a pipe or a screen reader loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from collectors.logs.registry import codes as log_codes
from faultwire.terminal import printable
from topics.derived import Action, Attribution, DeadLetter, Health, Signal
from topics.events import Event
from topics.payloads import Heartbeat, IbPort, Job, Kernel, Log, Placement, Tick, Xid
from topics.time import NS_PER_S, format_rfc3339

STYLES: Final = {
    "raw": "cyan",
    "signal": "yellow",
    "verdict": "magenta",
    "action": "bold red",
    "control": "bold green",
    "health": "blue",
    "note": "bold",
    "error": "bold red",
}


QUIET_CODES: Final = frozenset(
    code for code, (_, known) in log_codes().items() if known.role in {"setting", "progress"}
)
"""Lines that say how a job is set up or how far it is: on the topic, not on the screen."""


class Narrator:
    """Prints lines; `clock` gives nanoseconds since the epoch and `t0` is what offsets count from.

    `live` lines also say how long after it happened a thing was heard.
    """

    def __init__(
        self, console: Console, clock: Callable[[], int], *, plain: bool = False, live: bool = True
    ) -> None:
        self._console = console
        self._clock = clock
        self._plain = plain
        self._live = live
        self.t0: int | None = None

    def note(self, text: str) -> None:
        self._line("note", text)

    def error(self, text: str) -> None:
        self._line("error", text)

    def control(self, text: str) -> None:
        self._line("control", text)

    def event(self, event: Event[Any]) -> None:
        """One line for an event worth telling; heartbeats, placements and timers are not."""
        told = describe(event)
        if told is not None:
            room, text = told
            drill = " [drill]" if event.drill else ""
            self._line(room, text + drill, at=event.time)

    def _line(self, room: str, text: str, at: int | None = None) -> None:
        text = printable(text)
        now = self._clock()
        stamp = format_rfc3339(now)[11:23]
        offset = f"{(now - self.t0) / NS_PER_S:+7.2f}s" if self.t0 is not None else " " * 8
        late = ""
        if self._live and at is not None and room in {"raw", "signal"} and now - at < 60 * NS_PER_S:
            late = f"  ({(now - at) / 1e6:.0f} ms after it happened)"
        if self._plain:
            self._console.print(
                Text(f"{stamp} {offset} {room:<8} {text}{late}"), soft_wrap=True, highlight=False
            )
            return
        style = STYLES[room]
        head = f"[dim]{stamp} {offset}[/dim] [{style}]{room:<8}[/{style}]"
        self._console.print(
            f"{head} {escape(text)}[dim]{escape(late)}[/dim]", soft_wrap=True, highlight=False
        )


def describe(event: Event[Any]) -> tuple[str, str] | None:
    """`(room, sentence)` for an event, None for one that is not worth a line."""
    data, who = event.data, event.partitionkey
    match data:
        case Heartbeat() | Placement() | Tick():
            return None
        case IbPort():
            was = f" (was {data.previous_state})" if data.previous_state else ""
            where = f", {data.switch} port {data.switch_port}" if data.switch else ""
            phys = f", physical {data.phys_state}" if data.phys_state else ""
            return "raw", f"{who} {event.subject} {data.state}{was}{phys}{where}"
        case Xid():
            by = " [written by user space]" if data.written_by == "userspace" else ""
            return "raw", f"{who} {event.subject} XID {data.xid} {data.mnemonic}: {data.message}{by}"
        case Kernel():
            return "raw", f"{who} kernel {data.category}: {data.message}"
        case Log():
            if data.code in QUIET_CODES:
                return None
            rank = f" rank {data.rank}" if data.rank is not None else ""
            return "raw", f"{who}{rank} {data.code}: {data.message}"
        case Job():
            return "raw", f"job {data.job_id} attempt {data.attempt} {data.state} on {len(data.nodes)} nodes"
        case Signal():
            return "signal", _signal(who, data)
        case Health():
            return "health", f"{who} {data.previous or 'unknown'} -> {data.state}"
        case Attribution():
            return "verdict", _verdict(data)
        case Action():
            return "action", _action(data)
        case DeadLetter():
            return "error", f"dead letter from {data.topic}: {data.error}"
        case _:
            return "raw", f"{who} {event.subject} {event.kind}"


def _signal(who: str, data: Signal) -> str:
    level = f" {data.level}" if data.level else ""
    value = f" {data.value:g} {data.unit}" if data.value is not None else ""
    limit = f" (threshold {data.threshold:g} {data.unit})" if data.threshold is not None else ""
    window = f" in {data.window_s:g} s" if data.window_s else ""
    return f"{who} {data.entity} {data.signal} {data.state}{level}{value}{window}{limit}"


def _verdict(data: Attribution) -> str:
    who = f"job {data.job_id} attempt {data.attempt} {data.phase}"
    if data.domain == "none" and data.terminal_state == "RUNNING":
        return f"{who}: RUNNING, nothing is wrong with it"
    names = ", ".join("/".join(p for p in (c.node, c.entity) if p) for c in data.culprits) or "nobody"
    return f"{who}: {data.terminal_state}, {data.domain}/{data.subdomain}, culprit {names}"


def _action(data: Action) -> str:
    dry = "dry run: " if data.dry_run else ""
    job = f" job {data.job_id}" if data.job_id else ""
    nodes = f" nodes {', '.join(data.nodes)}" if data.nodes else ""
    entities = f" because of {', '.join(data.entities)}" if data.entities else ""
    failed = [g.guard for g in data.guards if not g.passed]
    held = f" (held by {', '.join(failed)})" if failed else ""
    return f"{dry}{data.action}{job}{nodes}{entities}: {data.reason}{held}"
