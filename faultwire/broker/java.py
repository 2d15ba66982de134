"""Finding a Java that can run Kafka 4 (17 or newer)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from faultwire.broker.errors import NoBrokerError

OLDEST: Final = 17
"""Kafka 4 brokers need Java 17 (Apache Kafka 4.0 release notes)."""

INSTALL: Final = "apt-get install openjdk-17-jre-headless maven"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of PATH, that is new enough; raises `NoBrokerError`."""
    home = os.environ.get("JAVA_HOME")
    seen: list[str] = []
    for candidate in (
        shutil.which("java", path=str(Path(home) / "bin")) if home else None,
        shutil.which("java"),
    ):
        if candidate is None:
            continue
        version = _version(candidate)
        if version is not None and version >= OLDEST:
            return Path(candidate)
        seen.append(f"{candidate} is {'unreadable' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise NoBrokerError(f"no Java {OLDEST} or newer was found{found}: install one with `{INSTALL}`")


def _version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else None
