"""What all stand-ins share: their seeded faults come in the variable STANDIN, as JSON by tool.

`{"nvbandwidth": {"mode": "hang", "slow_gpu": 3}}`. Modes that every tool has: `hang` (prints a little, does
not heed SIGTERM, has a child that keeps the pipe open), `crash` (SIGSEGV), `silent` (status 0, no output),
`garbage`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def faults(tool: str) -> dict[str, Any]:
    return dict(json.loads(os.environ.get("STANDIN", "{}")).get(tool, {}))


def common_modes(mode: str | None, text: str) -> None:
    """Does not return in a mode that every tool has. `text` is its right output, part of which comes."""
    if mode == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout.write(text[: len(text) // 3])
        sys.stdout.flush()
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)
    if mode == "crash":
        sys.stdout.write(text[: len(text) // 2])
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "partial":
        sys.stdout.write(text[: len(text) * 2 // 3])
        sys.exit(0)
    if mode == "silent":
        sys.exit(0)
    if mode == "garbage":
        sys.stdout.write("{\x00 what is this [\n")
        sys.exit(0)


def note(line: str) -> None:
    """Leave a word for the test in the file named by STANDIN_LOG."""
    path = os.environ.get("STANDIN_LOG")
    if path:
        with Path(path).open("a", encoding="utf-8") as out:
            out.write(line + "\n")
