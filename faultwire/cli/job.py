"""`faultwire job`: who runs where, from a scheduler or told by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultwire.cli.common import BAD_INPUT, fail, settings

if TYPE_CHECKING:
    from collectors.schedulers.book import JobBook
    from topics.events import Event

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="The broker. [default: kafka.bootstrap]"),
]
Dry = Annotated[bool, typer.Option("--print", help="Print events as JSON Lines; nothing is sent.")]

POKE_SOCKET = Path("/run/faultwire/slurm.sock")


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    for command in (start, end, apply, watch, poke):
        group.command()(command)
    app.add_typer(group, name="job", help="Who runs where: from Slurm or Kubernetes, or told by hand.")


def start(
    job_id: str,
    nodes: Annotated[str, typer.Option(help="Host list, e.g. node-[01-08].")],
    gpus: Annotated[int | None, typer.Option(help="GPUs of each node, from index 0. [default: all]")] = None,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    nccl_version: Annotated[str | None, typer.Option(help="e.g. 2.21.5; decides the budget.")] = None,
    ib_timeout: Annotated[int | None, typer.Option(help="NCCL_IB_TIMEOUT of the job.")] = None,
    ib_retry_cnt: Annotated[int | None, typer.Option(help="NCCL_IB_RETRY_CNT of the job.")] = None,
    bootstrap: Bootstrap = None,
    dry: Dry = False,
) -> None:
    """An attempt of a job that no scheduler knows begins now.

    Exit codes: 0 told, 2 wrong input.
    """
    from collectors.schedulers import static
    from collectors.schedulers.slurm.hostlist import HostlistError, expand
    from topics.payloads import Job, NcclSettings

    try:
        hosts = expand(nodes)
    except HostlistError as exc:
        fail(exc, BAD_INPUT)
    nccl = NcclSettings(version=nccl_version, ib_timeout=ib_timeout, ib_retry_cnt=ib_retry_cnt)
    now = time.time_ns()

    def told(book: JobBook) -> list[Event[Any]]:
        job = Job(
            job_id=job_id,
            attempt=static.next_attempt(book, job_id),
            name=name,
            scheduler="static",
            state="RUNNING",
            start=now,
            nodes=hosts,
            gpus=None if gpus is None else {host: list(range(gpus)) for host in hosts},
            nccl=None if nccl == NcclSettings() else nccl,
        )
        return static.start(book, job, now)

    _tell(told, bootstrap, dry)


def end(
    job_id: str,
    state: Annotated[str, typer.Option(help="COMPLETED, FAILED, CANCELLED, TIMEOUT, …")] = "COMPLETED",
    exit_code: Annotated[int | None, typer.Option(help="Exit code, or 128 + signal.")] = None,
    reason: Annotated[str | None, typer.Option(help="In words.")] = None,
    bootstrap: Bootstrap = None,
    dry: Dry = False,
) -> None:
    """The running attempt of a job told by hand has ended now.

    Exit codes: 0 told, 2 wrong input.
    """
    from collectors.placement import ENDED
    from collectors.schedulers import static

    if state not in ENDED:
        fail(f"--state {state}: one of {', '.join(sorted(ENDED))}", BAD_INPUT)
    _tell(
        lambda book: static.end(book, job_id, time.time_ns(), state, exit_code, reason),  # type: ignore[arg-type]
        bootstrap,
        dry,
    )


def apply(
    file: Annotated[Path, typer.Argument(help="One `job` payload a line, each with its time.")],
    bootstrap: Bootstrap = None,
    dry: Dry = False,
) -> None:
    """Tell everything that a file says; what was told before is not told again.

    Exit codes: 0 told, 2 a file that can't be read, with the line.
    """
    from collectors.schedulers import static

    try:
        lines = file.read_bytes().splitlines()
    except OSError as exc:
        fail(f"{file}: {exc.strerror}", BAD_INPUT)
    _tell(lambda book: static.apply(book, lines, time.time_ns()), bootstrap, dry)


def watch(
    scheduler: Annotated[str, typer.Argument(help="slurm or kubernetes.")],
    interval: Annotated[
        float, typer.Option(help="Seconds between looks at Slurm's queue.", min=0.2, max=600)
    ] = 1.0,
    slurmrestd: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask slurmrestd (http://…, unix:/…), not squeue.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="JWT for slurmrestd.")] = None,
    state_save_location: Annotated[
        Path | None, typer.Option(help="slurmctld's, where its jobs' NCCL settings may be read.")
    ] = None,
    accounting: Annotated[bool, typer.Option(help="Ask sacct how attempts ended.")] = True,
    poke_socket: Annotated[Path | None, typer.Option(help="Where `faultwire job poke` reaches this.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="[default: the pod's service account, else ~/.kube/config]")
    ] = None,
    selector: Annotated[str | None, typer.Option(help="Only pods with these labels.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve Prometheus metrics here, on loopback.", min=0, max=65535)
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Where else, for --metrics-port.")] = "127.0.0.1",
    bootstrap: Bootstrap = None,
) -> None:
    """Publish who runs where, from a scheduler, until stopped. One a cluster is enough."""
    told = settings(kafka__bootstrap=bootstrap)
    from collectors.schedulers.book import JobBook
    from collectors.schedulers.publisher import RawPublisher
    from faultwire.cli.run import run_until_signal

    publisher = RawPublisher(told.kafka.bootstrap, told.kafka.prefix, told.kafka.options)
    book = JobBook(told.cluster, scheduler)
    if scheduler not in {"slurm", "kubernetes"}:
        fail(f"{scheduler}: slurm or kubernetes", BAD_INPUT)
    if metrics_port is not None:
        from collectors.schedulers.metrics import ConnectorMetrics

        try:
            ConnectorMetrics(scheduler, publisher).serve(metrics_host, metrics_port)
        except OSError as exc:
            fail(f"{metrics_host}:{metrics_port}: {exc.strerror or exc}", BAD_INPUT)
    if scheduler == "kubernetes":
        from collectors.schedulers.kubernetes.attempts import PodTracker
        from collectors.schedulers.kubernetes.connector import KubernetesConnector, connect

        run_until_signal(
            KubernetesConnector(connect(kubeconfig), PodTracker(book), publisher, selector).run()
        )
        return

    from collectors.schedulers.slurm.attempts import AttemptTracker
    from collectors.schedulers.slurm.connector import SlurmConnector
    from collectors.schedulers.slurm.environment import environment_of
    from collectors.schedulers.slurm.queue import CommandQueue, RestQueue

    tracker = AttemptTracker(book, accounting=accounting and slurmrestd is None)
    if state_save_location is not None:
        tracker.environment = lambda job_id: environment_of(state_save_location, job_id)
    queue = RestQueue(slurmrestd, token_file) if slurmrestd else CommandQueue()
    run_until_signal(SlurmConnector(queue, tracker, publisher, interval, poke_socket).run())


def poke(socket_path: Annotated[Path, typer.Option("--socket")] = POKE_SOCKET) -> None:
    """From PrologSlurmctld or EpilogSlurmctld: have the connector look at once. Never fails a job."""
    import contextlib
    import socket

    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        out.sendto(b"poke", str(socket_path))


def _tell(events: Callable[[JobBook], list[Event[Any]]], bootstrap: str | None, dry: bool) -> None:
    from collectors.schedulers.book import JobBook
    from collectors.schedulers.publisher import RawPublisher
    from collectors.schedulers.static import SCHEDULER, StaticError

    told = settings(kafka__bootstrap=bootstrap)
    publisher = RawPublisher(told.kafka.bootstrap, told.kafka.prefix, told.kafka.options)
    book = JobBook(told.cluster, SCHEDULER)

    async def tell() -> None:
        if not dry:
            for event in await publisher.recall():
                book.restore(event)
        new = events(book)
        if dry:
            _print(new)
        else:
            await publisher.publish(new)
            await publisher.close()

    try:
        asyncio.run(tell())
    except StaticError as exc:
        fail(exc, BAD_INPUT)


def _print(events: list[Event[Any]]) -> None:
    from topics.events import encode

    for event in events:
        typer.echo(encode(event))
