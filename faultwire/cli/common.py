"""What all sub-commands share: exit codes, the effective settings, saying what went wrong."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from faultwire.config import Loaded
    from faultwire.settings import Settings

T = TypeVar("T")

OK: Final = 0
FINDING: Final = 1
"""The command worked, and what it looked for or at is not as it should be."""
BAD_INPUT: Final = 2
"""Wrong usage, configuration or input."""
COULD_NOT_TELL: Final = 3
"""What it needed (a broker, a device) could not be had, so that there is no answer."""
NO_BROKER: Final = "start one with `faultwire broker start`, or name yours: kafka.bootstrap or --bootstrap"


@dataclass(slots=True)
class Globals:
    """The options in front of the sub-command."""

    config: Path | None = None
    flags: dict[str, Any] = field(default_factory=dict)


_given: ContextVar[Globals] = ContextVar("faultwire-globals")


def remember(given: Globals) -> None:
    """Called once, before the sub-command runs."""
    _given.set(given)


def settings(**flags: Any) -> Settings:
    """The effective settings, with logging set up after them.

    `flags` are this command's own options, dots written as `__` (`kafka__bootstrap=…`); None means not
    given. Ends the command with exit code 2 and every problem named when the configuration is wrong.
    """
    from faultwire import logs

    told = loaded({key.replace("__", "."): value for key, value in flags.items()}).settings
    logs.setup(told.log.level, told.log.format)
    return told


def loaded(flags: Mapping[str, Any] | None = None) -> Loaded:
    """As `settings`, with the source of every value, and logging left alone."""
    from faultwire.config import DEFAULT, ConfigError, load

    given = _given.get(Globals())
    own = {key: value for key, value in (flags or {}).items() if value is not None}
    try:
        told = load(given.config, {**given.flags, **own})
        if told.sources["kafka.bootstrap"] == DEFAULT:  # nobody said where: perhaps on this machine
            told = load(given.config, {**given.flags, **own}, found=_found(told.settings.broker.dir))
    except ConfigError as exc:
        for problem in exc.problems:
            typer.echo(f"faultwire: {problem}", err=True)
        raise typer.Exit(BAD_INPUT) from exc
    return told


def fail(message: object, code: int = COULD_NOT_TELL) -> NoReturn:
    """Say what went wrong on standard error and end with `code`."""
    from faultwire.terminal import printable

    lines = (printable(line) for line in str(message).split("\n"))  # it may quote what others wrote
    typer.echo("faultwire: " + "\n".join(lines), err=True)
    raise typer.Exit(code)


def ask(bootstrap: str, question: Coroutine[Any, Any, T]) -> T:
    """What the broker answers; one that is away ends the command with its address and code 3."""
    import asyncio
    import logging

    from aiokafka.errors import KafkaConnectionError, KafkaError

    library = logging.getLogger("aiokafka")
    level = library.level
    library.setLevel(logging.CRITICAL)  # what it would say is said below, once
    try:
        return asyncio.run(question)
    except KafkaConnectionError:
        fail(f"no broker answers at {bootstrap}: {NO_BROKER}")
    except (KafkaError, OSError) as exc:
        fail(f"no answer from {bootstrap}: {exc}")
    finally:
        library.setLevel(level)


def _found(folder: Path | None) -> dict[str, tuple[Any, str]]:
    """Where the local broker listens, if `faultwire broker start` started one."""
    from faultwire.broker import daemon
    from faultwire.broker.errors import BrokerError

    try:
        bootstrap = daemon.running_bootstrap(folder or daemon.default_folder())
    except BrokerError:
        return {}  # `faultwire broker status` tells; other commands only wanted to know
    return {"kafka.bootstrap": (bootstrap, "local broker")} if bootstrap else {}
