"""The CloudEvents envelope: building, encoding and decoding events (contract, section 1).

`encode_batch`/`decode_batch` are the values of raw topics, `encode`/`decode` those of derived ones;
`decode_record` takes either. Written events are checked strictly. Read events may carry attributes and
fields that we do not know yet; what we know must have the right type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from topics.control import CONTROL
from topics.derived import DERIVED
from topics.errors import DecodeError, EncodeError
from topics.payloads import RAW, Payload, Strict, Tick
from topics.time import WIRE, Timestamp

P_co = TypeVar("P_co", bound=Payload, covariant=True)

BATCH_CONTENT_TYPE: Final = b"application/cloudevents-batch+json"
EVENT_CONTENT_TYPE: Final = b"application/cloudevents+json"

MAX_BATCH_EVENTS: Final = 200
MAX_BATCH_BYTES: Final = 64 * 1024
MAX_RECORD_BYTES: Final = 1024 * 1024
"""Larger values are refused unread: nothing we write comes near, and parsing them would stall others."""

_SOURCE = re.compile(r"/([^/]+)/([^/]+)(?:/([^/]+))?")


class Event(Strict, Generic[P_co]):
    """One CloudEvent. Times are nanoseconds in Python, RFC 3339 on the wire."""

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    """`/<cluster>/<node>/<collector>` for raw events, `/<cluster>/<room>` for derived ones."""
    type: str
    subject: str
    """The entity: `gpu/<uuid>`, `port/<device>/<port>`, `node`, `job/<id>/<attempt>`, ..."""
    time: Timestamp
    """Event time: when it happened on the node."""
    recordedtime: Timestamp | None = None
    """When the collector saw it."""
    datacontenttype: Literal["application/json"] = "application/json"
    partitionkey: str
    """The Kafka key, as text: the node or the job."""
    sequence: int | None = None
    bootid: str | None = None
    drill: bool | None = None
    """True on injected drills: nothing derived from one may act."""
    provenance: Literal["live", "replay", "synthetic"] | None = None
    timequality: Literal["backfill"] | None = None
    """Set when `time` is an estimate: the record lay in the kernel's ring before the agent came."""
    node: str | None = None
    """On `evidence`, whose key is the job: the node that the event came from."""
    jobid: str | None = None
    """On `evidence`: the job that it was re-keyed for."""
    attempt: int | None = None
    data: P_co

    @property
    def kind(self) -> str:
        return self.data.kind

    @property
    def cluster(self) -> str:
        return self.source.split("/", 2)[1] if self.source.startswith("/") else ""


def type_of(kind: str) -> str:
    return f"faultwire.{kind}.v1"


_ALL: Final[tuple[type[Payload], ...]] = (*RAW, *DERIVED, *CONTROL, Tick)
PAYLOADS: Final[dict[str, type[Payload]]] = {type_of(p.kind): p for p in _ALL}
MODELS: Final[dict[str, type[Event[Any]]]] = {name: Event[p] for name, p in PAYLOADS.items()}  # type: ignore[valid-type]


def make(
    data: Payload,
    *,
    id: str,
    source: str,
    subject: str,
    time: int,
    key: str,
    **attributes: Any,
) -> Event[Any]:
    """An event around `data`; `attributes` are the optional ones of `Event` (recordedtime, drill, ...)."""
    name = type_of(data.kind)
    return MODELS[name](
        id=id, source=source, type=name, subject=subject, time=time, partitionkey=key, data=data, **attributes
    )


def to_dict(event: Event[Any]) -> dict[str, Any]:
    """The JSON object as written: attributes that are not known are left out."""
    return event.model_dump(mode="json", exclude_none=True)


def encode(event: Event[Any]) -> bytes:
    """The value of a derived topic. Text that is no Unicode (undecodable bytes of a log) is written with
    escapes; raises `EncodeError` for what JSON can't say at all."""
    try:
        return event.model_dump_json(exclude_none=True).encode()
    except PydanticSerializationError:
        return _encode_escaped(event)


def encode_batch(events: Iterable[Event[Any]]) -> bytes:
    return b"[" + b",".join(map(encode, events)) + b"]"


def split_batches(events: Iterable[Event[Any]]) -> Iterator[bytes]:
    """Batch values within the limits of the contract, in order. One event alone may exceed the size."""
    parts: list[bytes] = []
    size = 2
    for event in events:
        part = encode(event)
        if parts and (len(parts) >= MAX_BATCH_EVENTS or size + len(part) > MAX_BATCH_BYTES):
            yield b"[" + b",".join(parts) + b"]"
            parts, size = [], 2
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield b"[" + b",".join(parts) + b"]"


def from_dict(raw: object) -> Event[Any]:
    """One event from parsed JSON; raises `DecodeError`."""
    if not isinstance(raw, dict):
        raise DecodeError("not_an_event", f"expected a JSON object, got {type(raw).__name__}")
    name = raw.get("type")
    model = MODELS.get(name) if isinstance(name, str) else None
    if model is None:
        raise DecodeError("unknown_type", f"type {name!r:.80} is none of ours")
    try:
        return model.model_validate(raw, extra="ignore", context=WIRE)
    except ValidationError as exc:
        raise DecodeError("wrong_shape", _first_errors(exc)) from exc
    except (RecursionError, UnicodeError, OverflowError) as exc:
        raise DecodeError("wrong_shape", str(exc)) from exc


def decode(value: bytes) -> Event[Any]:
    """One structured-mode event; raises `DecodeError`."""
    return from_dict(_loads(value))


def decode_record(value: bytes | None) -> tuple[list[Event[Any]], list[DecodeError]]:
    """The events of a record and what is wrong with the rest of it.

    An object is one event, an array a batch. A bad element does not take its neighbours with it. Raises
    `DecodeError` when nothing at all can be read.
    """
    if value is None:
        raise DecodeError("no_value", "a tombstone where an event was expected")
    if len(value) > MAX_RECORD_BYTES:
        raise DecodeError("too_large", f"{len(value)} bytes, more than {MAX_RECORD_BYTES}")
    parsed = _loads(value)
    if isinstance(parsed, dict):
        return [from_dict(parsed)], []
    if not isinstance(parsed, list):
        raise DecodeError("not_an_event", f"expected an object or an array, got {type(parsed).__name__}")
    events: list[Event[Any]] = []
    errors: list[DecodeError] = []
    for index, item in enumerate(parsed):
        try:
            events.append(from_dict(item))
        except DecodeError as exc:
            errors.append(DecodeError(exc.reason, f"event {index}: {exc.detail}"))
    return events, errors


def source_parts(source: str) -> tuple[str, str, str | None]:
    """`/<cluster>/<node>/<collector>` -> its parts; raises `DecodeError`."""
    found = _SOURCE.fullmatch(source)
    if not found:
        raise DecodeError("wrong_source", f"{source!r:.80} is not /<cluster>/<node>/<collector>")
    return found[1], found[2], found[3]


def _encode_escaped(event: Event[Any]) -> bytes:
    try:
        return orjson.dumps(_escaped(event.model_dump(mode="python", exclude_none=True)))
    except TypeError as exc:
        raise EncodeError(f"{event.type} {event.id}: {exc}") from exc


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(inner) for key, inner in value.items()}
    return [_escaped(inner) for inner in value] if isinstance(value, list | tuple) else value


def _loads(value: bytes) -> object:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as exc:
        raise DecodeError("not_json", str(exc)) from exc


def _first_errors(exc: ValidationError, most: int = 3) -> str:
    errors: Sequence[Any] = exc.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in errors[:most]]
    more = len(errors) - most
    return "; ".join(told) + (f" (+{more} more)" if more > 0 else "")
