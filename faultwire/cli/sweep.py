"""`faultwire sweep`: idle nodes are tested together, and the bad one is found."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from faultwire.cli.common import BAD_INPUT, COULD_NOT_TELL, FINDING, OK, fail, settings
from faultwire.terminal import printable

if TYPE_CHECKING:
    from checks.sweep.loans import Lender
    from checks.sweep.session import Setup
    from checks.sweep.sweep import Progress, Report
    from checks.sweep.topology import Topology
    from faultwire.settings import Settings

_STATUS: Final = {"pass": OK, "fail": FINDING, "error": COULD_NOT_TELL, "aborted": COULD_NOT_TELL}
_MARK: Final = {"pass": "ok", "fail": "FAIL", "error": "?", "aborted": "-"}


def register(app: typer.Typer) -> None:
    app.command()(sweep)


def sweep(
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="Who lends the nodes: slurm, kubernetes, or none.")
    ] = "slurm",
    nodes: Annotated[
        str | None, typer.Option(metavar="NODES", help="Only these, e.g. `gpu[001-032]`. [default: all idle]")
    ] = None,
    most: Annotated[int | None, typer.Option(metavar="N", help="At most so many nodes.", min=2)] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Every pair of nodes instead of the screen: n-1 rounds.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would run, and how long it takes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The plan or the report as one JSON object.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the matrix of pairs there.")
    ] = None,
    send: Annotated[bool, typer.Option("--send/--no-send", help="Deliver results to `raw.check`.")] = True,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="[default: the pod's service account, else ~/.kube/config]")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="[default: kafka.bootstrap]")
    ] = None,
) -> None:
    """Borrow idle nodes, run nccl-tests over groups and pairs of them, and name what is bad.

    The nodes go back at once when a job wants them; then there is no verdict.

    Exit codes: 0 all good, 1 something is bad, 2 wrong usage or input, 3 could not tell.
    """
    from checks.sweep.loans import LoanError
    from checks.sweep.session import BusyError, SetupError, alone
    from checks.sweep.session import Setup as Prepared
    from checks.sweep.sweep import choose
    from topics.errors import SecurityError

    told = settings(kafka__bootstrap=bootstrap)
    try:
        setup = Prepared(told.sweep)
        lender = _lender(scheduler, nodes, told, kubeconfig)
        with alone(told.sweep.state_dir):
            topology = asyncio.run(choose(lender, told.sweep, most, setup.topology))
            if dry_run:
                _plan(topology, told, setup, exhaustive=exhaustive, as_json=as_json)
                return
            report = asyncio.run(_run(lender, topology, told, setup, exhaustive=exhaustive))
            _finish(report, told, setup, as_json=as_json, svg=svg, send=send)
    except SetupError as exc:
        fail(exc, BAD_INPUT)
    except (LoanError, BusyError, OSError, SecurityError) as exc:
        fail(exc)


async def _run(
    lender: Lender, topology: Topology, told: Settings, setup: Setup, *, exhaustive: bool
) -> Report:
    """SIGTERM and SIGINT end the programs and give the nodes back before this ends."""
    from checks.sweep.sweep import sweep as run_sweep

    with _progress() as show:
        work = run_sweep(
            lender,
            topology,
            told.sweep,
            lambda loan: setup.tester(topology, loan),
            gates=setup.gates,
            exhaustive=exhaustive,
            progress=show,
        )
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            fail("stopped; the nodes are given back")


def _finish(
    report: Report, told: Settings, setup: Setup, *, as_json: bool, svg: Path | None, send: bool
) -> None:
    from checks.sweep.picture import draw
    from checks.sweep.results import as_json as plain
    from checks.sweep.results import worst

    if as_json:
        typer.echo(json.dumps(plain(report)))
    else:
        _table(report)
    if svg is not None:
        svg.write_text(draw(report), "utf-8")
    learnt = setup.learn(report)
    if learnt and not as_json:
        typer.echo(f"the fleet baseline learnt from {learnt} runs")
    if send and not asyncio.run(_deliver(report, told)):
        typer.echo("faultwire: not delivered, waits for the next sweep", err=True)
        raise typer.Exit(max(_STATUS[worst(report)], COULD_NOT_TELL))
    raise typer.Exit(_STATUS[worst(report)])


async def _deliver(report: Report, told: Settings) -> bool:
    from checks.delivery import CheckPublisher
    from checks.model import event
    from checks.sweep.results import results

    publisher = CheckPublisher(
        told.kafka.bootstrap, told.sweep.state_dir, prefix=told.kafka.prefix,
        within_s=told.sweep.deliver_within_s, options=told.kafka.options,
    )  # fmt: skip
    found = results(report).items()
    return await publisher.publish([event(r, cluster=told.cluster, node=node) for node, r in found])


def _lender(scheduler: str, nodes: str | None, told: Settings, kubeconfig: Path | None) -> Lender:
    from checks.sweep.loans import Fixed, owner

    wanted = _names(nodes)
    ours = owner(told.sweep.state_dir)
    if scheduler == "slurm":
        from checks.sweep.slurm import SlurmLender

        return SlurmLender(told.sweep.slurm, ours, wanted)
    if scheduler == "kubernetes":
        from checks.sweep.kubernetes import KubernetesLender

        return KubernetesLender.connect(kubeconfig, told.sweep.kubernetes, ours, wanted)
    if scheduler != "none":
        fail(f"--scheduler {scheduler}: slurm, kubernetes or none", BAD_INPUT)
    if wanted is None:
        fail("--scheduler none: name the nodes with --nodes", BAD_INPUT)
    return Fixed(wanted)


def _names(nodes: str | None) -> list[str] | None:
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    if nodes is None:
        return None
    try:
        return [str(node) for node in NodeSet(nodes, resolver=None)]
    except NodeSetException as exc:
        fail(f"--nodes {nodes:.80}: {exc}", BAD_INPUT)


def _plan(topology: Topology, told: Settings, setup: Setup, *, exhaustive: bool, as_json: bool) -> None:
    """The rounds of the screen, one command as it would be run, and the time."""
    from checks.sweep import plan
    from checks.sweep.model import Run

    names = list(topology.nodes)
    if exhaustive:
        rounds = [[Run(pair, "pair", "every pair") for pair in pairs] for pairs in plan.circle(names)]
    else:
        rounds = [list(runs) for runs in plan.screen(topology, told.sweep.group_most)]
    waves = sum(-(-len(runs) // told.sweep.parallel) for runs in rounds)
    seconds = waves * told.sweep.expected_run_s
    tester = setup.tester(topology)
    first = rounds[0][0]
    command = tester.argv(first, "all_reduce", told.sweep.gpus_per_node)
    if as_json:
        typer.echo(json.dumps({
            "nodes": names, "units": {unit: list(members) for unit, members in topology.units.items()},
            "rails": topology.rails, "expected_s": seconds, "command": command,
            "rounds": [[{"kind": r.kind, "purpose": r.purpose, "nodes": list(r.nodes)} for r in runs]
                       for runs in rounds],
        }))  # fmt: skip
        return
    known = f"{len(topology.units)} units" if topology.known else "topology unknown"
    typer.echo(f"{len(names)} nodes, {known}, {topology.rails} rails")
    for number, runs in enumerate(rounds, 1):
        typer.echo(f"round {number}: {runs[0].purpose}, {len(runs)} runs")
        for run in runs[:8]:
            typer.echo(f"  {_short(run.nodes)}")
        if len(runs) > 8:
            typer.echo(f"  and {len(runs) - 8} more")
    typer.echo(f"about {_time(seconds)} if all is well; more rounds where something fails")
    typer.echo(f"e.g. {' '.join(map(printable, command))}")


def _table(report: Report) -> None:
    """Findings first, then each node."""
    from checks.sweep.results import results, worst

    for what in report.returned:
        typer.echo(f"given back, left by an earlier sweep: {printable(what)}")
    if report.aborted is not None:
        typer.echo(f"no verdict: {printable(report.aborted)}; the nodes are given back")
    verdict = report.verdict
    for finding in verdict.findings if verdict is not None else ():
        typer.echo(f"FAIL {printable(finding.entity)}: {printable(finding.message)}")
    if verdict is not None and verdict.candidates:
        typer.echo(f"     may be bad, nobody is blamed: {_short(verdict.candidates)}")
    found = results(report)
    width = max(map(len, found), default=4)
    for node, result in found.items():
        values = {metric.name: metric.value for metric in result.outcome.metrics}
        busbw = f"{values['busbw_gbps']:8.1f} GB/s" if "busbw_gbps" in values else " " * 13
        p95 = f"{values['p95_us']:8.1f} us" if "p95_us" in values else " " * 11
        message = printable(result.outcome.message)
        typer.echo(f"{_MARK[result.verdict]:<5}{node:<{width}} {busbw} {p95}  {message}")
    for measured in report.measured:
        for knee in measured.knees[:1]:
            typer.echo(f"knee {_short(measured.result.run.nodes)}: bandwidth falls at {knee}")
    runs = f"{len(report.measured)} runs in {report.rounds} rounds"
    typer.echo(f"{worst(report)}: {len(found)} nodes, {runs}, {_time((report.ended - report.started) / 1e9)}")


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar with the time left on a terminal, else one line a round, on standard error."""
    if not sys.stderr.isatty():
        last = [0]

        def line(now: Progress) -> None:
            if now.round != last[0]:
                last[0] = now.round
                typer.echo(f"round {now.round}: {printable(now.stage)}, {now.total} runs", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", left="")

        def show(now: Progress) -> None:
            text = f"round {now.round}: {printable(now.stage)}, {now.done}/{now.total}"
            bar.update(task, description=text, completed=now.done, total=now.total,
                       left=f"at least {_time(now.left_s)} left")  # fmt: skip

        yield show


def _short(nodes: tuple[str, ...]) -> str:
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        return printable(str(NodeSet.fromlist(list(nodes), resolver=None)))
    except NodeSetException:
        return printable(",".join(nodes))


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
