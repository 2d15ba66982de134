"""The `faultwire` command: one program, a sub-command for each thing one does with it.

Each module here adds its commands in `register(app)` and imports what it needs only when a command runs, so
that `faultwire --help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from faultwire.cli import (
    attribute,
    broker,
    check,
    collect,
    config,
    control,
    demo,
    doctor,
    explain,
    health,
    hold,
    job,
    replay,
    serve,
    signals,
    simulate,
    sweep,
    topics,
    worker,
)
from faultwire.cli.common import BAD_INPUT, Globals, remember

app = typer.Typer(
    name="faultwire",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """Entry point of the `faultwire` command."""
    from topics.errors import SecurityError

    try:
        app()
    except SecurityError as exc:  # any command that connects may find that its credentials can't be used
        typer.echo(f"faultwire: {exc}", err=True)
        sys.exit(BAD_INPUT)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"faultwire {version('faultwire')}")
        raise typer.Exit


@app.callback()
def _globals(
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Settings file; else FAULTWIRE_CONFIG, ./faultwire.toml, /etc/faultwire/.",
        ),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="kv or json.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. kafka.prefix=test. (repeatable)"),
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which port, link or GPU is killing which job, while the run can still be saved.

    \b
    See it work        faultwire demo
    Look at the past   faultwire replay CAPTURE
                       faultwire attribute JOB         from Loki, Prometheus, files
    Run it for real    faultwire broker start
                       faultwire topics create
                       faultwire collect               on each node
                       faultwire streams, correlator   anywhere
                       faultwire serve                 the page, and REST
    Test the hardware  faultwire check run --suite bootstrap
    Settings           faultwire config show

    Exit codes: 0 all is well, 1 a finding, 2 wrong usage or input, 3 could not tell.
    """
    flags: dict[str, object] = {}
    for setting in set_ or ():
        key, equals, value = setting.partition("=")
        if not equals:
            typer.echo(f"faultwire: --set {setting}: write KEY=VALUE", err=True)
            raise typer.Exit(BAD_INPUT)
        flags[key.strip()] = value.strip()
    if log_level is not None:
        flags["log.level"] = log_level
    if log_format is not None:
        flags["log.format"] = log_format
    remember(Globals(config_file, flags))


for _module in (
    demo,
    replay,
    attribute,
    explain,
    collect,
    doctor,
    check,
    sweep,
    job,
    worker,
    serve,
    control,
    hold,
    signals,
    simulate,
    health,
    broker,
    topics,
    config,
):
    _module.register(app)
