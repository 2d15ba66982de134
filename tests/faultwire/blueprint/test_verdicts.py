"""A job whose logs are in Loki and whose metrics are in Prometheus gets the verdict of the live pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultwire.blueprint.report import Outcome
from faultwire.blueprint.run import Request, attribute, exit_code
from faultwire.blueprint.settings import read
from faultwire.capture import load
from faultwire.config import load as configuration
from faultwire.evaluate import compare
from faultwire.replay import replay
from tests import loki, prometheus
from tests.captures.scenarios import SCENARIOS
from tests.faultwire.blueprint.builders import blueprint, loki_streams, prometheus_rows
from topics.derived import Attribution

INCIDENTS = (
    "xid79-after-pcie-fatal",
    "outage-45s-nccl-2.27",
    "leaf-switch-dies",
    "two-ports-are-no-switch",
    "power-loss",
    "two-gpus-of-a-node-overheat",
    "spoofed-xid79",
    "one-rank-crashes",
    "preempted-while-a-port-flaps",
    "healthy-and-completed",
)


@dataclass(frozen=True)
class Site:
    """Captures of several incidents in one Loki and one Prometheus, told apart by a label."""

    folder: Path
    expected: dict[str, dict[str, Any]]
    loki: str
    prometheus: str

    def capture(self, name: str) -> Path:
        return self.folder / name

    async def attribute(self, name: str, metrics: bool = True, **more: Any) -> Outcome:
        document = blueprint(
            self.capture(name), self.loki, self.prometheus if metrics else None, name, **more
        )
        settings = configuration(None, environ={}).settings
        label = self.expected[name]
        request = Request(str(label["job_id"]), int(label["attempt"]))
        return await attribute(read(document, "blueprint", Path("/")), settings, request)

    def replayed(self, name: str) -> Attribution:
        label = self.expected[name]
        found = {(v.job_id, v.attempt): v for v in replay(load(self.capture(name))).verdicts()}
        return found[str(label["job_id"]), int(label["attempt"])]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, either_loki: None) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("incidents")
    expected: dict[str, dict[str, Any]] = {}
    rows: list[prometheus.SampleRow] = []
    with ExitStack() as stack:
        store = stack.enter_context(loki.running())
        for name in INCIDENTS:
            capture, expected[name] = SCENARIOS[name].build()
            capture.write(folder / name, expected[name])
            store.push(loki_streams(folder / name, incident=name))
            rows += prometheus_rows(folder / name, 15.0, incident=name)
        address = stack.enter_context(prometheus.running(tmp_path_factory.mktemp("prometheus"), rows))
        yield Site(folder, expected, store.url, address)


@pytest.mark.parametrize("name", INCIDENTS)
async def test_the_verdict_is_that_of_the_live_pipeline(site: Site, name: str) -> None:
    outcome = await site.attribute(name)
    live = site.replayed(name)
    verdict = outcome.verdict
    assert verdict is not None
    assert (verdict.domain, verdict.subdomain) == (live.domain, live.subdomain)
    assert verdict.culprits == live.culprits
    assert verdict.terminal_state == live.terminal_state
    assert verdict.provenance == "replay"
    assert compare(name, site.expected[name], verdict).exact
    assert outcome.whole, [(c.name, c.status, c.reason) for c in outcome.connectors]
    unsure = live.subdomain in ("ambiguous", "insufficient_evidence")
    assert exit_code(outcome) == (3 if unsure else 0 if live.domain == "none" else 1)
