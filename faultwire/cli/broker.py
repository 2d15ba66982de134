"""`faultwire broker`: a real Kafka on this machine, without knowing how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import FINDING, fail, settings

if TYPE_CHECKING:
    from faultwire.broker.daemon import Status

Folder = Annotated[
    Path | None,
    typer.Option("--dir", help="Its folder: state, logs, data. [default: broker.dir]"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command()(start)
    group.command()(stop)
    group.command()(status)
    app.add_typer(group, name="broker", help="A real Kafka broker on this machine: start, stop, status.")


def start(
    folder: Folder = None,
    port: Annotated[
        int,
        typer.Option(
            help="Port of the first broker (0: as last time, 9092, or a free one).", min=0, max=65535
        ),
    ] = 0,
    brokers: Annotated[int, typer.Option(help="How many; 3 survive the death of one.", min=1, max=9)] = 1,
    as_json: Json = False,
) -> None:
    """Start a broker on loopback that runs until `faultwire broker stop`; does nothing when it runs.

    Takes what is there: FAULTWIRE_BOOTSTRAP, else a Docker engine, else Java 17 or newer with Maven, which
    fetches Apache Kafka once.
    """
    from faultwire.broker import daemon
    from faultwire.broker.errors import BrokerError

    told = settings(broker__dir=folder, broker__port=port, broker__brokers=brokers).broker
    where = told.dir or daemon.default_folder()
    try:
        running = daemon.start(where, brokers=told.brokers, port=told.port, say=_progress)
    except BrokerError as exc:
        fail(exc)
    _tell(running, as_json)


def stop(folder: Folder = None, as_json: Json = False) -> None:
    """End what `faultwire broker start` began, and nothing else. The data stays."""
    from faultwire.broker import daemon
    from faultwire.broker.errors import BrokerError

    where = settings(broker__dir=folder).broker.dir or daemon.default_folder()
    try:
        stopped = daemon.stop(where)
    except BrokerError as exc:
        fail(exc)
    if as_json:
        typer.echo('{"stopped":true}' if stopped else '{"stopped":false}')
    else:
        typer.echo("stopped" if stopped else "no broker of ours was running")


def status(folder: Folder = None, as_json: Json = False) -> None:
    """Say whether the broker runs, and where. Exit code 0 when it does, 1 when not, 3 when unknown."""
    from faultwire.broker import daemon
    from faultwire.broker.errors import BrokerError

    where = settings(broker__dir=folder).broker.dir or daemon.default_folder()
    try:
        told = daemon.status(where)
    except BrokerError as exc:
        fail(exc)
    _tell(told, as_json)
    if not told.running:
        raise typer.Exit(FINDING)


def _progress(message: str) -> None:
    typer.echo(f"{message} …", err=True)


def _tell(status: Status, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        import orjson

        typer.echo(orjson.dumps(asdict(status)).decode())
        return
    if status.way is None:
        typer.echo("no broker runs: start one with `faultwire broker start`")
        return
    state = "running" if status.running else f"{status.alive} of {status.brokers} running"
    typer.echo(f"{state}: {status.bootstrap}")
    way = {"existing": "named in FAULTWIRE_BOOTSTRAP", "docker": "Docker container", "jvm": "Java process"}
    typer.echo(
        f"  {way[status.way]}{f', Apache Kafka {status.kafka_version}' if status.kafka_version else ''}"
    )
    if status.container:
        typer.echo(f"  container {status.container}")
    if status.pids:
        typer.echo(f"  process {' '.join(map(str, status.pids))}")
    for log in status.logs:
        typer.echo(f"  log {log}")
