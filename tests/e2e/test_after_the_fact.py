"""The expert's run: `faultwire attribute` on what a real Loki and a real Prometheus kept of a job says what
the live pipeline said of it."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultwire.capture import load
from faultwire.demo.bus import publish_all
from tests import prometheus
from tests.captures import builder
from tests.captures.scenarios import SCENARIOS
from tests.e2e.pipeline import pipeline
from tests.faultwire.blueprint.builders import blueprint, loki_streams, prometheus_rows, toml
from tests.kafka import Kafka
from tests.loki_real import RealLoki
from topics.time import NS_PER_S, parse_rfc3339

LATENESS_S = 30.0
"""The incident is read at once, its end before what the streams say of it: that must not be too late."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["outage-45s-nccl-2.27", "xid79-after-pcie-fatal"])
async def test_the_verdict_from_the_stores_is_that_of_the_live_pipeline(
    kafka: Kafka,
    catalogue: str,
    grafana_loki: RealLoki,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    folder = tmp_path / "incident"
    capture, label = SCENARIOS[name].build()
    capture.write(tmp_path / "as-labelled", label)
    told = [r.event for r in load(tmp_path / "as-labelled").records if r.topic == "raw.job"]
    took = max(e.time for e in told) - parse_rfc3339(builder.clock(0.0))
    begins = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=took / NS_PER_S)
    monkeypatch.setattr(builder, "BASE", begins)  # it ends now: the live pipeline waits for what is late
    capture, label = SCENARIOS[name].build()
    capture.write(folder, label)
    job = str(label["job_id"])
    async with pipeline(kafka, catalogue, tmp_path, LATENESS_S) as line:
        await line.worker("streams")
        await line.worker("correlator")
        await publish_all(kafka.bootstrap, catalogue, load(folder).records)
        verdicts = await line.events(
            "attributions",
            lambda seen: any(e.data.job_id == job and e.data.phase == "final" for e in seen),
            timeout_s=90,
        )
    live = max((e.data for e in verdicts if e.data.job_id == job), key=lambda v: v.revision)

    tenant = grafana_loki.tenant()
    grafana_loki.push(tenant, loki_streams(folder))
    store = tmp_path / "prometheus"
    store.mkdir()
    with prometheus.running(store, prometheus_rows(folder, 15.0)) as address:
        document = blueprint(folder, grafana_loki.url, address, tenant=tenant)
        (tmp_path / "blueprint.toml").write_text(toml(document), "utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "faultwire", "attribute", job, "--json",
            "--config", str(tmp_path / "blueprint.toml"), "--work", str(tmp_path / "slices"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=tmp_path,
        )  # fmt: skip
        out, said = await asyncio.wait_for(process.communicate(), 90)

    assert process.returncode == 1, said.decode()
    result = json.loads(out)
    assert [(c["name"], c["status"]) for c in result["connectors"]] == [
        ("kernel", "ok"), ("output", "ok"), ("metrics", "ok")
    ]  # fmt: skip
    verdict = result["verdict"]
    assert (verdict["domain"], verdict["subdomain"]) == (live.domain, live.subdomain)
    assert verdict["culprits"] == [c.model_dump(exclude_none=True) for c in live.culprits]
    assert verdict["terminal_state"] == live.terminal_state
    assert (live.domain, live.subdomain) == (label["domain"], label["subdomain"])
