"""`faultwire serve`: the attribution service and its page."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from faultwire.cli.common import BAD_INPUT, fail, settings


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Where to listen; beyond loopback tokens are needed."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="0: a free one. [default: service.port]", max=65535)
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE|URL", help="SQLite file or postgresql+psycopg:// URL.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
    ] = None,
) -> None:
    """Serve verdicts, health and evidence over HTTP, with a page for people at /.

    Reads the topics into a store of its own, which can be deleted: it is filled again from Kafka. Nothing
    that is asked or submitted here can cause an action.

    Exit codes: 0 after SIGTERM, 2 when it can't start (the message says why).
    """
    told = settings(service__host=host, service__port=port, service__store=store, kafka__bootstrap=bootstrap)
    from correlator.service.run import ServiceError
    from correlator.service.run import serve as run
    from faultwire.postmortem import analyse

    def ready(address: str) -> None:
        typer.echo(f"faultwire serve: {address}/", err=True)

    try:
        asyncio.run(
            run(told.service, analyse=analyse, options=told.service.security.client_options(), ready=ready)
        )
    except ServiceError as exc:
        fail(exc, BAD_INPUT)
