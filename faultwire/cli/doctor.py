"""`faultwire doctor`: what this node can tell, what it can't, why, and how to fix it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import COULD_NOT_TELL, FINDING, settings

if TYPE_CHECKING:
    from collectors.doctor import Finding
    from collectors.settings import CollectSettings
    from faultwire.settings import KafkaSettings

_MARKS = {"ok": "ok", "absent": "absent", "degraded": "DEGRADED", "failed": "FAILED", "unknown": "unknown"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Leave the broker out.")] = False,
) -> None:
    """Look at every source of this node once, and say what it found, can't see, and what to do.

    Nothing is sent. Exit codes: 0 all there is can be seen, 1 something is wrong, 3 could not tell.
    """
    told = settings()
    findings = asyncio.run(_examine(told.collect, None if offline else told.kafka))
    if as_json:
        import orjson

        typer.echo(orjson.dumps([asdict(f) for f in findings], option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in findings:
            typer.echo(f"{_MARKS[finding.status]:<9} {finding.source:<15} {finding.found}")
            if finding.why:
                typer.echo(f"{'':<25} {finding.why}")
            if finding.fix and finding.status != "ok":
                typer.echo(f"{'':<25} fix: {finding.fix}")
    statuses = {finding.status for finding in findings}
    if statuses & {"failed", "degraded"}:
        raise typer.Exit(FINDING)
    if not statuses & {"ok"}:
        raise typer.Exit(COULD_NOT_TELL)


async def _examine(collecting: CollectSettings, kafka: KafkaSettings | None) -> list[Finding]:
    from collectors.doctor import examine

    findings = await examine(collecting)
    return findings if kafka is None else [*findings, *await _broker(kafka)]


async def _broker(kafka: KafkaSettings) -> list[Finding]:
    from collectors.doctor import Finding, fix_for
    from topics.admin import describe_topics
    from topics.catalog import TOPICS
    from topics.errors import AdminError

    try:
        found = await describe_topics(kafka.bootstrap, prefix=kafka.prefix, connection=kafka.options)
    except AdminError as exc:
        return [Finding("broker", "failed", kafka.bootstrap, str(exc), fix_for("broker", ""))]
    broker = Finding("broker", "ok", kafka.bootstrap)
    missing = [name for name in TOPICS if kafka.prefix + name not in found]
    if missing:
        why = f"missing: {', '.join(missing)}"
        return [
            broker,
            Finding("topics", "failed", f"{len(found)} of {len(TOPICS)}", why, fix_for("topics", "")),
        ]
    return [broker, Finding("topics", "ok", f"all {len(TOPICS)} under {kafka.prefix}")]
