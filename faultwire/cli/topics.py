"""`faultwire topics`: the catalogue on a broker, and the schemas of what flows through it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from faultwire.cli.common import BAD_INPUT, FINDING, fail, settings

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]
Prefix = Annotated[str | None, typer.Option(help="In front of every name. [default: kafka.prefix]")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    for command in (create, list_, describe, schema, acls):
        group.command(name=command.__name__.strip("_"))(command)
    app.add_typer(group, name="topics", help="The topics: create, list, describe; their JSON Schemas.")


def create(
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    partitions: Annotated[
        int | None, typer.Option(help="Of every topic. [default: kafka.partitions]", min=1)
    ] = None,
    replication: Annotated[
        int | None, typer.Option(help="Copies of each partition. [default: kafka.replication]", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Create the topics that are missing; change and destroy nothing.

    Exit code 1 when a topic exists with other settings: each difference is told.
    """
    from topics.admin import create_topics
    from topics.errors import AdminError

    kafka = settings(
        kafka__bootstrap=bootstrap,
        kafka__prefix=prefix,
        kafka__partitions=partitions,
        kafka__replication=replication,
    ).kafka
    try:
        report = asyncio.run(
            create_topics(
                kafka.bootstrap,
                prefix=kafka.prefix,
                partitions=kafka.partitions,
                replication=kafka.replication,
                connection=kafka.options,
            )
        )
    except AdminError as exc:
        fail(exc)
    if as_json:
        _print_json(
            {
                "created": report.created,
                "unchanged": report.unchanged,
                "differs": [
                    {"topic": d.topic, "setting": d.setting, "wanted": d.wanted, "found": d.found}
                    for d in report.differs
                ],
            }
        )
    else:
        for name in report.created:
            typer.echo(f"created    {name}")
        for name in report.unchanged:
            typer.echo(f"unchanged  {name}")
        for difference in report.differs:
            typer.echo(f"differs    {difference}")
    if report.differs:
        raise typer.Exit(FINDING)


def list_(bootstrap: Bootstrap = None, prefix: Prefix = None, as_json: Json = False) -> None:
    """List the catalogue's topics and whether the broker has them. Exit code 1 when one is missing."""
    from topics.admin import describe_topics
    from topics.catalog import TOPICS
    from topics.errors import AdminError

    kafka = settings(kafka__bootstrap=bootstrap, kafka__prefix=prefix).kafka
    try:
        found = asyncio.run(describe_topics(kafka.bootstrap, prefix=kafka.prefix, connection=kafka.options))
    except AdminError as exc:
        fail(exc)
    rows = [
        {
            "topic": kafka.prefix + spec.name,
            "partitions": there.partitions if (there := found.get(kafka.prefix + spec.name)) else None,
            "key": spec.keyed_by,
            "cleanup": spec.cleanup,
            "kinds": spec.kinds,
            "about": spec.about,
        }
        for spec in TOPICS.values()
    ]
    if as_json:
        _print_json(rows)
    else:
        for row in rows:
            there_are = f"{row['partitions']} partitions" if row["partitions"] else "missing"
            typer.echo(f"{row['topic']:<26} {there_are:<14} key {row['key']:<7} {row['about']}")
    if len(found) < len(TOPICS):
        raise typer.Exit(FINDING)


def describe(
    name: Annotated[str, typer.Argument(help="A topic of the catalogue, e.g. raw.xid.")],
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    as_json: Json = False,
) -> None:
    """Say all about one topic: what it carries, its settings. Exit code 1 when they are not as wanted."""
    import difflib

    from topics.admin import describe_topics, differences, wanted_topics
    from topics.catalog import TOPICS
    from topics.errors import AdminError

    kafka = settings(kafka__bootstrap=bootstrap, kafka__prefix=prefix).kafka
    spec = TOPICS.get(name.removeprefix(kafka.prefix))
    if spec is None:
        near = difflib.get_close_matches(name, TOPICS, 1)
        fail(f"no topic {name} in the catalogue" + (f", did you mean {near[0]}?" if near else ""), 2)
    try:
        found = asyncio.run(
            describe_topics(kafka.bootstrap, prefix=kafka.prefix, connection=kafka.options)
        ).get(kafka.prefix + spec.name)
    except AdminError as exc:
        fail(exc)
    wanted = next(
        topic
        for topic in wanted_topics(kafka.prefix, kafka.partitions, kafka.replication)
        if topic.name == kafka.prefix + spec.name
    )
    differs = differences(wanted, found) if found else []
    if as_json:
        _print_json(
            {
                "topic": wanted.name,
                "about": spec.about,
                "key": spec.keyed_by,
                "kinds": spec.kinds,
                "batched": spec.batched,
                "exists": found is not None,
                "partitions": found.partitions if found else None,
                "replication": found.replication if found else None,
                "settings": dict(found.settings) if found else None,
                "wanted": dict(wanted.settings),
                "differs": [str(d) for d in differs],
            }
        )
    else:
        typer.echo(f"{wanted.name}: {spec.about}")
        typer.echo(f"  key        {spec.keyed_by}")
        typer.echo(f"  carries    {', '.join(spec.kinds)}{' (JSON batches)' if spec.batched else ''}")
        if found is None:
            typer.echo("  missing: create it with `faultwire topics create`")
        else:
            typer.echo(f"  there      {found.partitions} partitions, {found.replication} copies")
            for key, value in found.settings.items():
                typer.echo(f"  {key} = {value}")
        for difference in differs:
            typer.echo(f"  differs: {difference.setting} is {difference.found}, wanted {difference.wanted}")
    if found is None or differs:
        raise typer.Exit(FINDING)


def schema(
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the schemas stand.", file_okay=False)
    ] = Path("schemas"),
    check: Annotated[
        bool, typer.Option("--check", help="Only compare; exit code 1 when they differ.")
    ] = False,
) -> None:
    """Write a JSON Schema for every event type and one AsyncAPI document, or check those that are there."""
    from topics.schema import outdated, write

    if not check:
        for path in write(directory):
            typer.echo(f"wrote {path}")
        return
    stale = outdated(directory)
    for path in stale:
        typer.echo(f"differs: {path}")
    if stale:
        typer.echo("write them again with `faultwire topics schema`", err=True)
        raise typer.Exit(FINDING)


def acls(
    process: Annotated[
        list[str] | None, typer.Argument(help="Only these processes, e.g. collect streams. [default: all]")
    ] = None,
    as_lines: Annotated[
        bool, typer.Option("--print", help="Arguments of kafka-acls, one call a line.")
    ] = False,
    principal: Annotated[
        str, typer.Option(help="Who the processes are to Kafka; for mTLS e.g. 'User:CN=faultwire-{process}'.")
    ] = "User:faultwire-{process}",
    prefix: Prefix = None,
) -> None:
    """Say what each process must be allowed on Kafka, and nothing more.

    To put it into force: faultwire topics acls --print | xargs -L1 kafka-acls --bootstrap-server HOST:PORT
    """
    from topics.acls import kafka_acls, line, processes

    known = processes()
    if unknown := [name for name in process or () if name not in known]:
        fail(f"no process {', '.join(unknown)}: there are {', '.join(known)}", BAD_INPUT)
    kafka = settings(kafka__prefix=prefix).kafka
    for one in known.values():
        if process and one.name not in process:
            continue
        if as_lines:
            for arguments in kafka_acls(one, kafka.prefix, principal):
                typer.echo(line(arguments))
            continue
        typer.echo(f"{one.name}: {one.about}")
        for allowance in one.allow:
            option, names = allowance.resources
            sort = option.removeprefix("--").replace("-", " ")
            full = ", ".join(kafka.prefix + name for name in names)
            typer.echo(f"  {', '.join(allowance.operations)} on {sort} {full}: {allowance.why}")


def _print_json(value: object) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
