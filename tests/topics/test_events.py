"""The envelope: written strictly, read tolerantly, batched within limits; only DecodeError comes out."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.topics.builders import ANY_JSON, T0, payloads, port_event
from topics.errors import DecodeError, EncodeError
from topics.events import (
    MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS,
    MAX_RECORD_BYTES,
    MODELS,
    PAYLOADS,
    Event,
    decode,
    decode_record,
    encode,
    encode_batch,
    from_dict,
    make,
    source_parts,
    split_batches,
    to_dict,
    type_of,
)
from topics.payloads import Kernel, Payload
from topics.schema import examples


def event_of(payload: Payload, **attributes: Any) -> Event[Any]:
    return make(
        payload, id="1", source="/alps/node-07/x", subject="node", time=T0, key="node-07", **attributes
    )


# -- what is written is read back -----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PAYLOADS))
@settings(max_examples=25)
@given(data=st.data())
def test_every_type_survives_the_wire(name: str, data: st.DataObject) -> None:
    event = event_of(data.draw(payloads(PAYLOADS[name])))
    assert decode(encode(event)) == event
    assert decode_record(encode_batch([event, event])) == ([event, event], [])
    assert orjson.loads(encode(event)) == to_dict(event)


def test_optional_attributes_survive_the_wire() -> None:
    event = event_of(
        Kernel(category="other", message="x"),
        recordedtime=T0 + 5_000,
        sequence=7,
        bootid="b",
        drill=True,
        provenance="replay",
        node="node-07",
        jobid="48213",
        attempt=2,
    )
    assert decode(encode(event)) == event


def test_what_is_not_known_is_left_out_not_null() -> None:
    assert b"null" not in encode(port_event())
    assert "recordedtime" not in to_dict(port_event())


def test_times_are_text_with_microseconds_on_the_wire() -> None:
    assert to_dict(port_event(at=0.25))["time"] == "2026-03-14T09:26:53.250000Z"


def test_the_envelope_has_what_cloudevents_asks_for() -> None:
    written = to_dict(port_event())
    assert written["specversion"] == "1.0"
    assert written["type"] == "faultwire.ib_port.v1"
    assert written["datacontenttype"] == "application/json"
    assert {"id", "source", "subject", "time", "partitionkey", "data"} <= written.keys()


def test_cluster_and_kind_are_read_off_the_event() -> None:
    assert (port_event().cluster, port_event().kind) == ("alps", "ib_port")


def test_undecodable_text_is_written_with_escapes_instead_of_being_lost() -> None:
    broken = b"bad \xff byte".decode("utf-8", "surrogateescape")
    back = decode(encode(event_of(Kernel(category="other", message=broken))))
    assert back.data.message == "bad \\udcff byte"


def test_what_json_cannot_say_is_an_encode_error() -> None:
    outage = from_dict(examples()["faultwire.signal.v1"])
    odd = outage.data.model_copy(update={"detail": {"x": object()}})
    with pytest.raises(EncodeError, match=r"faultwire\.signal\.v1"):
        encode(event_of(odd))


# -- written strictly -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": "1"},
        {"port": True},
        {"state": "UP"},
        {"counters": {"link_downed": 1.5}},
        {"rate_gbps": float("nan")},
        {"rate_gbps": float("inf")},
        {"surprise": 1},
    ],
    ids=repr,
)
def test_a_wrong_payload_cannot_be_built(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        port_event(**wrong)


def test_an_unknown_attribute_cannot_be_written() -> None:
    with pytest.raises(ValidationError):
        event_of(Kernel(category="other", message="x"), colour="red")


def test_events_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        port_event().id = "2"


# -- read tolerantly ------------------------------------------------------------------------------------


def test_fields_that_later_versions_add_are_let_pass_at_every_depth() -> None:
    raw = examples()["faultwire.job.v1"]
    raw["futureattribute"] = 1
    raw["data"]["future_field"] = {"a": 1}
    raw["data"]["nccl"]["future_setting"] = 2
    raw["data"]["ranks"]["0"]["future"] = 3
    assert from_dict(raw) == from_dict(examples()["faultwire.job.v1"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("id",), 5),
        (("time",), 1_700_000_000),
        (("time",), "2026-03-14 09:26"),
        (("specversion",), "0.3"),
        (("sequence",), "7"),
        (("sequence",), 1e30),
        (("drill",), "true"),
        (("partitionkey",), None),
        (("data",), None),
        (("data",), []),
        (("data", "port"), "1"),
        (("data", "state"), "UP"),
        (("data", "counters"), [1]),
    ],
)
def test_what_we_know_must_have_the_right_type(path: tuple[str, ...], value: object) -> None:
    raw = to_dict(port_event(counters={"link_downed": 1}))
    target = raw
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    with pytest.raises(DecodeError, match=path[-1]) as told:
        from_dict(raw)
    assert told.value.reason == "wrong_shape"


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_a_missing_field_that_must_be_there_is_named(name: str) -> None:
    required = [field for field, info in PAYLOADS[name].model_fields.items() if info.is_required()]
    for field in required:
        raw = examples()[name]
        del raw["data"][field]
        with pytest.raises(DecodeError, match=rf"data\.{field}"):
            from_dict(raw)


# -- batches --------------------------------------------------------------------------------------------


def test_a_batch_holds_at_most_200_events_in_order() -> None:
    events = [event_of(Kernel(category="other", message=str(i))) for i in range(2 * MAX_BATCH_EVENTS + 1)]
    batches = list(split_batches(events))
    assert [len(orjson.loads(b)) for b in batches] == [MAX_BATCH_EVENTS, MAX_BATCH_EVENTS, 1]
    assert [e for b in batches for e in decode_record(b)[0]] == events


def test_a_batch_holds_at_most_64_kib() -> None:
    events = [port_event(at=i, message="x" * 5000) for i in range(40)]
    batches = list(split_batches(events))
    assert max(map(len, batches)) <= MAX_BATCH_BYTES
    assert len(batches) == 4
    assert [e for b in batches for e in decode_record(b)[0]] == events


@pytest.mark.parametrize(("spare", "batches"), [(0, 1), (-1, 2)])
def test_the_size_is_exact_to_the_byte(spare: int, batches: int) -> None:
    first, empty = port_event(at=0), port_event(at=1, message="")
    room = MAX_BATCH_BYTES - len(encode_batch([first, empty]))
    last = port_event(at=1, message="x" * (room - spare))
    assert len(list(split_batches([first, last]))) == batches


@given(st.lists(st.integers(0, 30_000), max_size=30))
def test_no_batch_passes_the_size_unless_one_event_alone_does(lengths: list[int]) -> None:
    events = [port_event(at=i, message="x" * n) for i, n in enumerate(lengths)]
    batches = list(split_batches(events))
    for batch in batches:
        assert len(batch) <= MAX_BATCH_BYTES or len(orjson.loads(batch)) == 1
    assert [e for b in batches for e in decode_record(b)[0]] == events


def test_one_event_that_is_too_large_for_a_batch_travels_alone() -> None:
    large = port_event(message="x" * MAX_BATCH_BYTES)
    assert [len(orjson.loads(b)) for b in split_batches([port_event(), large, port_event()])] == [1, 1, 1]


def test_nothing_makes_no_batch() -> None:
    assert list(split_batches([])) == []


def test_a_bad_element_does_not_take_its_neighbours_with_it() -> None:
    good = [to_dict(port_event(at=0)), to_dict(port_event(at=1))]
    bad: list[object] = [{"type": "faultwire.nothing.v1"}, 7, {**good[0], "time": "never"}]
    events, errors = decode_record(orjson.dumps([good[0], *bad, good[1]]))
    assert [e.time for e in events] == [T0, T0 + 10**9]
    assert [e.reason for e in errors] == ["unknown_type", "not_an_event", "wrong_shape"]
    assert [e.detail.split(":")[0] for e in errors] == ["event 1", "event 2", "event 3"]


def test_a_single_event_is_read_as_a_record_too() -> None:
    assert decode_record(encode(port_event())) == ([port_event()], [])


# -- what can't be read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no_value"),
        (b"", "not_json"),
        (b"\x00\xff\xfe", "not_json"),
        (b'{"specversion": "1.0"', "not_json"),
        (b"[NaN]", "not_json"),
        (b'"\\ud800"', "not_json"),
        (b"[" * 100_000, "not_json"),
        (b"[" * 500 + b"]" * 500, None),
        (b"7", "not_an_event"),
        (b'"text"', "not_an_event"),
        (b"null", "not_an_event"),
        (b"{}", "unknown_type"),
        (b'{"type": "faultwire.xid.v2"}', "unknown_type"),
        (b'{"type": ["faultwire.xid.v1"]}', "unknown_type"),
        (b'{"type": "faultwire.xid.v1"}', "wrong_shape"),
        (b" " * (MAX_RECORD_BYTES + 1), "too_large"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(value: bytes | None, reason: str | None) -> None:
    if reason is None:
        assert [e.reason for e in decode_record(value)[1]] == ["not_an_event"]
        return
    with pytest.raises(DecodeError) as told:
        decode_record(value)
    assert told.value.reason == reason


def test_what_is_told_of_a_bad_record_stays_short() -> None:
    raw = {**to_dict(port_event()), "id": ["x" * 10_000], "data": {f"f{i}": i for i in range(500)}}
    with pytest.raises(DecodeError) as told:
        from_dict(raw)
    assert len(str(told.value)) < 1000


EXAMPLES = list(examples().values())


def only_decode_errors(value: bytes) -> None:
    try:
        events, errors = decode_record(value)
    except DecodeError:
        return
    assert all(isinstance(event, Event) for event in events)
    assert all(isinstance(error, DecodeError) for error in errors)
    for event in events:
        assert decode(encode(event)) == event


@given(st.binary(max_size=200))
def test_random_bytes_give_only_decode_errors(value: bytes) -> None:
    only_decode_errors(value)


@given(st.sampled_from(EXAMPLES), st.data())
def test_truncated_events_give_only_decode_errors(example: dict[str, Any], data: st.DataObject) -> None:
    value = orjson.dumps([example])
    only_decode_errors(value[: data.draw(st.integers(0, len(value)))])


@given(st.sampled_from(EXAMPLES), st.data())
def test_flipped_bytes_give_only_decode_errors(example: dict[str, Any], data: st.DataObject) -> None:
    value = bytearray(orjson.dumps(example))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    only_decode_errors(bytes(value))


WRONG = ANY_JSON | st.sampled_from([None, 2**64 - 1, 1e308, -1, "", "9" * 400, [[[[]]]], {"": {"": None}}])


@given(st.sampled_from(EXAMPLES), WRONG, st.data())
def test_wrong_types_anywhere_give_only_decode_errors(
    example: dict[str, Any], wrong: Any, data: st.DataObject
) -> None:
    raw = orjson.loads(orjson.dumps(example))
    target: Any = raw
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
            target = target[key]
            continue
        target[key] = wrong
        break
    only_decode_errors(orjson.dumps(raw))


@given(st.sampled_from(sorted(MODELS)), ANY_JSON, st.integers(min_value=2**64, max_value=2**200))
def test_huge_numbers_and_odd_data_give_only_decode_errors(name: str, odd: Any, huge: int) -> None:
    only_decode_errors(orjson.dumps({"type": name, "data": odd}))
    only_decode_errors(b'{"type":"%s","sequence":%d,"data":{"attempt":%d}}' % (name.encode(), huge, -huge))


@pytest.mark.parametrize("depth", [100, 1000, 1023, 1024, 50_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    raw = to_dict(from_dict(examples()["faultwire.signal.v1"]))
    raw["data"]["detail"] = {"x": "DEEP"}
    with pytest.raises(DecodeError):
        decode_record(orjson.dumps(raw).replace(b'"DEEP"', b"[" * depth + b"]" * depth))


def test_detail_may_be_nested_as_deep_as_people_would() -> None:
    raw = to_dict(from_dict(examples()["faultwire.signal.v1"]))
    raw["data"]["detail"] = {"a": [{"b": {"c": [[1]]}}], "e": [], "f": {}}
    assert to_dict(from_dict(raw)) == raw


# -- small parts ----------------------------------------------------------------------------------------


def test_source_parts() -> None:
    assert source_parts("/alps/node-07/kmsg") == ("alps", "node-07", "kmsg")
    assert source_parts("/alps/streams") == ("alps", "streams", None)
    for wrong in ("alps/node", "/alps", "/alps//kmsg", "/a/b/c/d", ""):
        with pytest.raises(DecodeError):
            source_parts(wrong)


def test_type_names_carry_the_version() -> None:
    assert type_of("xid") == "faultwire.xid.v1"
    assert set(MODELS) == set(PAYLOADS)
