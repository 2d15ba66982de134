"""The agent's process: nothing in it that a node does not need, and nothing cold at the first fault."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache

import pytest

from collectors import residence
from collectors.parsers import catalog, kernel, mlx5, sxid

RUN = """
import json, sys
from pathlib import Path
import faultwire.cli, collectors.metrics
from faultwire.config import load
from collectors.assembly import Parts, build, kafka_delivery
from collectors.clock import SystemClock
from collectors.residence import prepare, settle
collecting = load(None, {"collect.state_dir": sys.argv[1], "kafka.bootstrap": "127.0.0.1:1"}).settings.collect
build(Parts(collecting), kafka_delivery(collecting, "127.0.0.1:1", "", SystemClock()))
prepare()
settle()
print(json.dumps(sorted(sys.modules)))
"""

NEVER = (
    "aiokafka.admin", "fastapi", "faust", "httpx", "jinja2", "kubernetes", "mode", "numpy", "pygments",
    "pytest", "rich", "rocksdict", "sqlalchemy", "starlette", "uvicorn", "yaml",
    "checks.sweep.sweep", "collectors.logs.extract", "collectors.schedulers", "collectors.stores",
    "correlator.attribution", "correlator.processor", "correlator.service.views", "faultwire.demo",
    "faultwire.simulate", "streams.engine", "streams.processor",
)  # fmt: skip
"""Each of them costs megabytes, on every node of a fleet. The tables of workload logs come only with logs."""


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


@lru_cache(maxsize=1)
def modules(folder: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, folder], capture_output=True, text=True, check=True, timeout=120
    )
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", NEVER)
def test_an_agent_does_not_import(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = modules(str(tmp_path_factory.getbasetemp()))
    assert [m for m in found if m == name or m.startswith(name + ".")] == []


def test_the_modules_that_it_needs_are_seen() -> None:
    """Or the test above would prove nothing."""
    found = modules.__wrapped__("/nonexistent")
    assert {"collectors.agent", "collectors.readers.kmsg", "aiokafka", "prometheus_client"} <= found


def test_every_table_of_the_kernel_log_has_been_read_before_the_first_fault(thawed: None) -> None:
    caches = (catalog.xid_catalog, sxid.sxid_catalog, mlx5.shapes, kernel.shapes)
    for cache in caches:
        cache.cache_clear()
    assert residence.prepare() == ["aer", "ib_port", "kernel", "sxid", "xid"]
    assert [cache.cache_info().currsize for cache in caches] == [1, 1, 1, 1]


def test_what_is_there_when_it_has_settled_is_no_garbage_to_look_for(thawed: None) -> None:
    before = gc.get_freeze_count()
    residence.settle()
    assert gc.get_freeze_count() > before
