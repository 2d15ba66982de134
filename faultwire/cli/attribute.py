"""`faultwire attribute`: what happened to a job, from the stores that keep its logs and metrics."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultwire.cli.common import BAD_INPUT, fail, settings

if TYPE_CHECKING:
    from faultwire.blueprint.gather import Progress
    from faultwire.blueprint.report import Outcome
    from faultwire.blueprint.settings import Blueprint

TELL_EVERY_S = 10.0
USUAL_FILES = (Path("blueprint.toml"), Path("/etc/faultwire/blueprint.toml"))


def register(app: typer.Typer) -> None:
    app.command()(attribute)


def attribute(
    job: Annotated[str | None, typer.Argument(help="The job's id, as its scheduler says it.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=0, help="Which attempt; the last one that has begun otherwise.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The blueprint; else ./blueprint.toml, /etc/faultwire/."
        ),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented blueprint to start from, and end.")
    ] = False,
    start: Annotated[str | None, typer.Option("--from", metavar="RFC3339", help="Read from here on.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="RFC3339", help="Read up to here.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="HOSTLIST", help="Where it ran (node[01-08]), when no scheduler knows: needs --from."
        ),
    ] = None,
    state: Annotated[str, typer.Option(help="How it ended, with --nodes and --to.")] = "FAILED",
    sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SINK", help="stdout, jsonl:FILE or kafka:TOPIC, beside the blueprint's. (repeatable)"
        ),
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="URL", help="Let this attribution service decide.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep fetched slices here, to go on from them.")
    ] = None,
    save_events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the raw events, one a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole result as one JSON object.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="No colours and no progress bars.")] = False,
) -> None:
    """Fetch a job's logs and metrics after the fact, and say what killed it.

    The context comes from the scheduler, the observations from Loki, files, Kubernetes, Prometheus or Kafka,
    the verdict from the engine of the live pipeline. Nothing that is found can cause an action.

    \b
    faultwire attribute --example > blueprint.toml
    faultwire attribute 8841
    faultwire attribute 8841 --attempt 2 --json
    faultwire attribute run7 --nodes 'node[01-04]' --from 2026-05-04T08:00:00Z --to 2026-05-04T09:10:00Z

    Exit codes: 0 nothing is wrong with it, 1 a cause was found, 2 wrong usage or blueprint, 3 could not tell,
    or not everything could be delivered.
    """
    if example:
        typer.echo(files("faultwire").joinpath("data/blueprint.toml").read_text("utf-8"), nl=False)
        return
    if job is None:
        fail("which job? (or --example)", BAD_INPUT)
    from faultwire.blueprint.run import Request, exit_code
    from faultwire.blueprint.run import attribute as run
    from faultwire.blueprint.settings import BlueprintError, StdoutSink

    told = settings()
    try:
        blueprint = _blueprint(config, sink or [], service, work)
        request = Request(
            job,
            attempt,
            _time("--from", start),
            _time("--to", end),
            _nodes(nodes),
            _state(state),
            save_events,
        )
        if request.start is not None and request.end is not None and request.end <= request.start:
            fail("--to must be later than --from", BAD_INPUT)
        outcome = _with_progress(plain, lambda progress: asyncio.run(run(blueprint, told, request, progress)))
    except BlueprintError as exc:
        fail(exc, BAD_INPUT)
    if as_json or any(isinstance(s, StdoutSink) for s in blueprint.sink):
        import orjson

        typer.echo(orjson.dumps(outcome.to_json()))
    else:
        from rich.console import Console

        from faultwire.blueprint.show import show

        show(outcome, Console(no_color=plain or None, highlight=False))
    raise typer.Exit(exit_code(outcome))


def _blueprint(config: Path | None, sinks: list[str], service: str | None, work: Path | None) -> Blueprint:
    from faultwire.blueprint.settings import BlueprintError, load, read

    path = config or next((usual for usual in USUAL_FILES if usual.is_file()), None)
    if path is None:
        raise BlueprintError(
            "no blueprint: give --config FILE, or begin with `faultwire attribute --example > blueprint.toml`"
        )
    told: Blueprint = load(path)
    more: dict[str, Any] = {}
    if sinks:
        added = read({"sink": [_sink(text) for text in sinks]}, "--sink", Path.cwd())
        more["sink"] = (*told.sink, *added.sink)
    if service is not None:
        more["service"] = _service(told, service)
    if work is not None:
        more["work"] = work
    return told.model_copy(update=more)


def _service(told: Blueprint, url: str) -> Any:
    """The service at `url`, with the credentials that the blueprint has for one."""
    from faultwire.blueprint.settings import read

    known = told.service.store.model_dump(exclude_unset=True) if told.service is not None else {}
    return read({"service": {"store": {**known, "url": url}}}, "--service", Path.cwd()).service


def _sink(text: str) -> dict[str, Any]:
    kind, _, where = text.partition(":")
    names = {"jsonl": "file", "kafka": "topic"}
    return {"kind": kind, **({names.get(kind, "to"): where} if where else {})}


def _time(option: str, text: str | None) -> int | None:
    from topics.time import parse_rfc3339

    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError as exc:
        fail(f"{option}: {exc}", BAD_INPUT)


def _nodes(text: str | None) -> tuple[str, ...]:
    from collectors.schedulers.slurm.hostlist import HostlistError, expand

    if text is None:
        return ()
    try:
        found = tuple(expand(text))
    except HostlistError as exc:
        fail(f"--nodes: {exc}", BAD_INPUT)
    if not found:
        fail("--nodes: no node is named", BAD_INPUT)
    return found


def _state(text: str) -> Any:
    from collectors.placement import ENDED

    if text.upper() not in ENDED:
        fail(f"--state: {text} is none of {', '.join(sorted(ENDED))}", BAD_INPUT)
    return text.upper()


def _with_progress(plain: bool, work: Any) -> Outcome:
    """Bars on a terminal, now and then a line elsewhere; both on standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    if plain or not console.is_terminal:
        result: Outcome = work(_lines())
        return result
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(name: str, share: float, lines: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=1.0, lines=0)
            bars.update(tasks[name], completed=share, lines=lines)

        outcome: Outcome = work(progress)
        return outcome


def _lines() -> Progress:
    told = time.monotonic()

    def progress(name: str, share: float, lines: int) -> None:
        nonlocal told
        if time.monotonic() - told >= TELL_EVERY_S:
            told = time.monotonic()
            print(f"{name}: {share:.0%}, {lines:,} lines", file=sys.stderr)

    return progress
