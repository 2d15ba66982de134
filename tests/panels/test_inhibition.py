"""A real Alertmanager with our example: who is told about what."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from faultwire.broker.cluster import free_ports
from tests.panels.expressions import DEPLOY, alerts
from tests.panels.test_pages import program

CONFIG = DEPLOY / "alertmanager" / "alertmanager.yml"
WITHIN_S = 40.0
LABELS = {str(rule["alert"]): rule["labels"] for rule in alerts()}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    words = program("prometheus-alertmanager")
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("alertmanager")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                words,
                f"--config.file={CONFIG}",
                f"--storage.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
            _until(lambda: _ready(client))
            yield client
    finally:
        process.terminate()
        process.wait(20)


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def _until(condition: Any) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fire(client: httpx.Client, name: str, **labels: str) -> None:
    answer = client.post("/api/v2/alerts", json=[{"labels": {"alertname": name, **LABELS[name], **labels}}])  # type: ignore[dict-item]
    answer.raise_for_status()


def inhibited(client: httpx.Client, name: str, node: str) -> bool:
    """Once the alert is known and its state is decided."""
    question = {"filter": [f'alertname="{name}"', f'node="{node}"']}
    state: dict[str, Any] = {}

    def decided() -> bool:
        found = client.get("/api/v2/alerts", params=question).json()
        state.update(found[0]["status"] if found else {})
        return bool(found) and found[0]["status"]["state"] != "unprocessed"

    _until(decided)
    return bool(state["inhibitedBy"])


def test_a_node_in_quarantine_wakes_nobody_and_its_neighbour_does(alertmanager: httpx.Client) -> None:
    fire(alertmanager, "FaultwireNodeOut", node="q1", state="quarantined")
    for node in ("q1", "q2"):
        fire(alertmanager, "FaultwireNodeSilent", node=node)
        fire(alertmanager, "FaultwireGpuFault", node=node, signal="gpu_lost")
    for name in ("FaultwireNodeSilent", "FaultwireGpuFault"):
        _until(lambda name=name: inhibited(alertmanager, name, "q1"))
        assert not inhibited(alertmanager, name, "q2")


def test_a_node_that_is_still_draining_is_not_hidden(alertmanager: httpx.Client) -> None:
    fire(alertmanager, "FaultwireNodeOut", node="d1", state="draining")
    fire(alertmanager, "FaultwirePortOutage", node="d1", device="mlx5_0", port="1")
    assert not inhibited(alertmanager, "FaultwirePortOutage", "d1")


def test_a_node_that_stays_in_quarantine_too_long_is_told(alertmanager: httpx.Client) -> None:
    fire(alertmanager, "FaultwireNodeOut", node="s1", state="quarantined")
    fire(alertmanager, "FaultwireQuarantineStuck", node="s1", state="quarantined")
    assert not inhibited(alertmanager, "FaultwireQuarantineStuck", "s1")


def test_an_outage_hides_its_own_sum_and_no_other_ports(alertmanager: httpx.Client) -> None:
    fire(alertmanager, "FaultwirePortOutage", node="p1", device="mlx5_0", port="1")
    fire(alertmanager, "FaultwirePortDowntime", node="p1", device="mlx5_0", port="1")
    fire(alertmanager, "FaultwirePortDowntime", node="p2", device="mlx5_0", port="1")
    _until(lambda: inhibited(alertmanager, "FaultwirePortDowntime", "p1"))
    assert not inhibited(alertmanager, "FaultwirePortDowntime", "p2")
