"""A real Grafana Loki on loopback: one process, all its parts, storage in a folder, a tenant a test.

The binary is Loki's own, built from its Go module by `make loki` into `.cache/`, or named by FAULTWIRE_LOKI.
(Debian's package `loki` is another program.)
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

import httpx

from faultwire.broker.cluster import free_ports
from tests.kube_real import running

ROOT: Final = Path(__file__).parents[1]
READY_S: Final = 90.0
PUSHED_AT_ONCE: Final = 100

Labels = Mapping[str, str]
Line = tuple[int, str] | tuple[int, str, Mapping[str, str]]
"""(ns, text), and what else the shipper knew of that line: its structured metadata."""


class NoLokiError(Exception):
    """Why there is no Loki here, and what to do about it."""


@dataclass
class RealLoki:
    """Its address; whatever is asked or pushed needs a tenant."""

    url: str
    overrides: Path
    _limits: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def tenant(self, **limits: Any) -> str:
        """One that nobody else uses, with these of `limits_config`; they hold when this returns."""
        name = f"t{uuid.uuid4().hex[:12]}"
        if limits:
            before = self._in_force()
            self._limits[name] = limits
            fresh = self.overrides.with_suffix(".new")
            fresh.write_text(json.dumps({"overrides": self._limits}), "utf-8")  # JSON is YAML
            fresh.replace(self.overrides)
            end = time.monotonic() + READY_S
            while self._in_force() == before:
                assert time.monotonic() < end, "Loki does not read its overrides"
                time.sleep(0.05)
        return name

    def _in_force(self) -> list[str]:
        """Which overrides: a metric with the digest of the file that was read last."""
        told = httpx.get(f"{self.url}/metrics", timeout=30).text
        return [line for line in told.splitlines() if line.startswith("loki_runtime_config_hash{")]

    def push(self, tenant: str, streams: Iterable[tuple[Labels, Iterable[Line]]]) -> None:
        """Streams as (labels, lines), in the order in which they are given."""
        rows = [
            {"stream": dict(labels), "values": [[str(row[0]), *row[1:]] for row in lines]}
            for labels, lines in streams
        ]
        rows = [row for row in rows if row["values"]]
        for i in range(0, len(rows), PUSHED_AT_ONCE):
            answer = httpx.post(
                f"{self.url}/loki/api/v1/push",
                json={"streams": rows[i : i + PUSHED_AT_ONCE]},
                headers={"X-Scope-OrgID": tenant},
                timeout=60,
            )
            assert answer.status_code == 204, answer.text


def binary() -> Path:
    """Raises `NoLokiError` with what to do."""
    named = os.environ.get("FAULTWIRE_LOKI")
    path = Path(named) if named else ROOT / ".cache" / "loki"
    if not path.is_file():
        raise NoLokiError(f"no {path}: run `make loki` (needs Go, half an hour on two cores)")
    return path


@contextmanager
def real_loki(folder: Path) -> Iterator[RealLoki]:
    """Raises `NoLokiError` where there is none."""
    server = binary()
    port, inner = free_ports(2)
    config, overrides, log = folder / "loki.yaml", folder / "overrides.yaml", folder / "loki.log"
    overrides.write_text("overrides: {}\n", "utf-8")
    config.write_text(json.dumps(_settings(folder, port, inner, overrides)), "utf-8")
    with running(log, str(server), f"-config.file={config}") as process:
        url = f"http://127.0.0.1:{port}"
        _await_ready(url, process, log)
        try:
            yield RealLoki(url, overrides)
        finally:
            process.kill()  # what it holds is thrown away: it need not be written down first


def _settings(folder: Path, port: int, inner: int, overrides: Path) -> dict[str, Any]:
    """Loki's defaults, but for where it listens and writes, lines of long ago, and that it starts at once."""
    return {
        "auth_enabled": True,
        "analytics": {"reporting_enabled": False},
        "server": {
            "http_listen_address": "127.0.0.1", "http_listen_port": port,
            "grpc_listen_address": "127.0.0.1", "grpc_listen_port": inner, "log_level": "warn",
        },
        "common": {
            "instance_addr": "127.0.0.1", "path_prefix": str(folder / "data"), "replication_factor": 1,
            "ring": {"instance_addr": "127.0.0.1", "kvstore": {"store": "inmemory"}},
            "storage": {
                "filesystem": {
                    "chunks_directory": str(folder / "data/chunks"),
                    "rules_directory": str(folder / "data/rules"),
                }
            },
        },
        "schema_config": {
            "configs": [
                {
                    "from": "2020-01-01", "store": "tsdb", "object_store": "filesystem", "schema": "v13",
                    "index": {"prefix": "index_", "period": "24h"},
                }
            ]
        },
        "ingester": {
            "lifecycler": {"min_ready_duration": "0s", "final_sleep": "0s"}, "wal": {"enabled": False},
            "query_store_max_look_back_period": "-1ns",
        },
        "querier": {"query_ingesters_within": "0s", "multi_tenant_queries_enabled": True},
        "limits_config": {"reject_old_samples": False},
        "runtime_config": {"file": str(overrides), "period": "100ms"},
    }  # fmt: skip


def _await_ready(url: str, process: Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_S
    while True:
        assert process.poll() is None, log.read_text("utf-8", "replace")[-2000:]
        try:
            if httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < end, f"{url} is not ready: {log.read_text('utf-8', 'replace')[-2000:]}"
        time.sleep(0.1)
