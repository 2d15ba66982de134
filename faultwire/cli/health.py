"""`faultwire health`: the state of nodes, and what people decide about it."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from faultwire.cli.common import BAD_INPUT, FINDING, OK, ask, fail, settings
from faultwire.terminal import printable

if TYPE_CHECKING:
    from faultwire.settings import Settings
    from topics.derived import Health
    from topics.events import Event

Node = Annotated[str, typer.Argument(metavar="NODE", help="As the scheduler names it.")]
Why = Annotated[str, typer.Option(help="Why, for those who ask.")]
By = Annotated[str | None, typer.Option(help="Who says so. [default: your login name]")]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]
State = Literal["healthy", "suspect", "draining", "quarantined", "validating", "retired"]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(name="set")(set_)
    for command in (hold, clear, show, table):
        group.command()(command)
    app.add_typer(group, name="health", help="The health of nodes: show it, overrule it, take that back.")


def set_(
    node: Node,
    state: Annotated[State, typer.Argument(help="Where it stays until `faultwire health clear`.")],
    why: Why,
    by: By = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Put a node into a state and keep it there, whatever is observed.

    Exit codes: 0 told, 2 wrong input, 3 no broker.
    """
    _tell(node, "set", why, by, bootstrap, state)


def hold(node: Node, why: Why, by: By = None, bootstrap: Bootstrap = None) -> None:
    """Keep a node from returning to service by itself; all else goes on.

    Exit codes: 0 told, 2 wrong input, 3 no broker.
    """
    _tell(node, "hold", why, by, bootstrap)


def clear(node: Node, why: Why = "cleared", by: By = None, bootstrap: Bootstrap = None) -> None:
    """Take back what was set or held. A node that was set aside is validated before it takes work.

    Exit codes: 0 told, 3 no broker.
    """
    _tell(node, "clear", why, by, bootstrap)


def show(
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="Only this one.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Healthy nodes too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="CloudEvents, one a line.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the nodes that are not healthy, and why.

    Exit codes: 0 all healthy, 1 some are not, 2 a node that nothing is known of, 3 no broker.
    """
    from topics.events import encode
    from topics.time import format_rfc3339

    configured = settings(kafka__bootstrap=bootstrap)
    last = ask(configured.kafka.bootstrap, _read(configured))
    if node is not None and node not in last:
        fail(f"nothing has ever been said about the health of {node}: it is healthy, or unknown", BAD_INPUT)
    wanted = [
        event
        for name, event in sorted(last.items())
        if (node in {None, name}) and (all_ or node is not None or event.data.state != "healthy")
    ]
    for event in wanted:
        if as_json:
            typer.echo(encode(event))
            continue
        told = event.data
        why = "; ".join(f"{r.signal} of {r.entity}" for r in told.reasons) or "no reasons"
        by = (
            f", {told.operator['action']} by {told.operator['who']}: {told.operator['why']}"
            if told.operator
            else ""
        )
        line = f"{event.partitionkey:<20} {told.state:<12} since {format_rfc3339(told.since)}  {why}{by}"
        typer.echo(printable(line))
    if not wanted and not as_json:
        typer.echo("all nodes are healthy")
    raise typer.Exit(FINDING if any(e.data.state != "healthy" for e in last.values()) else OK)


def table(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With the picture, as in docs/health.md.")
    ] = False,
) -> None:
    """Print the table that moves nodes from state to state."""
    from streams.health.drawing import markdown as drawn
    from streams.health.table import packaged

    if markdown:
        typer.echo(drawn(), nl=False)
        return
    for row in packaged().transition:
        typer.echo(f"{', '.join(row.sources):<55} {row.on:<13} {row.to:<12} {row.why}")


def _tell(
    node: str, action: Literal["set", "hold", "clear"], why: str, by: str | None, bootstrap: str | None,
    state: State | None = None,
) -> None:  # fmt: skip
    from topics.events import make
    from topics.ids import fact_id
    from topics.payloads import Operator

    if not node or "/" in node or any(c.isspace() for c in node):
        fail(f"{node!r} is no name of a node", BAD_INPUT)
    if not why.strip():
        fail("say why: those who find the node set aside will ask", BAD_INPUT)
    told = settings(kafka__bootstrap=bootstrap)
    now = time.time_ns()
    said = Operator(action=action, state=state, who=by or getpass.getuser(), why=why.strip())
    event = make(
        said,
        id=fact_id("operator", told.cluster, node, action, state or "", said.who, said.why, now),
        source=f"/{told.cluster}/{node}/operator",
        subject="node",
        time=now,
        key=node,
        recordedtime=now,
        provenance="live",
    )
    ask(told.kafka.bootstrap, _publish(told, event))
    typer.echo(f"told: {action} {node}{f' {state}' if state else ''}")


async def _publish(told: Settings, event: Event[Any]) -> None:
    from aiokafka import AIOKafkaProducer

    from topics.catalog import kafka_name
    from topics.events import BATCH_CONTENT_TYPE, encode_batch

    producer = AIOKafkaProducer(
        bootstrap_servers=told.kafka.bootstrap, acks="all", enable_idempotence=True, **told.kafka.options
    )
    try:
        await producer.start()
        await producer.send_and_wait(
            kafka_name("raw.check", told.kafka.prefix),
            encode_batch([event]),
            key=event.partitionkey.encode(),
            headers=[("content-type", BATCH_CONTENT_TYPE)],
        )
    finally:
        await producer.stop()


async def _read(told: Settings) -> dict[str, Event[Health]]:
    """The last word on each node."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    from topics.catalog import kafka_name
    from topics.errors import DecodeError
    from topics.events import decode

    name = kafka_name("health", told.kafka.prefix)
    consumer = AIOKafkaConsumer(
        name,
        bootstrap_servers=told.kafka.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # the default, the end, may overtake our seek to the beginning
        **told.kafka.options,
    )
    last: dict[str, Event[Health]] = {}
    try:
        await consumer.start()
        partitions = [TopicPartition(name, p) for p in sorted(consumer.partitions_for_topic(name) or ())]
        consumer.unsubscribe()
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    try:
                        event = decode(record.value or b"")
                    except DecodeError:
                        continue  # not ours to judge here: the workers send it to the dead letters
                    last[event.partitionkey] = event
    finally:
        await consumer.stop()
    return last
