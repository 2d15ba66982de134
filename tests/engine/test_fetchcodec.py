"""The quick fetch codec against aiokafka's own, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pytest
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v11, FetchResponse_v11
from hypothesis import given
from hypothesis import strategies as st

from streams.engine import fetchcodec
from streams.engine.fetchcodec import RequestTopics, ResponseTopics

int16, int32, int64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
names = st.text(st.characters(codec="utf-8"), max_size=20)
asked = st.lists(
    st.tuples(names, st.lists(st.tuples(int32, int32, int64, int64, int32), max_size=4)), max_size=4
)
answered = st.lists(
    st.tuples(
        names,
        st.lists(
            st.tuples(
                int32, int16, int64, int64, int64,
                st.none() | st.lists(st.tuples(int64, int64), max_size=3),
                int32, st.none() | st.binary(max_size=50),
            ),
            max_size=4,
        ),
    ),
    max_size=4,
)  # fmt: skip


def stock_field(index: int) -> object:
    schema = fetchcodec.STOCK[index]
    return schema.fields[schema.names.index("topics")]


@given(asked)
def test_requests_are_encoded_as_aiokafka_does(topics: list[object]) -> None:
    assert RequestTopics().encode(topics) == stock_field(0).encode(topics)  # type: ignore[attr-defined]


@given(answered)
def test_answers_are_decoded_as_aiokafka_does(topics: list[object]) -> None:
    raw = stock_field(1).encode(topics)  # type: ignore[attr-defined]
    rest = b"what comes next"
    data = BytesIO(raw + rest)
    assert ResponseTopics().decode(data) == stock_field(1).decode(BytesIO(raw))  # type: ignore[attr-defined]
    assert data.read() == rest


def test_an_answer_that_ends_too_early_is_an_error() -> None:
    raw = stock_field(1).encode([("t", [(0, 0, 1, 1, 0, None, -1, b"records")])])  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="ends within"):
        ResponseTopics().decode(BytesIO(raw[:-1]))


@pytest.fixture
def installed() -> Iterator[None]:
    fetchcodec.install()
    yield
    FetchRequest_v11.SCHEMA, FetchResponse_v11.SCHEMA = fetchcodec.STOCK


@pytest.mark.usefixtures("installed")
def test_the_whole_messages_are_the_same() -> None:
    request = FetchRequest(100, 1, 1 << 20, 0, [("t", [(0, 7, 1000), (1, 8, 1000)])]).build(FetchRequest_v11)
    values = [request.__dict__[name] for name in fetchcodec.STOCK[0].names]
    assert request.encode() == fetchcodec.STOCK[0].encode(values)
    raw = fetchcodec.STOCK[1].encode((0, 0, 0, [("t", [(0, 0, 9, 9, 0, None, -1, b"x")])]))
    assert FetchResponse_v11.decode(raw).topics == [("t", [(0, 0, 9, 9, 0, None, -1, b"x")])]
