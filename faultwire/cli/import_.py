"""`faultwire import`: text logs of a node into events."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from faultwire.cli.common import BAD_INPUT, COULD_NOT_TELL, fail, settings

if TYPE_CHECKING:
    from collectors.inventory import Inventory
    from faultwire.settings import KafkaSettings
    from topics.events import Event

CHUNK = 5_000
"""Events on their way at once."""


def import_(
    node: Annotated[str, typer.Option(help="The scheduler's name of the node that wrote the logs.")],
    kernel_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Kernel log in any usual format; - for standard input."),
    ] = None,
    fabric_manager_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="fabricmanager.log of the node.")
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="cluster.json that names the node's GPUs and ports."),
    ] = None,
    boot_time: Annotated[
        str | None,
        typer.Option(metavar="RFC3339", help="When it booted, for logs with seconds since boot only."),
    ] = None,
    boot_id: Annotated[str | None, typer.Option(help="Boot id, where the log does not tell it.")] = None,
    to_kafka: Annotated[
        str | None, typer.Option("--to-kafka", metavar="HOST:PORT", help="Send the events there.")
    ] = None,
) -> None:
    """Turn text logs into the events that the agent would have sent, one JSON object a line.

    The format is found out. Ids do not change, so a log may be imported again and again. What was left
    out is told on standard error.

    Exit codes: 0, 2 for a log that can't be read (with the line), 3 when the broker could not be reached.
    """
    if kernel_log is None and fabric_manager_log is None:
        fail("nothing to import: give --kernel-log FILE or --fabric-manager-log FILE", BAD_INPUT)
    from collectors.parsers.formats import KernelLogError, LogStats
    from collectors.text_import import events_of

    told = settings(kafka__bootstrap=to_kafka)
    stats = LogStats()
    with ExitStack() as files:
        events = events_of(
            told.cluster,
            node,
            _open(kernel_log, files),
            _open(fabric_manager_log, files),
            inventory=_inventory(inventory, node),
            boot_time=_time(boot_time),
            boot_id=boot_id,
            reference=_written(kernel_log),
            path=str(kernel_log),
            stats=stats,
        )
        try:
            count = _print(events) if to_kafka is None else asyncio.run(_send(events, told.kafka, node))
        except KernelLogError as exc:
            fail(exc, BAD_INPUT)
    summary = f"{count} events"
    if kernel_log is not None:
        summary += (
            f" from {stats.records} records ({stats.format or 'empty'}), {stats.skipped} lines left out"
        )
    if stats.first_skipped:
        line, text = stats.first_skipped
        summary += f"; the first: line {line}: {text!r}"
    typer.echo(summary, err=True)


def _print(events: Iterable[Event[Any]]) -> int:
    from topics.events import encode

    count = 0
    for count, event in enumerate(events, start=1):  # noqa: B007 - counted
        sys.stdout.buffer.write(encode(event) + b"\n")
    sys.stdout.buffer.flush()
    return count


async def _send(events: Iterator[Event[Any]], kafka: KafkaSettings, node: str) -> int:
    from collectors.delivery.link import KafkaLink, LinkError
    from collectors.delivery.record import batches

    link = KafkaLink(kafka.bootstrap, kafka.prefix, node, kafka.options)
    count = 0
    try:
        await link.start()
        while chunk := list(islice(events, CHUNK)):
            await asyncio.gather(*[await link.send(record) for record in batches(chunk)])
            count += len(chunk)
    except LinkError as exc:
        fail(exc, COULD_NOT_TELL)
    await link.close()
    return count


def _open(path: Path | None, files: ExitStack) -> Iterable[bytes]:
    if path is None:
        return ()
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        opened: BinaryIO = files.enter_context(path.open("rb"))
    except OSError as exc:
        fail(f"{path}: {exc.strerror}", BAD_INPUT)
    return opened


def _written(path: Path | None) -> int:
    """When the log ended, for stamps without a year: the file's time, or now."""
    if path is None or str(path) == "-":
        return time.time_ns()
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return time.time_ns()


def _time(text: str | None) -> int | None:
    from topics.time import parse_rfc3339

    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError as exc:
        fail(f"--boot-time: {exc}", BAD_INPUT)


def _inventory(path: Path | None, node: str) -> Inventory:
    import orjson

    from collectors.inventory import EMPTY, InventoryError, read_cluster

    if path is None:
        return EMPTY
    try:
        _, nodes = read_cluster(orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError, InventoryError) as exc:
        fail(f"{path}: {exc}", BAD_INPUT)
    if node not in nodes:
        fail(f"{path}: has no node {node}; it has {', '.join(sorted(nodes)) or 'none'}", BAD_INPUT)
    return nodes[node]
