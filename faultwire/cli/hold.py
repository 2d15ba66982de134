"""`faultwire hold`, `release` and `audit`: stop all controllers, let them go on, see what they did."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import BAD_INPUT, FINDING, OK, ask, fail, settings
from faultwire.terminal import printable

if TYPE_CHECKING:
    from controllers.operator import OperatorDesk
    from topics.control import Audit
    from topics.events import Event

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]


def register(app: typer.Typer) -> None:
    app.command()(hold)
    app.command()(release)
    app.command()(audit)


def hold(
    why: Annotated[
        str | None, typer.Argument(help="Why, for those who ask; without it: is there a hold?")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--for", metavar="MINUTES", help="It ends by itself then.", min=0.1)
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who says so. [default: your login name]")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """No controller does anything more, until `faultwire release`. What was begun stops in its middle.

    Exit codes: 0 held now; without WHY: 0 nobody holds, 1 there is a hold; 3 no broker.
    """
    from controllers.judge import held_by

    desk = _desk(bootstrap)
    now = time.time_ns()
    if why is None:
        held = held_by(ask(desk.bootstrap, desk.current_hold()), now)
        typer.echo(held or "no hold: controllers act as they are enabled")
        raise typer.Exit(FINDING if held else OK)
    if not why.strip():
        fail("say why: those who find everything stopped will ask", BAD_INPUT)
    until = None if minutes is None else now + round(minutes * 60e9)
    ask(desk.bootstrap, desk.hold(why.strip(), by or getpass.getuser(), now, until))
    typer.echo(f"held: {why.strip()}")


def release(
    why: Annotated[str, typer.Argument(help="Why it is safe again.")] = "released",
    by: Annotated[str | None, typer.Option(help="Who says so. [default: your login name]")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Controllers act again. What was refused meanwhile is not made up for.

    Exit codes: 0 released, 3 no broker.
    """
    desk = _desk(bootstrap)
    ask(desk.bootstrap, desk.release(why, by or getpass.getuser(), time.time_ns()))
    typer.echo("released")


def audit(
    node: Annotated[str | None, typer.Option(help="Only what concerned this node.")] = None,
    job: Annotated[str | None, typer.Option(help="Only what concerned this job.")] = None,
    action: Annotated[str | None, typer.Option(metavar="ID", help="Only this action.")] = None,
    alerts: Annotated[bool, typer.Option("--alerts", help="Only what a person should look at.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="CloudEvents, one a line.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """What controllers did and refused, and what operators told them.

    Exit codes: 0, or 3 when there is no broker.
    """

    def wanted(entry: Audit) -> bool:
        return (
            (node is None or node in (entry.nodes or ()))
            and (job is None or entry.job_id == job)
            and (action is None or entry.action_id == action)
            and (not alerts or entry.alert is True)
        )

    desk = _desk(bootstrap)

    async def show() -> None:
        found = []
        async for event in desk.trail(follow=follow):
            if wanted(event.data):
                if follow:
                    _print(event, as_json)
                else:
                    found.append(event)
        for event in sorted(found, key=lambda e: (e.time, e.id)):
            _print(event, as_json)

    try:
        ask(desk.bootstrap, show())
    except KeyboardInterrupt:
        raise typer.Exit(OK) from None


def _print(event: Event[Audit], as_json: bool) -> None:
    from topics.events import encode
    from topics.time import format_rfc3339

    if as_json:
        typer.echo(encode(event))
        return
    entry = event.data
    what = [entry.action, f"job {entry.job_id}" if entry.job_id else None, ",".join(entry.nodes or ())]
    words = " ".join(word for word in what if word)
    step = f" {entry.step}" if entry.step else ""
    alert = "ALERT " if entry.alert else ""
    who = f"{entry.by or entry.controller:<10}"
    outcome = f"{alert}{entry.outcome}{step}"
    line = printable(f"{who} {outcome}  {words}  {entry.detail}")
    typer.echo(f"{format_rfc3339(event.time)}  {line}")


def _desk(bootstrap: str | None) -> OperatorDesk:
    from controllers.operator import OperatorDesk

    told = settings(kafka__bootstrap=bootstrap)
    return OperatorDesk(told.cluster, told.kafka.bootstrap, told.kafka.prefix, told.kafka.options)
