"""`faultwire replay` and `faultwire evaluate`: the live cores over recorded incidents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.terminal import printable

if TYPE_CHECKING:
    from faultwire.capture import Capture
    from faultwire.evaluate import Evaluation

OK, FINDING, BAD_INPUT = 0, 1, 2


def register(app: typer.Typer) -> None:
    app.command()(replay)
    app.command()(evaluate)


def replay(
    directory: Annotated[
        Path, typer.Argument(help="A capture: jobs.jsonl, nodes/<node>/…, jobs/<job>/*.log")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="The last verdict of each attempt, one JSON object a line.")
    ] = False,
    events: Annotated[
        bool, typer.Option("--events", help="Every derived CloudEvent, one JSON object a line.")
    ] = False,
    to_kafka: Annotated[
        str | None, typer.Option("--to-kafka", metavar="HOST:PORT", help="Publish the raw events there.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No colours, for pipes.")] = False,
) -> None:
    """Run a recorded incident through the same parsers, streams and correlator, without a broker.

    Event time drives everything: a day takes seconds, and the ids are those of the live run. Without an
    option the incident is told as it unfolds.

    Exit code 0, or 2 for a capture that can't be read, with the file and line.
    """
    from faultwire.capture import CaptureError, load

    try:
        capture = load(directory)
    except (CaptureError, OSError) as exc:
        typer.echo(f"faultwire replay: {printable(str(exc))}", err=True)
        raise typer.Exit(BAD_INPUT) from exc
    for problem in capture.problems:
        typer.echo(f"left out: {printable(problem)}", err=True)
    if to_kafka:
        _publish(capture, to_kafka)
    elif as_json or events:
        _print_json(capture, events)
    else:
        _tell(capture, plain or not sys.stdout.isatty())


def evaluate(
    directories: Annotated[list[Path], typer.Argument(help="Labelled captures, or folders of them.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a capture.")] = False,
) -> None:
    """Replay labelled captures and compare the verdicts with their expected.json.

    Exit code 0 when all are exact, 1 when any is not, 2 when there is nothing to evaluate.
    """
    from faultwire.evaluate import captures_below
    from faultwire.evaluate import evaluate as evaluate_one

    captures = [capture for directory in directories for capture in captures_below(directory)]
    if not captures:
        typer.echo("faultwire evaluate: no expected.json in or directly below the given folders", err=True)
        raise typer.Exit(BAD_INPUT)
    results = [evaluate_one(capture) for capture in captures]
    if as_json:
        _print_evaluations(results)
    else:
        _show_evaluations(results)
    raise typer.Exit(OK if all(r.exact for r in results) else FINDING)


def _print_json(capture: Capture, events: bool) -> None:
    from faultwire.replay import replay as run
    from topics.events import encode

    replayed = run(capture)
    if events:
        for _, event in replayed.events():
            typer.echo(encode(event))
        return
    for verdict in replayed.verdicts():
        typer.echo(verdict.model_dump_json(exclude_none=True))


def _tell(capture: Capture, plain: bool) -> None:
    from rich.console import Console

    from faultwire.demo.narrator import Narrator
    from faultwire.replay import INTERNAL
    from faultwire.replay import replay as run
    from streams.engine.api import Output

    now = capture.records[0].event.time if capture.records else 0
    narrator = Narrator(Console(no_color=plain), clock=lambda: now, plain=plain, live=False)

    def heard(output: Output, at: int) -> None:
        nonlocal now
        now = at
        if output.topic not in INTERNAL and not output.topic.startswith("raw."):
            narrator.event(output.event)

    run(capture, on_output=heard)


def _publish(capture: Capture, bootstrap: str) -> None:
    import asyncio

    from faultwire.cli.common import settings
    from faultwire.demo.bus import publish_all

    kafka = settings(kafka__bootstrap=bootstrap).kafka
    asyncio.run(publish_all(bootstrap, kafka.prefix, capture.records, kafka.options))
    typer.echo(f"{len(capture.records)} raw events published to {bootstrap}", err=True)


def _print_evaluations(results: list[Evaluation]) -> None:
    from dataclasses import asdict

    import orjson

    for result in results:
        typer.echo(orjson.dumps({**asdict(result), "exact": result.exact}))


def _show_evaluations(results: list[Evaluation]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("capture", "attempt", "expected", "got", "culprits", "state", box=None)
    for result in results:
        for o in result.outcomes:
            mark = "" if o.subdomain else "  <-"
            table.add_row(
                result.capture,
                f"{o.job_id}/{o.attempt}",
                o.expected,
                (o.got or "no verdict") + mark,
                "ok" if o.culprits else "wrong",
                "ok" if o.terminal_state else "wrong",
            )
        for wrong in result.wrong_actions:
            table.add_row(result.capture, "", "", f"wrong action: {wrong}", "", "")
        if result.error:
            table.add_row(result.capture, "", "", f"error: {result.error}", "", "")
    outcomes = [o for r in results for o in r.outcomes]
    console = Console()
    console.print(table)
    console.print(
        f"{len(outcomes)} attempts: domain exact {sum(o.domain for o in outcomes)}, "
        f"subdomain exact {sum(o.subdomain for o in outcomes)}, "
        f"culprits exact {sum(o.culprits for o in outcomes)}, "
        f"firm when unsure {sum(o.firm_when_unsure for o in outcomes)}, "
        f"wrong actions {sum(len(r.wrong_actions) for r in results)}, "
        f"errors {sum(r.error is not None for r in results)}"
    )
