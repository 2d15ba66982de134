"""Where a simulation goes: a capture folder, or Kafka."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from faultwire.capture import load
from faultwire.cli import app
from faultwire.evaluate import evaluate
from faultwire.simulate.folder import FolderError, write
from faultwire.simulate.kafka import Pace, publish
from faultwire.simulate.stream import items
from faultwire.simulate.translate import Translator
from tests.faultwire.simulate.builders import fault, planned, small
from tests.kafka import Kafka
from topics.catalog import RAW_TOPIC_OF_KIND
from topics.events import decode_record

FAULTS = (fault("gpu_off_bus", node=2), fault("port_outage", at=220.0, node=5, port=1))


def test_a_capture_is_read_back_and_scored_as_exact(tmp_path: Path) -> None:
    made = planned(small(nodes=8, jobs=2, faults=FAULTS))
    write(made, items(made), tmp_path / "c")
    assert load(tmp_path / "c").problems == []
    result = evaluate(tmp_path / "c")
    assert result.exact, result
    assert len(result.outcomes) == len(made.labels.entries) == 2


def test_capture_and_kafka_tell_the_same_facts_of_nodes(tmp_path: Path) -> None:
    """Kernel records, transitions and heartbeats have the same ids in both."""
    made = planned(small(faults=FAULTS))
    write(made, items(made), tmp_path / "c")
    translator = Translator(made.site)
    told = [record for item in items(made) for record in translator.records(item)]

    def facts(records: list) -> set[tuple[str, str]]:
        kinds = {"xid", "ib_port", "heartbeat", "kernel", "throttle", "gpu"}
        return {(r.key, r.event.id) for r in records if r.event.kind in kinds}

    assert facts(load(tmp_path / "c").records) == facts(told)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    made = planned(small())
    with pytest.raises(FolderError, match="not an empty folder"):
        write(made, items(made), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_pace_follows_the_fleets_time_or_a_rate_or_both() -> None:
    s = 1_000_000_000
    assert Pace(2.0).wait_s(10 * s, 0, 0, 100.0, 101.0) == pytest.approx(4.0)
    assert Pace(None).wait_s(10 * s, 999, 0, 100.0, 101.0) < 0
    assert Pace(None, rate=100.0).wait_s(10 * s, 500, 0, 100.0, 101.0) == pytest.approx(4.0)
    assert Pace(1.0, rate=100.0).wait_s(1 * s, 500, 0, 100.0, 100.0) == pytest.approx(5.0)


@pytest.mark.broker
async def test_a_drill_on_kafka_is_marked_in_every_event(kafka: Kafka, topic_prefix: str) -> None:
    await kafka.create_catalogue(topic_prefix)
    made = planned(small(minutes=4, faults=(fault("gpu_off_bus", node=2),)), drill=True)
    sent = await publish(
        items(made),
        Translator(made.site, drill=True),
        bootstrap=kafka.bootstrap,
        prefix=topic_prefix,
        pace=Pace(None),
    )
    events = []
    for topic in sorted(set(RAW_TOPIC_OF_KIND.values())):
        for record in await kafka.read(topic_prefix + topic):
            told, errors = decode_record(record.value)
            assert errors == []
            assert {e.partitionkey.encode() for e in told} == {record.key}
            events += told
    assert len(events) == sent
    assert {e.kind for e in events} >= {"heartbeat", "xid", "log", "job", "placement"}
    assert {(e.drill, e.provenance) for e in events} == {(True, "synthetic")}


@pytest.mark.broker
async def test_publishing_stops_when_asked_and_what_was_sent_is_there(
    kafka: Kafka, topic_prefix: str
) -> None:
    await kafka.create_catalogue(topic_prefix)
    made = planned(small(jobs=0, nodes=20))
    stop = asyncio.Event()

    def told(_: int, events: int) -> None:
        if events >= 30:
            stop.set()

    sent = await publish(
        items(made),
        Translator(made.site),
        bootstrap=kafka.bootstrap,
        prefix=topic_prefix,
        pace=Pace(None),
        told=told,
        stop=stop,
    )
    assert sent == 30
    assert len(await kafka.read(topic_prefix + "raw.node")) == 30


def test_the_command_writes_a_capture_that_evaluate_takes(tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        "title='t'\nduration='4m'\nsamples='30s'\n[site]\nnodes=6\nnvlinks=1\n[[jobs]]\nnodes=6\n"
        "[[faults]]\nkind='memory_uncontained'\nat='2m'\nnode=3\n"
    )
    out = tmp_path / "c"
    run = CliRunner()
    told = run.invoke(
        app, ["simulate", str(scenario), "--out", str(out), "--no-samples", "--no-noise", "--plain"]
    )
    assert told.exit_code == 0, told.output
    assert "memory_uncontained" in told.output
    scored = run.invoke(app, ["evaluate", str(out), "--json"])
    assert scored.exit_code == 0, scored.output
    assert orjson.loads(scored.output)["exact"] is True
    assert json.loads((out / "expected.json").read_text())["subdomain"] == "accelerator_memory"


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-scenario"],
        ["fleet", "--speed", "0"],
        ["fleet", "--duration", "soon"],
        ["spine-switch", "--nodes", "8"],
        ["fleet", "--out", "x", "--drill"],
        ["fleet", "--out", "x", "--to-kafka"],
        ["fleet", "--start", "yesterday", "--out", "x"],
    ],
)
def test_what_can_not_be_simulated_is_wrong_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 2, result.output
    assert result.output.startswith("faultwire: ")


def test_the_scenarios_are_listed_with_what_they_are() -> None:
    result = CliRunner().invoke(app, ["simulate", "--list"])
    assert result.exit_code == 0
    for name in ("spine-switch", "rack-power-brake", "storage-stall", "bad-node-returns"):
        assert name in result.output
