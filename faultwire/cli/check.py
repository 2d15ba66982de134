"""`faultwire check`: active checks of this node, their thresholds, and the hooks of schedulers."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from faultwire.cli.common import BAD_INPUT, FINDING, OK, fail, settings

if TYPE_CHECKING:
    from checks.context import NodeCheck
    from checks.model import Result
    from checks.session import Finished
    from faultwire.settings import Settings
    from topics.events import Event

PASSED: Final = 0
FAILED: Final = 2
COULD_NOT_TEST: Final = 3
"""Exit codes of `check run`, as monitoring knows them. Nothing but a failed check ends with 2."""
_STATUS: Final = {"pass": PASSED, "fail": FAILED, "error": COULD_NOT_TEST, "aborted": COULD_NOT_TEST}
_MARK: Final = {"pass": "ok", "fail": "FAIL", "error": "?", "aborted": "-"}


_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of the click that typer uses, which may be its own copy."""


class _Run(TyperCommand):
    """Wrong usage is no failure of the node: click's own code for it is that of a failed check."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **more: Any) -> Any:
        try:
            return super().make_context(info_name, args, *rest, **more)
        except _UsageError as exc:
            vars(exc)["exit_code"] = COULD_NOT_TEST
            raise


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("list")(list_)
    group.command(cls=_Run)(run)
    group.command()(last)
    group.command()(hook)
    group.command()(learn)
    group.command()(thresholds)
    app.add_typer(group, name="check", help="Active checks of this node: the bootstrap suite, hooks.")


Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line.")]


def list_(as_json: Json = False) -> None:
    """The checks: what they do, need and cost."""
    from checks.suites import CHECKS, SUITES

    for check in CHECKS.values():
        told = check.declaration
        needs = sorted(need.value for need in told.needs)
        suites = [name for name, members in SUITES.items() if told.name in members]
        if as_json:
            parameters = {p.name: {"default": p.default, "unit": p.unit} for p in told.parameters}
            _line({
                "check": told.name, "layer": told.layer, "about": told.about, "needs": needs,
                "cost_s": told.cost_s, "limit_s": told.limit_s, "platforms": list(told.platforms),
                "parameters": parameters, "metrics": list(told.metrics), "suites": suites,
            })  # fmt: skip
            continue
        typer.echo(f"{told.name:<8} {told.about}")
        typer.echo(f"         about {told.cost_s:g} s, at most {told.limit_s:g} s; in {', '.join(suites)}")
        typer.echo(f"         needs {', '.join(needs) or 'nothing'}")
        for parameter in told.parameters:
            typer.echo(
                f"         --param {parameter.name}={_shown(parameter.default)} {parameter.unit}".rstrip()
                + f"  {parameter.about}"
            )


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Checks to run.")] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="SUITE", help="bootstrap, prolog or epilog instead.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Of a single check.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Results as JSON, one a line.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and how.")] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print events as JSON Lines; nothing is sent.")
    ] = False,
    textfile: Annotated[
        Path | None, typer.Option(metavar="FILE.prom", help="Also write metrics for node_exporter.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="[default: kafka.bootstrap]")
    ] = None,
) -> None:
    """Run checks on this node and deliver the results to `raw.check`.

    Exit codes: 0 all passed, 2 a check failed, 3 could not test (wrong usage, too).
    """
    import asyncio

    from checks.delivery import CheckPublisher
    from checks.needs import BusyError
    from checks.platforms import PlatformError, read
    from checks.session import Session
    from checks.suites import UnknownError
    from checks.suites import check as check_of
    from checks.suites import suite as suite_of
    from topics.errors import SecurityError

    told = _settings(bootstrap)
    if bool(names) == bool(suite):
        fail("name checks, or a suite with --suite", COULD_NOT_TEST)
    try:
        chosen = suite_of(suite, told.check) if suite else [check_of(name) for name in names or ()]
        own = tuple(read(path) for path in told.check.platform_files)
    except (UnknownError, PlatformError) as exc:
        fail(exc, COULD_NOT_TEST)
    parameters = _parameters(param, chosen)
    if dry_run:
        _plan(chosen, told)
        return
    screen = _Screen(as_json=as_json, events=print_)
    try:
        publisher = None if print_ else CheckPublisher(
            told.kafka.bootstrap, told.check.state_dir, prefix=told.kafka.prefix,
            within_s=told.check.deliver_within_s, options=told.kafka.options,
        )  # fmt: skip
        session = Session(told.check, screen.say, screen.warn, publisher, own, parameters)
        finished = asyncio.run(session.run(chosen, suite))
    except (BusyError, SecurityError, OSError) as exc:
        fail(exc, COULD_NOT_TEST)
    screen.end(finished)
    if textfile is not None:
        _write_metrics(textfile, screen.results)
    status = _STATUS[finished.verdict]
    raise typer.Exit(COULD_NOT_TEST if status == PASSED and not finished.delivered else status)


def last(as_json: Json = False) -> None:
    """The last known verdict of each check on this node. Exit codes: 0, 1 one of them is a failure."""
    from checks.verdicts import read

    known = read(settings().check.state_dir)
    for name, entry in sorted(known.items()):
        if as_json:
            _line({"check": name, **entry})
        else:
            shown = entry if "verdict" in entry else entry.get("last_try", {})
            typer.echo(f"{name:<12} {shown.get('verdict', ''):<8} {shown.get('time', '')}  "
                       f"{shown.get('message', '')}")  # fmt: skip
    raise typer.Exit(FINDING if any(e.get("verdict") == "fail" for e in known.values()) else OK)


def hook(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="prolog, epilog or health: for which hook it answers.")],
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Also start the suite of that name in the background.")
    ] = False,
) -> None:
    """Answer a scheduler's hook from the last known verdict, at once; let the job start when in doubt.

    Exit codes: 0 nothing speaks against the node, 1 a check has failed.
    """
    import os

    from checks.hook import ANSWER_WITHIN_S, answer, fail_open_after, where

    fail_open_after(ANSWER_WITHIN_S)
    if kind not in {"prolog", "epilog", "health"}:
        typer.echo(f"faultwire: no hook {kind}; the job may start", err=True)
        raise typer.Exit(OK)
    config = context.find_root().params.get("config_file")
    folder, age = where(config, os.environ)
    given = answer(folder, time.time(), age)
    typer.echo(f"faultwire: {given.message}", err=True)
    if refresh:
        _start("epilog" if kind == "health" else kind, config)
    raise typer.Exit(given.status)


def learn(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="[default: check.manifest]")] = None,
    by_count: Annotated[
        bool, typer.Option("--by-count", help="Compare numbers, for nodes that enumerate differently.")
    ] = False,
) -> None:
    """Write down what PCI devices and ports this node has, as what it and its like must have."""
    from checks import host, manifest
    from topics.time import format_rfc3339

    told = settings().check
    devices, ports = host.pci_devices(told.sysfs_root), host.rdma_ports(told.sysfs_root)
    if not devices:
        fail(f"no device under {told.sysfs_root}/bus/pci/devices would be watched")
    found = manifest.learn(
        devices, ports, node=told.node_name, at=format_rfc3339(time.time_ns()),
        match="count" if by_count else "address",
    )  # fmt: skip
    target = out or told.manifest
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(found.model_dump_json(indent=1, exclude_none=True) + "\n")
    except OSError as exc:
        fail(f"{target}: {exc.strerror}")
    typer.echo(f"{target}: {len(found.devices)} devices, {len(found.ports)} active ports")


def thresholds(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Threshold files to test instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """The thresholds with their sources, after their self-test.

    Exit codes: 0 all can be used, 2 a file can't: each thing that is wrong with it is told.
    """
    from checks.platforms import PlatformError, packaged, read

    wrong = False
    platforms = []
    for path in files or ():
        try:
            platforms.append(read(path))
        except PlatformError as exc:
            wrong = True
            typer.echo(f"faultwire: {exc}", err=True)
    for platform in platforms if files else packaged():
        for sort, name, figure in platform.rows():
            if as_json:
                _line({"platform": platform.name, "sort": sort, "metric": name,
                       **figure.model_dump(exclude_none=True)})  # fmt: skip
            else:
                typer.echo(
                    f"{platform.name:<10} {sort:<8} {name:<36} {figure.value:>10g} {figure.unit:<7}"
                    f" {figure.source} ({figure.date})"
                )
    raise typer.Exit(BAD_INPUT if wrong else OK)


class _Screen:
    """What people and programs see of a run."""

    def __init__(self, *, as_json: bool, events: bool) -> None:
        self._json = as_json
        self._events = events
        self.results: list[Result] = []

    def say(self, result: Result, event: Event[Any]) -> None:
        from checks.model import payload
        from topics.events import encode

        self.results.append(result)
        if self._events:
            typer.echo(encode(event))
        elif self._json:
            typer.echo(payload(result).model_dump_json(exclude_none=True))
        else:
            seconds = (result.ended - result.started) / 1e9
            mark = _MARK[result.verdict]
            typer.echo(f"{mark:<5} {result.check:<10} {result.outcome.message}  [{seconds:.0f} s]")

    def warn(self, words: str) -> None:
        typer.echo(f"faultwire: {words}", err=True)

    def end(self, finished: Finished) -> None:
        for skipped in finished.report.skipped:
            if not self._json and not self._events:
                typer.echo(f"{'':<5} {skipped.check:<10} not for this node: {skipped.why}")
        if not finished.report.results:
            self.warn("nothing was tested: " + "; ".join(s.why for s in finished.report.skipped))


def _write_metrics(path: Path, results: list[Result]) -> None:
    from checks.metrics import write_textfile

    try:
        write_textfile(path, results)
    except (OSError, ValueError) as exc:
        typer.echo(f"faultwire: {exc}", err=True)


def _settings(bootstrap: str | None) -> Settings:
    """As `settings`; a configuration that can't be used is no failure of the node."""
    try:
        return settings(kafka__bootstrap=bootstrap)
    except typer.Exit as exc:
        raise typer.Exit(COULD_NOT_TEST) from exc


def _parameters(given: list[str] | None, chosen: list[NodeCheck]) -> dict[str, float | str]:
    if given and len(chosen) != 1:
        fail("--param goes with one check; others have theirs in [check.parameters]", COULD_NOT_TEST)
    found: dict[str, float | str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--param {item}: write NAME=VALUE", COULD_NOT_TEST)
        found[name] = value
    return found


def _plan(chosen: list[NodeCheck], told: Settings) -> None:
    from checks.plan import cost_s, waves

    for number, wave in enumerate(waves(chosen), 1):
        for check in wave.checks:
            about = check.declaration
            needs = ", ".join(sorted(need.value for need in about.needs)) or "nothing"
            typer.echo(f"{number}. {about.name:<8} about {about.cost_s:g} s, needs {needs}")
            for command in check.commands(told.check):
                typer.echo(f"     {command}")
    typer.echo(f"about {cost_s(chosen):.0f} s in all; nothing was run")


def _start(suite: str, config: Path | None) -> None:
    """In a session of its own, so that it outlives the hook, which does not wait for it."""
    import os

    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "faultwire", "check", "run", "--suite", suite],
        {**os.environ, **({"FAULTWIRE_CONFIG": str(config)} if config else {})},
        file_actions=quiet,
        setsid=True,
    )


def _shown(value: float | str) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _line(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value))
