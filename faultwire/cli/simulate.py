"""`faultwire simulate`: a whole fleet's traffic, made up from a seed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultwire.cli.common import COULD_NOT_TELL, fail, settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from faultwire.settings import KafkaSettings
    from faultwire.simulate.items import Item
    from faultwire.simulate.kafka import Pace
    from faultwire.simulate.plan import Plan
    from faultwire.simulate.scenario import Scenario

BAD_INPUT = 2

DEFAULT_START = "2026-01-05T08:00:00Z"
"""Where a capture begins unless told otherwise: the same command gives the same bytes."""


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    scenario: Annotated[str, typer.Argument(help="A scenario by name (--list), or a .toml file.")] = "fleet",
    list_: Annotated[
        bool, typer.Option("--list", help="Name the scenarios that come with Faultwire.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a capture with expected.json there.")
    ] = None,
    to_kafka: Annotated[
        bool, typer.Option("--to-kafka", help="Publish to the broker of the settings (--bootstrap).")
    ] = False,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="In front of topic names. [default: kafka.prefix]")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same fleet and the same faults.")] = 1,
    nodes: Annotated[int | None, typer.Option(help="Other than the scenario says.", min=1)] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="90s, 15m, 2h, 1d; other than the scenario says.")
    ] = None,
    accelerate: Annotated[
        float | None,
        typer.Option(metavar="FACTOR", help="Things fail so many times as often as published.", min=0),
    ] = None,
    samples: Annotated[
        bool | None, typer.Option("--samples/--no-samples", help="Full samples of GPU counters.")
    ] = None,
    noise: Annotated[
        bool | None, typer.Option("--noise/--no-noise", help="Events that ask for nothing.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Name of the simulated cluster.")] = "sim",
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Event time of the beginning, RFC 3339. [Kafka: now; --out: fixed]"
        ),
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="FACTOR", help="Fleet seconds a second; `max` for as fast as possible.")
    ] = "1",
    rate: Annotated[float | None, typer.Option(help="At most so many events a second.", min=1)] = None,
    drill: Annotated[
        bool, typer.Option("--drill", help="Mark every event as a drill: nothing that follows may act.")
    ] = False,
    expected: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --to-kafka: write the right verdicts there.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No progress bar, for pipes and logs.")] = False,
) -> None:
    """Make up a fleet's raw traffic: for capacity planning, drills and tests.

    Without --out and --to-kafka it only says what would happen. Everything follows from the scenario and the
    seed. The right verdicts are known: `faultwire evaluate DIR` scores a capture made with --out.

    Exit code 0; 2 for a scenario or option that can't be used, 3 when the broker could not be reached.
    """
    from faultwire.simulate import scenario as scenarios
    from faultwire.simulate.plan import plan
    from faultwire.simulate.scenario import ScenarioError, changed, load, seconds_of

    if list_:
        _list(scenarios.packaged())
        return
    if out is not None and to_kafka:
        fail("--out or --to-kafka, not both", BAD_INPUT)
    if out is not None and drill:
        fail("--drill is for --to-kafka: lines of text can't be marked", BAD_INPUT)
    pace = _pace(speed, rate)
    try:
        told = changed(
            load(scenario),
            site__nodes=nodes,
            duration=None if duration is None else seconds_of(duration),
            accelerate=accelerate,
            noise=noise,
        )
        if samples is not None:
            told = told.model_copy(update={"samples": (told.samples or 30.0) if samples else None})
        begin = _start(start, told.duration, to_kafka, pace)
        made = plan(told, seed=seed, start=begin, cluster=cluster, drill=drill)
    except (ScenarioError, ValueError) as exc:
        fail(exc, BAD_INPUT)
    if out is not None:
        _to_folder(made, out, plain)
    elif to_kafka:
        kafka = settings(kafka__bootstrap=bootstrap, kafka__prefix=prefix).kafka
        if expected is not None:
            _write_expected(made, expected)
        _to_kafka(made, kafka, pace, drill, plain)
    _tell(made, plain)


def _list(known: dict[str, Scenario]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("scenario", "nodes", "minutes", "what", box=None)
    for name, one in known.items():
        table.add_row(name, str(one.site.nodes), f"{one.duration / 60:g}", f"{one.title}. {one.about}")
    Console().print(table)


def _pace(speed: str, rate: float | None) -> Pace:
    from faultwire.simulate.kafka import Pace

    if speed == "max":
        return Pace(None, rate)
    try:
        factor = float(speed)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        fail(f"--speed {speed}: a factor above 0, or max", BAD_INPUT)
    return Pace(factor, rate)


def _start(given: str | None, duration_s: float, to_kafka: bool, pace: Pace) -> int:
    """A live simulation begins now; one that runs ahead of the clock ends now, so that nothing lies ahead."""
    import time

    from topics.time import from_seconds, parse_rfc3339

    if given is not None:
        return parse_rfc3339(given)
    if not to_kafka:
        return parse_rfc3339(DEFAULT_START)
    ahead = pace.speed is None or pace.speed > 1
    now = time.time_ns() - (from_seconds(duration_s) if ahead else 0)
    return now - now % 1_000_000


def _to_folder(made: Plan, out: Path, plain: bool) -> None:
    from faultwire.simulate.folder import FolderError, write
    from faultwire.simulate.stream import items

    with _progress(made, plain, f"writing {out}") as told:
        try:
            write(made, items(made), out, told)
        except (FolderError, OSError) as exc:
            fail(exc, BAD_INPUT)


def _to_kafka(made: Plan, kafka: KafkaSettings, pace: Pace, drill: bool, plain: bool) -> None:
    import asyncio
    import signal

    from aiokafka.errors import KafkaError

    from faultwire.simulate.kafka import publish
    from faultwire.simulate.stream import items
    from faultwire.simulate.translate import Translator

    async def run(stream: Iterable[Item], told: Callable[[int, int], None]) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        translator = Translator(made.site, drill=drill)
        await publish(
            stream,
            translator,
            bootstrap=kafka.bootstrap,
            prefix=kafka.prefix,
            pace=pace,
            options=kafka.options,
            told=told,
            stop=stop,
        )

    with _progress(made, plain, f"publishing to {kafka.bootstrap}") as told:
        try:
            asyncio.run(run(items(made), told))
        except KafkaError as exc:
            fail(f"{kafka.bootstrap}: {exc}", COULD_NOT_TELL)


def _write_expected(made: Plan, path: Path) -> None:
    import orjson

    document = made.labels.document() or {}
    try:
        path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    except OSError as exc:
        fail(f"{path}: {exc.strerror or exc}", BAD_INPUT)


@contextmanager
def _progress(made: Plan, plain: bool, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar over the fleet's time, with the events so far; looked at a few times a second only."""
    import time

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[events]:,} events  {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    hidden = plain or not sys.stderr.isatty()
    begun = shown = time.monotonic()
    with Progress(*columns, console=_stderr(), disable=hidden) as bar:
        task = bar.add_task(what, total=made.end - made.start, events=0, rate=0.0)

        def told(at: int, events: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown > 0.2:
                shown = now
                bar.update(
                    task, completed=at - made.start, events=events, rate=events / max(now - begun, 1e-9)
                )

        yield told
        bar.update(task, completed=made.end - made.start)


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def _tell(made: Plan, plain: bool) -> None:
    """What happened: a line a fault, with the verdicts that are right."""
    from rich.console import Console
    from rich.table import Table

    from topics.time import format_rfc3339

    site = made.site
    console = Console(no_color=plain or not sys.stdout.isatty())
    console.print(
        f"{made.scenario.title}: {site.nodes} nodes, {site.nodes * site.gpus} GPUs, "
        f"{len({a.job_id for a in made.attempts})} jobs, {len(made.attempts)} attempts, "
        f"{made.scenario.duration / 60:g} min, seed {made.seed}"
    )
    if not made.happened:
        console.print("nothing fails")
        return
    table = Table("time", "fault", "attempts", "right verdicts", box=None)
    for h in made.happened:
        verdicts = ", ".join(dict.fromkeys(h.verdicts)) or "none is hit"
        table.add_row(format_rfc3339(h.time)[11:19], h.kind, ", ".join(h.attempts), verdicts)
    console.print(table)
