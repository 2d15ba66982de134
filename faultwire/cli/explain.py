"""`faultwire explain` and `faultwire offenders`: why, and who again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultwire.cli.common import BAD_INPUT, FINDING, OK, ask, fail, settings
from faultwire.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from correlator.explain import Link
    from topics.events import Event

Capture = Annotated[
    Path | None, typer.Option("--capture", metavar="DIR", help="Replay this capture instead of asking Kafka.")
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]

EVERYTHING = (
    "attributions", "actions", "signals", "raw.xid", "raw.aer", "raw.ib-port", "raw.node", "raw.log",
    "raw.job", "raw.check", "raw.gpu", "raw.nvlink", "raw.throttle",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command()(explain)
    app.command()(offenders)


def explain(
    target: Annotated[str, typer.Argument(metavar="JOB|EVENT_ID", help="A job, or the id of any event.")],
    capture: Capture = None,
    as_json: Json = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="A Mermaid flowchart.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the chain from kernel line to action: a verdict, what it rests on, and what came of it.

    Exit codes: 0 shown, 2 unknown target or unreadable capture, 3 no broker.
    """
    from correlator.explain import Chains
    from correlator.explain import mermaid as chart

    chains = Chains(_events(capture, bootstrap, EVERYTHING))
    links = chains.of_job(target) or chains.of_event(target)
    if not links:
        fail(f"nothing is known of {target}: neither a job with a verdict nor an event", BAD_INPUT)
    if as_json:
        typer.echo(json.dumps([link.to_dict() for link in links], indent=2))
    elif mermaid:
        typer.echo(chart(links), nl=False)
    else:
        _show(links)


def offenders(
    days: Annotated[float, typer.Option(help="How far to look back.")] = 14.0,
    least: Annotated[int, typer.Option(help="From this many attempts on.")] = 2,
    capture: Annotated[
        list[Path] | None,
        typer.Option("--capture", metavar="DIR", help="Replay these captures instead. (repeatable)"),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List nodes, devices, switches and switch ports that were to blame in several attempts.

    Exit codes: 0 nobody, 1 somebody, 2 an unreadable capture, 3 no broker.
    """
    from correlator.offenders import offenders as repeated

    topics = ("attributions", "signals")
    sources: list[Path | None] = [*capture] if capture else [None]
    events = [e for source in sources for e in _events(source, bootstrap, topics)]
    since = None if capture else time.time_ns() - round(days * 86400e9)
    found = repeated(events, since=since, least=least)
    if as_json:
        typer.echo(json.dumps([o.to_dict() for o in found], indent=2))
    else:
        for o in found:
            causes = ", ".join(sorted({cause for *_, cause in o.episodes}))
            suspected = f", suspected {o.suspected} times more" if o.suspected else ""
            line = f"{len(o.episodes):>3} x  {o.kind:<11} {o.name}  ({causes}{suspected})"
            typer.echo(printable(line))
        if not found:
            typer.echo("nobody was to blame more than once")
    raise typer.Exit(FINDING if found else OK)


def _events(capture: Path | None, bootstrap: str | None, topics: Sequence[str]) -> list[Event[Any]]:
    from faultwire import past

    if capture is not None:
        from faultwire.capture import CaptureError

        try:
            return past.of_capture(capture)
        except (CaptureError, OSError) as exc:
            fail(exc, BAD_INPUT)
    kafka = settings(kafka__bootstrap=bootstrap).kafka
    return ask(kafka.bootstrap, past.of_broker(kafka.bootstrap, kafka.prefix, topics, kafka.options))


_STYLES = {"action": "bold red", "verdict": "bold", "signal": "cyan", "raw": "dim", "unknown": "dim italic"}


def _show(links: Sequence[Link]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.tree import Tree

    from topics.time import format_rfc3339

    def label(link: Link) -> str:
        when = f"[dim]{format_rfc3339(link.time)}[/dim] " if link.time is not None else ""
        style = _STYLES.get(link.what)
        said, note = escape(printable(link.title)), escape(printable(link.note or ""))
        title = f"[{style}]{said}[/{style}]" if style else said
        return when + title + (f"  [italic]{note}[/italic]" if note else "")

    def grow(tree: Tree, link: Link) -> None:
        for child in link.children:
            grow(tree.add(label(child)), child)

    console = Console(soft_wrap=True)
    for link in links:
        tree = Tree(label(link))
        grow(tree, link)
        console.print(tree)
