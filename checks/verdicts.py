"""The last verdict of each check, on disk: what the hooks of a scheduler answer from.

`last.json` holds them for people and programs, `verdict` one line for shells, `outputs/` the full output of
the last run of each check. An `error` or an aborted run changes nothing that was known.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checks.hook import LAST, LINE, line_of
from checks.model import Result, clipped
from topics.time import NS_PER_S, format_rfc3339

OUTPUTS: Final = "outputs"
MAX_OUTPUT: Final = 1024 * 1024
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def remember(folder: Path, result: Result) -> None:
    """Keep it; raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    known = read(folder)
    entry = dict(known.get(result.check, {}))
    told = {
        "verdict": result.verdict,
        "message": clipped(result.outcome.message, 500),
        "suite": result.suite,
        "ended": result.ended // NS_PER_S,
        "time": format_rfc3339(result.ended),
    }
    if result.verdict in {"pass", "fail"}:
        entry = told
    else:
        entry["last_try"] = told
    known[result.check] = entry
    _replace(folder / LAST, json.dumps({"checks": known}, indent=1, sort_keys=True) + "\n")
    _replace(folder / LINE, line_of(known) + "\n")
    if result.outcome.evidence:
        outputs = folder / OUTPUTS
        outputs.mkdir(exist_ok=True)
        name = _UNSAFE.sub("_", result.check)
        _replace(outputs / f"{name}.txt", result.outcome.evidence[-MAX_OUTPUT:])


def read(folder: Path) -> dict[str, Mapping[str, Any]]:
    """By check; empty where nothing is known or can be read."""
    try:
        raw = json.loads((folder / LAST).read_text("utf-8"))
        return dict(raw["checks"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _replace(path: Path, text: str) -> None:
    """At once: a reader sees the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
