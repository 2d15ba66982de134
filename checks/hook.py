"""Prolog, epilog and health-check program of a scheduler: answers from the last known verdict, at once.

Runs no check, asks nobody, needs the standard library only (`python -m checks.hook [FOLDER]`). Fails open: no
file, a file that can't be read, an old verdict, a mistake here, or no answer within a second all let the
job start. Only a check that is known to have failed does not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LAST: Final = "last.json"
LINE: Final = "verdict"
FOLDER: Final = "/var/lib/faultwire/checks"
USUAL_FILES: Final = (Path("faultwire.toml"), Path("/etc/faultwire/faultwire.toml"))
ANSWER_WITHIN_S: Final = 0.8
MAX_AGE_S: Final = 24 * 3600.0
OPEN: Final = 0
HELD: Final = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """`held`: a check is known to have failed."""

    held: bool
    message: str

    @property
    def status(self) -> int:
        return HELD if self.held else OPEN


def answer(folder: Path, now: float, max_age_s: float = MAX_AGE_S) -> Answer:
    """From `last.json`; `now` in seconds since the epoch. Raises nothing."""
    try:
        known = json.loads((folder / LAST).read_text("utf-8"))["checks"]
        entries = {
            str(name): (str(e["verdict"]), float(e["ended"]), str(e.get("message", "")))
            for name, e in known.items()
            if "verdict" in e
        }
    except FileNotFoundError:
        return Answer(False, "no check has run yet")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        return Answer(False, f"the last verdicts can't be read: {exc!r:.120}")
    fresh = {n: e for n, e in entries.items() if -300.0 <= now - e[1] <= max_age_s}
    failed = [f"{name}: {message}" for name, (verdict, _, message) in fresh.items() if verdict == "fail"]
    if failed:
        return Answer(True, "; ".join(failed)[:400])
    if not fresh:
        return Answer(False, "no verdict is recent enough")
    return Answer(False, f"{len(fresh)} checks passed")


def line_of(known: Mapping[str, Mapping[str, Any]]) -> str:
    """`fail 1764460800 gemm: …`, for shells: the latest failure that stands, else the latest pass."""
    standing = [(str(e["verdict"]), int(e["ended"]), n, str(e["message"])) for n, e in known.items()
                if "verdict" in e]  # fmt: skip
    chosen = max(standing, key=lambda e: (e[0] == "fail", e[1]), default=None)
    if chosen is None:
        return "none 0"
    verdict, ended, name, message = chosen
    return f"{verdict} {ended} {name}: {' '.join(message.split())[:300]}"


def where(config: Path | None, environ: Mapping[str, str]) -> tuple[Path, float]:
    """Folder and greatest age, from the settings file and the environment alone: the models of all settings
    would take longer to load than the answer may. What can't be read leaves the defaults."""
    folder, age = Path(FOLDER), MAX_AGE_S
    named = config or (Path(environ["FAULTWIRE_CONFIG"]) if environ.get("FAULTWIRE_CONFIG") else None)
    for file in (named,) if named is not None else USUAL_FILES:
        try:
            section = tomllib.loads(file.read_text("utf-8")).get("check", {})
            folder = Path(section.get("state_dir", folder))
            age = float(section.get("hook_max_age_s", age))
            break
        except (OSError, ValueError, TypeError, AttributeError):
            continue
    folder = Path(environ.get("FAULTWIRE__CHECK__STATE_DIR") or folder)
    return folder, age


def fail_open_after(seconds: float) -> None:
    """Whatever hangs from here on (a dead file server under the folder): the process ends with 0."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(OPEN))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def main(arguments: list[str]) -> int:
    fail_open_after(ANSWER_WITHIN_S)
    folder, age = where(None, os.environ)
    given = answer(Path(arguments[0]) if arguments else folder, time.time(), age)
    sys.stderr.write(f"faultwire: {given.message}\n")
    return given.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
