"""A real Prometheus on a live pipeline: every expression of every panel and rule has something to say."""

from __future__ import annotations

import asyncio
import os
import uuid

import pytest

from tests.kafka import Kafka
from tests.panels.expressions import Asked, panels, rules, variables
from tests.panels.play import FIRED, Play, played
from tests.panels.prometheus import PROGRAM, numbers

pytestmark = pytest.mark.timeout(300)
"""Whichever test comes first waits for the whole play."""

QUIET = {
    "FaultwireDown", "FaultwireNoData", "FaultwireNotReady", "FaultwireLag", "FaultwireNobodyActs",
    "FaultwireEventsDropped", "FaultwireActionFailed", "FaultwireQuarantineStuck", "FaultwireServiceBehind",
}  # fmt: skip
"""What must not fire in a pipeline that is well."""


@pytest.fixture(scope="module")
def play(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Play:
    if PROGRAM is None:
        if os.environ.get("FAULTWIRE_REQUIRE_PROMETHEUS") == "1":
            pytest.fail("FAULTWIRE_REQUIRE_PROMETHEUS=1, and there is no prometheus", pytrace=False)
        pytest.skip("no prometheus (Debian: prometheus)")
    kafka, prefix = Kafka(broker), f"t{uuid.uuid4().hex[:10]}."

    async def run() -> Play:
        try:
            return await played(kafka, prefix, tmp_path_factory.mktemp("panels"))
        finally:
            await kafka.delete_prefix(prefix)

    return asyncio.run(run())


def test_every_process_answers(play: Play) -> None:
    assert play.down == []


@pytest.mark.parametrize("asked", [*panels(), *variables()], ids=lambda asked: asked.place)
def test_every_panel_shows_something(play: Play, asked: Asked) -> None:
    assert numbers(play.over_time[asked.expr]), asked.expr


@pytest.mark.parametrize("asked", rules(), ids=lambda asked: asked.place)
def test_every_rule_reads_what_is_there(play: Play, asked: Asked) -> None:
    missing = [selector for selector in asked.selectors if not play.selected[selector]]
    assert missing == []


def test_no_expression_names_a_metric_that_does_not_exist(play: Play) -> None:
    assert {m for asked in (*panels(), *variables(), *rules()) for m in asked.metrics} - play.names == set()


def test_the_faults_raise_their_alerts_and_nothing_else_does(play: Play) -> None:
    assert FIRED - set().union(*play.alerts.values()) == set()
    assert QUIET & play.alerts["firing"] == set()
