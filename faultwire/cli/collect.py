"""`faultwire collect`: the agent of a node. `faultwire import` is registered beside it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import BAD_INPUT, COULD_NOT_TELL, fail, settings
from faultwire.cli.import_ import import_

if TYPE_CHECKING:
    from collectors.agent import Agent
    from collectors.settings import CollectSettings
    from faultwire.settings import KafkaSettings


def register(app: typer.Typer) -> None:
    app.command()(collect)
    app.command(name="import")(import_)


def collect(
    only: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Readers to run, e.g. kmsg,ports. [default: all]")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read what the sources hold now, send it, and end.")
    ] = False,
    to_screen: Annotated[
        bool, typer.Option("--print", help="Print events as JSON Lines instead of sending them to Kafka.")
    ] = False,
    accept_userspace_kmsg: Annotated[
        bool,
        typer.Option(
            "--accept-userspace-kmsg",
            help="Drill: text that user space wrote to the kernel log counts as the kernel's, marked drill.",
        ),
    ] = False,
    node: Annotated[str | None, typer.Option(help="Name of this node. [default: short host name]")] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve Prometheus metrics and /healthz here.", min=0, max=65535)
    ] = None,
) -> None:
    """Run the agent of this node: read everything that it can say, and send it at once.

    With --print no Kafka is needed, and nothing is remembered: see what this node says.

    Exit codes: 0 stopped or done, 2 wrong usage, 3 when --once could read no source or deliver nothing.
    """
    told = settings(
        collect__readers=_names(only),
        collect__accept_userspace_kmsg=accept_userspace_kmsg or None,
        collect__node=node,
        collect__metrics_port=metrics_port,
        kafka__bootstrap=bootstrap,
    )
    collecting = told.collect
    if to_screen:
        complete = asyncio.run(_print(collecting, once=once))
    else:
        complete = asyncio.run(_send(collecting, told.kafka, once=once))
    if not complete:
        raise typer.Exit(COULD_NOT_TELL)


def _names(only: str | None) -> list[str] | None:
    if only is None:
        return None
    from collectors.settings import READERS

    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in READERS]
    if unknown or not names:
        fail(f"--only {only}: readers are {', '.join(READERS)}", BAD_INPUT)
    return names


async def _print(collecting: CollectSettings, *, once: bool) -> bool:
    from collectors.assembly import Parts, build
    from collectors.delivery.screen import Screen

    parts = Parts(collecting)
    agent = build(parts, Screen(sys.stdout.buffer))
    return await _run(agent, collecting, once=once)


async def _send(collecting: CollectSettings, kafka: KafkaSettings, *, once: bool) -> bool:
    from collectors.assembly import Parts, build, kafka_delivery
    from collectors.clock import SystemClock

    clock = SystemClock()
    delivery = kafka_delivery(collecting, kafka.bootstrap, kafka.prefix, clock, kafka.options)
    parts = Parts(collecting, clock, delivery.resume_position, delivery.room)
    return await _run(build(parts, delivery), collecting, once=once)


async def _run(agent: Agent, collecting: CollectSettings, *, once: bool) -> bool:
    from collectors.notify import ServiceManager
    from collectors.residence import SETTLED_S, prepare, settle

    if once:
        delivered = await agent.once()
        return delivered and not _all_failed(agent)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stop)
    prepare()
    loop.call_later(SETTLED_S, settle)
    manager = ServiceManager.from_environment()
    agent.alive = manager.alive
    server = None
    if collecting.metrics_port is not None:
        from collectors.metrics import serve

        server = await serve(agent, collecting.metrics_host, collecting.metrics_port)
    manager.ready()
    try:
        await agent.run()
    finally:
        manager.stopping()
        if server is not None:
            server.close()
    return True


def _all_failed(agent: Agent) -> bool:
    statuses: Sequence[str] = [reader.health.status for reader in agent.readers]
    return bool(statuses) and all(status == "failed" for status in statuses)
