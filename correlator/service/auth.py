"""Who may ask: bearer tokens with scopes. Off only where nobody but this machine can ask.

A token is kept as its SHA-256 alone. Looking that up tells nothing by time about a wrong one.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import Request

from correlator.service.problems import ProblemError

Scope = Literal["read", "submit", "operate"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
"""read: every GET. submit: post-mortem analyses. operate: the service itself (make the store anew)."""

VARIABLE: Final = "FAULTWIRE_TOKENS"
COOKIE: Final = "faultwire_token"
"""A browser can't add a header to a live stream. It is taken for reading only."""
LEAST_CHARS: Final = 16

_BEARER: Final = HTTPBearer(auto_error=False, description="A token with the scopes read, submit or operate.")


class TokenError(ValueError):
    """Tokens that can't be used; the message says where and why, without the token."""


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    scopes: frozenset[str]


ANYBODY: Final = Caller("local", frozenset(SCOPES))


class Tokens:
    """`Tokens()` has none: then everybody may do everything."""

    def __init__(self, callers: Mapping[str, Caller] | None = None) -> None:
        self._callers = dict(callers or {})

    def __bool__(self) -> bool:
        return bool(self._callers)

    def caller(self, token: str) -> Caller | None:
        return self._callers.get(digest(token))


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def load_tokens(file: Path | None, environ: Mapping[str, str]) -> Tokens:
    """From a TOML file, `[[token]]` tables of `name`, `scopes` and `token` or `sha256`, and from the
    environment: `FAULTWIRE_TOKENS="name:scope+scope:token …"`. Raises `TokenError`."""
    callers: dict[str, Caller] = {}
    for where, name, scopes, key in (*_from_file(file), *_from_environment(environ.get(VARIABLE, ""))):
        unknown = sorted(set(scopes) - set(SCOPES))
        if unknown or not scopes:
            raise TokenError(f"{where}: scopes are {', '.join(SCOPES)}, not {', '.join(unknown) or 'none'}")
        if key in callers:
            raise TokenError(f"{where}: the same token is {callers[key].name}'s already")
        callers[key] = Caller(name, frozenset(scopes))
    return Tokens(callers)


def _from_file(file: Path | None) -> Iterable[tuple[str, str, list[str], str]]:
    if file is None:
        return
    try:
        if file.stat().st_mode & 0o007:
            raise TokenError(f"{file}: everybody on this machine may read it; chmod o= {file}")
        tables = tomllib.loads(file.read_text("utf-8")).get("token", [])
    except OSError as exc:
        raise TokenError(f"{file}: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise TokenError(f"{file}: not TOML: {exc}") from exc
    if not isinstance(tables, list) or not tables:
        raise TokenError(f"{file}: has no [[token]]")
    for number, table in enumerate(tables, 1):
        where = f"{file}: token {number}"
        yield (where, *_table(where, table))


def _table(where: str, table: Any) -> tuple[str, list[str], str]:
    unknown = sorted(set(table) - {"name", "scopes", "token", "sha256"}) if isinstance(table, dict) else []
    if not isinstance(table, dict) or unknown:
        raise TokenError(f"{where}: has name, scopes, and token or sha256, not {', '.join(unknown)}")
    name, scopes = table.get("name"), table.get("scopes")
    if not isinstance(name, str) or not name:
        raise TokenError(f"{where}: needs a name")
    if not isinstance(scopes, list) or not all(isinstance(s, str) for s in scopes):
        raise TokenError(f"{where} ({name}): scopes is a list of names")
    token, sha = table.get("token"), table.get("sha256")
    if (token is None) == (sha is None):
        raise TokenError(f"{where} ({name}): give either token or sha256")
    if sha is not None:
        if not isinstance(sha, str) or len(sha) != 64 or set(sha.lower()) - set("0123456789abcdef"):
            raise TokenError(f"{where} ({name}): sha256 is 64 hex digits")
        return name, scopes, sha.lower()
    return name, scopes, digest(_long_enough(f"{where} ({name})", token))


def _from_environment(text: str) -> Iterable[tuple[str, str, list[str], str]]:
    for number, entry in enumerate(text.split(), 1):
        where = f"{VARIABLE}: entry {number}"
        parts = entry.split(":", 2)
        if len(parts) != 3 or not parts[0]:
            raise TokenError(f"{where}: write name:scope+scope:token")
        yield where, parts[0], parts[1].split("+"), digest(_long_enough(where, parts[2]))


def _long_enough(where: str, token: Any) -> str:
    if not isinstance(token, str) or len(token) < LEAST_CHARS:
        raise TokenError(f"{where}: a token has at least {LEAST_CHARS} characters")
    return token


def caller_of(tokens: Tokens, header: str | None, cookie: str | None) -> Caller | None:
    """Who asks, None for a stranger. A cookie comes along with requests that its owner never meant to make,
    so it only ever reads."""
    if not tokens:
        return ANYBODY
    if header is not None:
        scheme, _, token = header.partition(" ")
        return tokens.caller(token.strip()) if scheme.lower() == "bearer" else None
    found = tokens.caller(cookie) if cookie is not None else None
    return None if found is None else Caller(found.name, found.scopes & {"read"})


def require(scope: Scope) -> Callable[..., Caller]:
    """A dependency of routes: who asks has `scope`, or gets 401 or 403."""

    def check(
        request: Request,
        _shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
    ) -> Caller:
        tokens: Tokens = request.app.state.tokens
        caller = caller_of(tokens, request.headers.get("authorization"), request.cookies.get(COOKIE))
        if caller is None:
            raise ProblemError(
                401, "a bearer token is needed", headers={"WWW-Authenticate": 'Bearer realm="faultwire"'}
            )
        if scope not in caller.scopes:
            raise ProblemError(
                403,
                f"this token has not the scope {scope}",
                headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
            )
        return caller

    return check
