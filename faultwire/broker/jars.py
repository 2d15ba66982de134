"""The broker's jars: fetched once by Maven from the packaged `pom.xml`, kept in the user's cache.

Several processes may ask at once: one fetches under a lock, the rest wait for it, and the folder appears
whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Final

from faultwire.broker.errors import NoBrokerError
from faultwire.broker.java import INSTALL

FETCH_TIMEOUT_S: Final = 900
"""About 45 MB on a slow line."""

Say = Callable[[str], None]


def cache_dir() -> Path:
    """FAULTWIRE_CACHE, else `faultwire` in the XDG cache."""
    own = os.environ.get("FAULTWIRE_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "faultwire"


def kafka_version() -> str:
    """The pinned version, e.g. `4.3.0`."""
    root = ET.fromstring(_pom())  # noqa: S314  our own packaged file
    found = root.findtext("{*}properties/{*}kafka.version")
    if found is None:
        raise RuntimeError("pom.xml names no kafka.version")
    return found


def jars_dir() -> Path:
    """Where the jars of this pom.xml stand or will stand; another pom gets another folder."""
    return cache_dir() / f"kafka-{kafka_version()}-{blake2b(_pom().encode(), digest_size=4).hexdigest()}"


def ensure_jars(say: Say) -> Path:
    """The folder with all jars; fetches them when it is not there. Raises `NoBrokerError`."""
    target = jars_dir()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_name(target.name + ".lock")):
        if not target.is_dir():
            _fetch(target, say)
    return target


def _fetch(target: Path, say: Say) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoBrokerError(
            f"Maven, which fetches the Kafka broker, was not found: install it with `{INSTALL}`"
        )
    say(f"fetching Apache Kafka {kafka_version()} with Maven into {target} (about 45 MB, once)")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom(), "utf-8")
        fetched = Path(scratch) / "jars"
        command = [
            maven, "--batch-mode", "--quiet", "--strict-checksums", "-Dstyle.color=never", "-f", str(pom),
            "dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False, cwd=scratch
            )
        except subprocess.TimeoutExpired as exc:
            raise NoBrokerError(
                f"Maven did not fetch the broker within {FETCH_TIMEOUT_S} s: try again"
            ) from exc
        if done.returncode or not any(fetched.glob("kafka_*.jar")):
            said = (done.stdout + done.stderr).strip().splitlines()
            why = next((line for line in said if "ERROR" in line), said[0] if said else "no message")
            raise NoBrokerError(
                f"Maven could not fetch the Kafka broker ({why[:300]}): check its network settings, "
                "or name a running broker in FAULTWIRE_BOOTSTRAP"
            )
        fetched.rename(target)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield  # closing the file gives the lock back


def _pom() -> str:
    return files("faultwire.broker").joinpath("data/pom.xml").read_text("utf-8")
