"""A real Prometheus on a free loopback port, filled with samples of the past."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

START_S = 60.0

SampleRow = tuple[str, Mapping[str, str], float, float]
"""(metric, labels, seconds since the epoch, value)"""


def openmetrics(rows: Iterable[SampleRow]) -> str:
    """The text that `promtool tsdb create-blocks-from openmetrics` reads; samples of a metric together."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, labels, at, value in rows:
        said = ",".join(f'{k}="{_escaped(v)}"' for k, v in sorted(labels.items()))
        found.setdefault(name, {}).setdefault(said, []).append((at, value))
    lines = []
    for name, series in sorted(found.items()):
        lines.append(f"# TYPE {name} unknown")
        for said, samples in sorted(series.items()):
            lines += [f"{name}{{{said}}} {value!r} {at:.3f}" for at, value in sorted(samples)]
    return "\n".join([*lines, "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def running(folder: Path, rows: Iterable[SampleRow]) -> Iterator[str]:
    """Its address."""
    assert shutil.which("prometheus"), "install prometheus (Debian: prometheus)"
    data, text, config = folder / "data", folder / "samples.om", folder / "prometheus.yml"
    text.write_text(openmetrics(rows), "utf-8")
    config.write_text("global: {}\n", "utf-8")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", str(text), str(data)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    arguments = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y", "--log.level=error",
    ]  # fmt: skip
    log = folder / "prometheus.log"
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
        try:
            _wait(f"http://127.0.0.1:{port}/-/ready", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(timeout=30)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while True:
        assert process.poll() is None, log.read_text("utf-8")[-2000:]
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < end, f"{url} is not ready: {log.read_text('utf-8')[-2000:]}"
        time.sleep(0.05)
