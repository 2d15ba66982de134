"""`faultwire demo`: see the whole pipeline at work."""

from __future__ import annotations

from typing import Annotated

import typer

OK, FINDING = 0, 1


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    seconds: Annotated[
        float | None, typer.Option(help="End by itself after so many seconds of fleet time.", min=1)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, for pipes and logs.")] = False,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="With the attribution service and its page.")
    ] = True,
    port: Annotated[int, typer.Option(help="Port of the broker (0: any free one).", min=0, max=65535)] = 0,
) -> None:
    """Play the incident that this project exists for, live, on a real Kafka broker.

    Starts a broker, the collector of this machine, a simulated fleet of eight nodes with one job, both
    stream workers, the attribution service with its page, and a dry-run controller. Then one InfiniBand
    port goes down once, for 12 seconds.

    Exit code 0 when the action came while the port was down, 1 when it did not.
    """
    import asyncio
    import sys

    from rich.console import Console

    from faultwire.broker.errors import BrokerError
    from faultwire.demo.run import Demo

    plain = plain or not sys.stdout.isatty()
    console = Console(no_color=plain)

    async def run() -> bool:
        outcome = await Demo(console, seconds=seconds, plain=plain, port=port, page=page).run()
        return outcome.worked

    try:
        worked = asyncio.run(run())
    except BrokerError as exc:
        typer.echo(f"faultwire demo: {exc}", err=True)
        raise typer.Exit(FINDING) from exc
    raise typer.Exit(OK if worked else FINDING)
