"""The schemas in the tree are those of the models, and say what is on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from tests.topics.builders import T0, payloads
from topics.catalog import TOPICS
from topics.events import MODELS, PAYLOADS, from_dict, make, to_dict
from topics.ids import signal_id
from topics.schema import asyncapi, documents, examples, outdated, schema_of, write

TREE = Path(__file__).parents[2] / "schemas"
VALIDATORS = {name: Draft202012Validator(schema_of(name), format_checker=FormatChecker()) for name in MODELS}


def test_the_schemas_in_the_tree_are_current() -> None:
    """When this fails: `faultwire topics schema`."""
    assert outdated(TREE) == []


@pytest.mark.parametrize("name", sorted(MODELS))
def test_each_schema_is_a_valid_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize("name", sorted(MODELS))
@settings(max_examples=25)
@given(data=st.data())
def test_what_we_write_follows_the_schema(name: str, data: st.DataObject) -> None:
    payload = data.draw(payloads(PAYLOADS[name]))
    event = make(payload, id="1", source="/c/n/x", subject="node", time=T0, key="n", recordedtime=T0)
    VALIDATORS[name].validate(to_dict(event))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_type_has_an_example_that_models_and_schema_accept(name: str) -> None:
    example = examples()[name]
    VALIDATORS[name].validate(example)
    assert to_dict(from_dict(example)) == example


def test_example_ids_are_those_of_the_contract() -> None:
    signal: Any = from_dict(examples()["faultwire.signal.v1"])
    assert signal.id == signal_id(
        "port_outage",
        "alps",
        "node-07",
        signal.data.entity,
        signal.data.since,
        "changed",
        signal.data.revision,
    )
    action: Any = from_dict(examples()["faultwire.action.v1"])
    assert action.data.because == [signal.id]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_another_type_or_a_missing_field_breaks_the_schema(name: str) -> None:
    validator = VALIDATORS[name]
    assert not validator.is_valid({**examples()[name], "type": "faultwire.other.v1"})
    assert not validator.is_valid({**examples()[name], "specversion": "0.3"})
    assert not validator.is_valid({k: v for k, v in examples()[name].items() if k != "data"})


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_schema_lets_pass_what_later_versions_add(name: str) -> None:
    grown = {**examples()[name], "futureattribute": 1}
    grown["data"] = {**grown["data"], "future_field": 1}
    VALIDATORS[name].validate(grown)


def test_fields_are_described_by_their_docstrings() -> None:
    described = schema_of("faultwire.xid.v1")["$defs"]["Xid"]["properties"]["known"]["description"]
    assert described.startswith("False for a code")


def test_asyncapi_has_every_topic_and_every_reference_leads_somewhere() -> None:
    document = asyncapi()
    files = documents()
    assert {channel["address"] for channel in document["channels"].values()} == {
        "faultwire." + name for name in TOPICS
    }
    for reference in _references(document):
        if reference.startswith("#/"):
            target: Any = document
            for part in reference[2:].split("/"):
                target = target[part]
        else:
            assert reference.removeprefix("./") in files


def test_asyncapi_says_that_raw_topics_carry_batches() -> None:
    messages = asyncapi()["components"]["messages"]
    assert messages["xid.batch"]["contentType"] == "application/cloudevents-batch+json"
    assert messages["xid.batch"]["payload"]["type"] == "array"
    assert messages["signal"]["contentType"] == "application/cloudevents+json"
    assert messages["signal"]["payload"] == {"$ref": "./faultwire.signal.v1.schema.json"}


def test_stale_missing_and_foreign_files_are_told_and_mended(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "asyncapi.json").write_bytes(b"{}")
    (tmp_path / "faultwire.xid.v1.schema.json").unlink()
    (tmp_path / "faultwire.gone.v1.schema.json").write_bytes(b"{}")
    wrong = {"asyncapi.json", "faultwire.xid.v1.schema.json", "faultwire.gone.v1.schema.json"}
    assert {path.name for path in outdated(tmp_path)} == wrong
    assert {path.name for path in write(tmp_path)} == wrong
    assert outdated(tmp_path) == []


def test_documents_are_the_same_every_time() -> None:
    assert documents() == documents()
    assert all(orjson.loads(document) for document in documents().values())


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [r for value in node.values() for r in _references(value)]
    return [r for value in node for r in _references(value)] if isinstance(node, list) else []
