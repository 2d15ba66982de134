"""`faultwire streams` and `faultwire correlator`: the stream workers, as many processes as one likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import settings

if TYPE_CHECKING:
    from faultwire.settings import Settings
    from streams.engine.api import Processor
    from streams.engine.metrics import Sensor

_Port = Annotated[
    int | None,
    typer.Option(
        "--health-port", metavar="PORT", help="/livez, /readyz and /metrics. [default: a free one]", max=65535
    ),
]
_Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]


def register(app: typer.Typer) -> None:
    app.command()(streams)
    app.command()(correlator)


def streams(health_port: _Port = None, bootstrap: _Bootstrap = None) -> None:
    """Run a worker of the node streams: raw events in, signals, health and evidence out.

    Start more of them and the nodes are spread over them; end one and the others take over. State is kept
    in Kafka. Exit code 0 after SIGTERM, 1 when anything went wrong: nothing unfinished is committed.
    """
    told = settings(engine__health_port=health_port, kafka__bootstrap=bootstrap)
    from streams.metrics import FleetMetrics
    from streams.processor import NodeProcessor

    processor = NodeProcessor(told.streams)
    _run(processor, told, FleetMetrics(processor))


def correlator(health_port: _Port = None, bootstrap: _Bootstrap = None) -> None:
    """Run a worker of the correlator: evidence and jobs in, attributions and actions out.

    As `faultwire streams`, with jobs in the place of nodes. Acting is a dry run unless the policy file
    (correlator.policy) says otherwise.
    """
    told = settings(engine__health_port=health_port, kafka__bootstrap=bootstrap)
    from correlator.metrics import VerdictMetrics
    from correlator.processor import JobProcessor

    processor = JobProcessor(told.correlator)
    _run(processor, told, VerdictMetrics(processor))


def _run(processor: Processor, told: Settings, sensor: Sensor) -> None:
    from streams.engine.worker import run_worker

    raise typer.Exit(run_worker(processor, told.engine, sensor))
