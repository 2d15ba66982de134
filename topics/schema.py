"""The contract for those who do not use Python: a JSON Schema for every event type, one AsyncAPI document.

Generated from the models, kept in the tree under `schemas/`, compared in a test. A schema says what is
written. It stays open: fields are only ever added, so a reader must let pass what it does not know.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import orjson
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from topics.catalog import DEFAULT_PARTITIONS, DEFAULT_PREFIX, TOPICS, TopicSpec
from topics.events import (
    BATCH_CONTENT_TYPE,
    EVENT_CONTENT_TYPE,
    MAX_BATCH_EVENTS,
    MODELS,
    PAYLOADS,
    type_of,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_ALWAYS_WRITTEN: Final = ("specversion", "datacontenttype")
"""They have a default in Python and are on the wire all the same."""

_KEYS: Final = {
    "node": "the node's name, as the scheduler has it",
    "cluster": "`facility/` and the cluster's name",
    "job": "the job's id",
    "action": "the job's id, or the node's name where no job is concerned",
    "controller": "the controller's name and the action's id; `hold` for the global hold",
    "source": "topic/partition/offset of the record that could not be read",
}


def schema_of(type_name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one event with its payload, with an example.

    Raises `KeyError` for a type that is none of ours.
    """
    model = MODELS[type_name]
    schema = model.model_json_schema(schema_generator=_Generator, mode="validation")
    properties = {**schema["properties"], "type": {"const": type_name, "type": "string"}}
    return {
        "$schema": DIALECT,
        "$id": file_of(type_name),
        "title": type_name,
        "description": _first_paragraph(PAYLOADS[type_name]),
        "type": "object",
        "properties": properties,
        "required": sorted({*schema["required"], *_ALWAYS_WRITTEN}, key=list(properties).index),
        "$defs": schema["$defs"],
        "examples": [examples()[type_name]],
    }


def asyncapi() -> dict[str, Any]:
    """All topics as one AsyncAPI 3 document, from the view of Faultwire: it sends, subscribers receive."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Faultwire topics",
            "version": "1.0.0",
            "description": (
                "What hardware, jobs and verdicts look like on Kafka. Every value is CloudEvents 1.0 JSON: "
                "one event on derived topics, a batch on raw topics. Ids are deterministic: whoever "
                "drops the ids it has seen sees each fact once. Fields are only ever added within a type."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": EVENT_CONTENT_TYPE.decode(),
        "channels": {_id(spec): _channel(spec) for spec in TOPICS.values()},
        "operations": {
            f"send.{_id(spec)}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{_id(spec)}"},
                "summary": spec.about,
            }
            for spec in TOPICS.values()
        },
        "components": {
            "messages": {
                name: message
                for spec in TOPICS.values()
                for kind in spec.kinds
                for name, message in [_message(kind, spec.batched)]
            }
        },
    }


def documents() -> dict[str, bytes]:
    """Every file of `schemas/` by name."""
    schemas = {file_of(name): schema_of(name) for name in MODELS}
    return {name: _text(document) for name, document in {**schemas, "asyncapi.json": asyncapi()}.items()}


def write(directory: Path) -> list[Path]:
    """Bring the directory up to date; returns what was written or removed."""
    directory.mkdir(parents=True, exist_ok=True)
    stale = outdated(directory)
    wanted = documents()
    for path in stale:
        if path.name in wanted:
            path.write_bytes(wanted[path.name])
        else:
            path.unlink()
    return stale


def outdated(directory: Path) -> list[Path]:
    """Files of the directory that are missing, differ, or belong to no type any more."""
    wanted = documents()
    there = {path.name: path.read_bytes() for path in directory.glob("*.json")} if directory.is_dir() else {}
    return [directory / n for n in sorted({*wanted, *there}) if wanted.get(n) != there.get(n)]


def examples() -> dict[str, dict[str, Any]]:
    """One event of every type, as on the wire."""
    lines = files("topics").joinpath("data/examples.jsonl").read_bytes().splitlines()
    events = [orjson.loads(line) for line in lines if line.strip()]
    return {event["type"]: event for event in events}


def file_of(type_name: str) -> str:
    return f"{type_name}.schema.json"


class _Generator(GenerateJsonSchema):
    """What is not known is absent, not null; descriptions come from the docstrings below the fields."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class asks
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("additionalProperties", None)
        cls: type[BaseModel] = schema["cls"]
        described = _field_docs(cls)
        for name, field in made.get("properties", {}).items():
            if name in described:
                field["description"] = described[name]
        return made


@cache
def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of the model and of the models that it extends."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base.__module__.partition(".")[0] != "topics":
            continue
        if base.__pydantic_generic_metadata__["origin"] is not None:
            continue  # `Event[Xid]` has no source of its own
        body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]).body
        for field, doc in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(doc, ast.Expr)
                and isinstance(doc.value, ast.Constant)
            ):
                found[field.target.id] = inspect.cleandoc(str(doc.value.value)).replace("\n", " ")
    return found


def _channel(spec: TopicSpec) -> dict[str, Any]:
    names = [_message(kind, spec.batched)[0] for kind in spec.kinds]
    return {
        "address": DEFAULT_PREFIX + spec.name,
        "description": spec.about + (" (internal)" if spec.internal else ""),
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {
            "kafka": {
                "topic": DEFAULT_PREFIX + spec.name,
                "partitions": DEFAULT_PARTITIONS,
                "topicConfiguration": _kafka_settings(spec),
                "bindingVersion": "0.5.0",
            }
        },
        "x-key": _KEYS[spec.keyed_by],
    }


def _kafka_settings(spec: TopicSpec) -> dict[str, Any]:
    """Of the topic's settings those that the AsyncAPI Kafka binding knows."""
    settings: dict[str, Any] = {"cleanup.policy": spec.cleanup.split(",")}
    if "delete" in spec.cleanup:
        settings["retention.ms"] = spec.retention_ms
    return settings


def _message(kind: str, batched: bool) -> tuple[str, dict[str, Any]]:
    type_name = type_of(kind)
    event = {"$ref": f"./{file_of(type_name)}"}
    example = examples()[type_name]
    return (f"{kind}.batch" if batched else kind), {
        "name": type_name,
        "title": _first_paragraph(PAYLOADS[type_name]),
        "contentType": (BATCH_CONTENT_TYPE if batched else EVENT_CONTENT_TYPE).decode(),
        "payload": {"type": "array", "items": event, "minItems": 1, "maxItems": MAX_BATCH_EVENTS}
        if batched
        else event,
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": "0.5.0"}},
        "examples": [{"name": kind, "payload": [example] if batched else example}],
    }


def _id(spec: TopicSpec) -> str:
    return spec.name.replace(".", "_").replace("-", "_")


def _first_paragraph(model: type[BaseModel]) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or model.__name__).partition("\n\n")[0].split())


def _text(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
