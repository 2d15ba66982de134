"""Configuration in layers: packaged defaults, one TOML file, environment, flags; later ones win.

Every value is remembered with where it came from. A key that nobody knows is an error that names the
nearest known one, wherever it stands.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError

from faultwire.settings import Settings

ENV_PREFIX: Final = "FAULTWIRE__"
"""`FAULTWIRE__KAFKA__PREFIX` sets `kafka.prefix`: two underscores stand for the dot."""

SHORTHANDS: Final = {"FAULTWIRE_BOOTSTRAP": "kafka.bootstrap", "FAULTWIRE_BROKER_DIR": "broker.dir"}
FILE_VARIABLE: Final = "FAULTWIRE_CONFIG"
USUAL_FILES: Final = (Path("faultwire.toml"), Path("/etc/faultwire/faultwire.toml"))

INHERITED: Final = {
    "cluster": "cluster",
    "bootstrap": "kafka.bootstrap",
    "prefix": "kafka.prefix",
    "replication_factor": "kafka.replication",
}
"""A room's setting of this name follows the common one unless its own section says otherwise."""

COMMON_SECURITY: Final = "kafka.security."
"""A room's own `security` section follows this one, key by key, in the same way."""

DEFAULT: Final = "default"
MASK: Final = "***"


class ConfigError(Exception):
    """The configuration can't be used; the message has one line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each dotted key (`kafka.prefix`) the place that decided it."""

    settings: Settings
    sources: Mapping[str, str]
    file: Path | None

    def rows(self) -> list[tuple[str, Any, str]]:
        """(key, value as JSON would have it, source) of every setting, in the order of the models; a secret
        is `***`."""
        plain = self.settings.model_dump(mode="json")
        found = [(key, _at(plain, key), self.sources[key]) for key in leaves(Settings)]
        return [(key, MASK if value and is_secret(key) else value, source) for key, value, source in found]


def load(
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    found: Mapping[str, tuple[Any, str]] | None = None,
) -> Loaded:
    """The effective configuration; raises `ConfigError` with everything that is wrong.

    `path` is the file (else FAULTWIRE_CONFIG, else a usual place, else none). `flags` are dotted keys set
    on the command line; `found` are facts of this machine with their source, stronger than the packaged
    defaults only.
    """
    environ = os.environ if environ is None else environ
    file = _file(path, environ)
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def take(key: str, value: Any, source: str) -> None:
        values[key] = value
        sources[key] = source

    for key, value in _flat(Settings, _packaged(), DEFAULT, problems):
        take(key, value, DEFAULT)
    for key, (value, source) in (found or {}).items():
        take(key, value, source)
    if file is not None:
        for key, value in _flat(Settings, _read(file), str(file), problems):
            if is_secret(key):
                problems.append(f"{file}: {_not_here(key)}")
            else:
                take(key, value, str(file))
    for key, value, name in _from_environment(environ, problems):
        take(key, value, f"environment {name}")
    for key, value in (flags or {}).items():
        if is_secret(key):
            problems.append(f"command line: {_not_here(key)}")
        elif key in leaves(Settings):
            take(key, _typed(key, value) if isinstance(value, str) else value, "command line")
        else:
            problems.append(f"command line: {_unknown(key)}")
    for key in leaves(Settings):
        common = _common(key)
        if common in values and key not in values:
            take(key, values[common], f"as {common}")
    if problems:
        raise ConfigError(problems)
    try:
        settings = Settings.model_validate(_nested(values))
    except ValidationError as exc:
        told = [_wrong(error, sources) for error in exc.errors(include_url=False)]
        # what a room inherited is wrong where it was set, and told there
        own = [line for line in told if not line.startswith("as ")] or told
        raise ConfigError(own) from (None if any(map(is_secret, values)) else exc)
    return Loaded(settings, {key: sources.get(key, DEFAULT) for key in leaves(Settings)}, file)


def leaves(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Every dotted key of the model with its annotation; tables that are no models count as one value."""
    found: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        inner = _model(info.annotation)
        if inner is not None:
            found |= leaves(inner, f"{prefix}{name}.")
        else:
            found[prefix + name] = info.annotation
    return found


def is_secret(key: str) -> bool:
    """Whether the setting holds a secret itself (and not the name of the file that does)."""
    return SecretStr in _members(leaves(Settings).get(key))


def _common(key: str) -> str:
    section, _, name = key.rpartition(".")
    if section.endswith(".security") and not key.startswith(COMMON_SECURITY):
        return COMMON_SECURITY + name
    return INHERITED.get(name, "")


def _not_here(key: str) -> str:
    """A process list and a settings file are read by many."""
    variable = ENV_PREFIX + key.upper().replace(".", "__")
    return f"{key} is a secret: put it into a file that {key}_file names, or set {variable}"


def _file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if named is not None:
        return named
    return next((usual for usual in USUAL_FILES if usual.is_file()), None)


def _packaged() -> dict[str, Any]:
    return tomllib.loads(files("faultwire").joinpath("data/defaults.toml").read_text("utf-8"))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError([f"{file}: not TOML: {exc}"]) from exc
    except OSError as exc:
        raise ConfigError([f"{file}: can't be read: {exc.strerror}"]) from exc


def _flat(
    model: type[BaseModel], table: Mapping[str, Any], source: str, problems: list[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = prefix + name
        info = model.model_fields.get(name)
        if info is None:
            problems.append(f"{source}: {_unknown(key)}")
            continue
        inner = _model(info.annotation)
        if inner is None:
            yield key, value
        elif isinstance(value, Mapping):
            yield from _flat(inner, value, source, problems, f"{key}.")
        else:
            problems.append(f"{source}: {key} is a section: write [{key}] and its settings below")


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[tuple[str, Any, str]]:
    for name, key in SHORTHANDS.items():
        if environ.get(name):
            yield key, environ[name], name
    known = leaves(Settings)
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX):
            continue
        key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
        if key in known:
            yield key, _typed(key, environ[name]), name
        else:
            problems.append(f"environment {name}: {_unknown(key)}")


def _typed(key: str, text: str) -> Any:
    """Text of a flag or variable as the setting's type has it: lists, numbers and booleans as in TOML."""
    if _members(leaves(Settings)[key]) <= {str, SecretStr, NoneType}:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _unknown(key: str) -> str:
    known = list(leaves(Settings))
    section, _, name = key.rpartition(".")
    beside = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == section}
    near = [beside[n] for n in difflib.get_close_matches(name, beside, 1)]
    near = near or difflib.get_close_matches(key, [*known, *Settings.model_fields], 1, 0.5)
    return f"unknown key {key}" + (f", did you mean {near[0]}?" if near else "")


def _wrong(error: Any, sources: Mapping[str, str]) -> str:
    parts = [str(part) for part in error["loc"]]
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in sources:
            what = MASK if is_secret(key) else f"{error['input']!r:.80}"
            return f"{sources[key]}: {'.'.join(parts)}: {error['msg']} (it is {what})"
    # of a whole section: its input is not shown, and a section that only follows the common one is
    own = [source for key, source in sources.items() if key.startswith(".".join(parts) + ".")]
    follows = own and all(source.startswith("as ") for source in own)
    return f"{'as kafka.security: ' if follows else ''}{'.'.join(parts) or 'configuration'}: {error['msg']}"


def _model(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _members(annotation: Any) -> set[Any]:
    """The types that a setting may have: `str | None` has two."""
    return set(get_args(annotation)) if get_origin(annotation) in (UnionType, Union) else {annotation}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        table = tree
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    for name, info in Settings.model_fields.items():
        if _model(info.annotation) is not None:
            tree.setdefault(name, {})
    return tree


def _at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree
