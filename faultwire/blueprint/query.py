"""Fills a job's names into queries so that no name, however hostile, can change what a query asks. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

NAMES: Final = ("job", "attempt", "name", "nodes")
_PLACE: Final = re.compile(r"\$\{([a-z_]+)\}")
_SPECIAL: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")
_REGEX: Final = ("=~", "!~", "|~")


class QueryError(ValueError):
    """A query in which a name can't be filled in; the message says why."""


def fill(query: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """`query` with `${job}`, `${nodes}` and the like replaced.

    They must stand inside double quotes. Behind `=~`, `!~` and `|~` a value is quoted for a regular
    expression and several become alternatives; elsewhere there can be but one. Raises `QueryError`.
    """
    out: list[str] = []
    at = 0
    for found in _PLACE.finditer(query):
        name = found[1]
        if name not in values:
            raise QueryError(f"${{{name}}} is unknown; there are {', '.join(sorted(values))}")
        quote = _open_quote(query[: found.start()])
        if quote is None:
            raise QueryError(f"${{{name}}} must stand inside double quotes")
        out += (query[at : found.start()], _text(values[name], name, query[:quote].rstrip().endswith(_REGEX)))
        at = found.end()
    return "".join(out) + query[at:]


def uses(query: str, name: str) -> bool:
    return f"${{{name}}}" in query


def fill_path(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """A glob with names filled in. A value can't leave its place: no separators, no wildcards."""

    def replaced(found: re.Match[str]) -> str:
        value = values.get(found[1])
        if not isinstance(value, str):
            raise QueryError(f"${{{found[1]}}} can't stand in a file name")
        if value in ("", ".", "..") or "/" in value or "\0" in value:
            raise QueryError(f"{value!r:.80} can't stand in a file name")
        return re.sub(r"([*?\[])", r"[\1]", value)

    return _PLACE.sub(replaced, text)


def regex_quoted(text: str) -> str:
    """For RE2, as Go's QuoteMeta does it: Python's `re.escape` escapes more than RE2 takes."""
    return _SPECIAL.sub(r"\\\1", text)


def _text(value: str | Sequence[str], name: str, regex: bool) -> str:
    if regex:
        alternatives = [value] if isinstance(value, str) else value
        return _in_quotes("|".join(map(regex_quoted, alternatives)))
    if not isinstance(value, str):
        raise QueryError(f"${{{name}}} are several: it needs =~ (or |~)")
    return _in_quotes(value)


def _in_quotes(text: str) -> str:
    """As the inside of a Go string; JSON's escapes are among Go's."""
    return json.dumps(text.encode("utf-8", "replace").decode())[1:-1].replace("\\/", "/")


def _open_quote(before: str) -> int | None:
    """Where the double quotes began that are still open at the end of `before`."""
    opened: int | None = None
    mark = ""
    i = 0
    while i < len(before):
        c = before[i]
        if opened is not None:
            if c == "\\" and mark == '"':
                i += 1
            elif c == mark:
                opened = None
        elif c in '"`':
            opened, mark = i, c
        i += 1
    return opened if mark == '"' else None
