"""`faultwire signals` and `faultwire health` as their users see them."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from faultwire.cli import app
from streams.engine.api import SourceRef
from streams.processor import NodeProcessor
from tests.kafka import Kafka
from topics.catalog import kafka_name
from topics.events import decode_record

RUNNER = CliRunner()


def test_signals_are_listed_with_mode_and_meaning() -> None:
    told = RUNNER.invoke(app, ["signals", "list", "--json"])
    rows = {row["signal"]: row for row in json.loads(told.stdout)}
    assert rows["port_outage"]["mode"] == "on"
    assert "general" not in rows


def test_explain_shows_the_effective_value_beside_the_packaged_one() -> None:
    override = 'streams.overrides=[{signal="thermal_margin", gpu_model="H100", values={margin=4.0}}]'
    told = RUNNER.invoke(
        app,
        ["--set", override, "signals", "explain", "thermal_margin", "--gpu-model", "NVIDIA H100", "--json"],
    )
    rows = {t["threshold"]: t for t in json.loads(told.stdout)["thresholds"]}
    assert (rows["margin"]["value"], rows["margin"]["packaged"]) == (4.0, 2.0)
    assert rows["margin"]["source"]


def test_an_unknown_signal_names_the_nearest() -> None:
    told = RUNNER.invoke(app, ["signals", "explain", "port_outge"])
    assert told.exit_code == 2
    assert "port_outage" in told.stderr
    told = RUNNER.invoke(app, ["signals", "explain", "nosuch"])
    assert told.exit_code == 2
    assert "faultwire signals list" in told.stderr


@pytest.mark.parametrize("node", ["", "a b", "a/b"])
def test_a_name_that_no_node_can_have_is_refused(node: str) -> None:
    told = RUNNER.invoke(app, ["health", "set", node, "retired", "--why", "x"])
    assert told.exit_code == 2


async def test_what_an_operator_sets_reaches_the_core_and_show_tells_it(
    kafka: Kafka, catalogue: str, broker: str
) -> None:
    options = ["--set", f"kafka.prefix={catalogue}"]
    command = [
        "health",
        "set",
        "node-07",
        "quarantined",
        "--why",
        "cable",
        "--by",
        "anna",
        "--bootstrap",
        broker,
    ]
    told = await asyncio.to_thread(RUNNER.invoke, app, [*options, *command])
    assert told.exit_code == 0, told.stderr
    (record,) = await kafka.read(kafka_name("raw.check", catalogue), 1)
    events, errors = decode_record(record.value)
    assert errors == []
    effects = NodeProcessor().on_record("node-07", SourceRef("raw.check", 0, 0), events, events[0].time)
    (output,) = [o for o in effects.outputs if o.topic == "health"]
    await kafka.send_events(kafka_name("health", catalogue), [output.event])
    shown = await asyncio.to_thread(RUNNER.invoke, app, [*options, "health", "show", "--bootstrap", broker])
    assert shown.exit_code == 1
    assert "quarantined" in shown.stdout
    assert "anna: cable" in shown.stdout
    unknown = await asyncio.to_thread(
        RUNNER.invoke, app, [*options, "health", "show", "node-99", "--bootstrap", broker]
    )
    assert unknown.exit_code == 2
