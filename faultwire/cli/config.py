"""`faultwire config`: what holds, and who said so."""

from __future__ import annotations

from typing import Annotated

import typer

from faultwire.cli.common import loaded


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.callback()(_config)
    group.command()(show)
    app.add_typer(group, name="config")


def _config() -> None:
    """The settings that hold on this machine.

    Packaged defaults, then one TOML file, then the environment (FAULTWIRE__KAFKA__PREFIX sets kafka.prefix),
    then options (--set kafka.prefix=…). Later ones win.
    """


def show(
    as_json: Annotated[bool, typer.Option("--json", help="One object: {key: {value, source}}.")] = False,
) -> None:
    """Print every setting in effect and where its value comes from."""
    import orjson

    told = loaded()
    if as_json:
        document = {key: {"value": value, "source": source} for key, value, source in told.rows()}
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    lines = [(f"{key} = {orjson.dumps(value).decode()}", source) for key, value, source in told.rows()]
    width = min(60, max(len(text) for text, _ in lines))
    typer.echo(f"# file: {told.file or 'none'}")
    for text, source in lines:
        typer.echo(f"{text:<{width}}  # {source}")
