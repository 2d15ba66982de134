"""Small events, and a hypothesis strategy for any payload that the contract allows."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel

from topics.events import Event, make
from topics.ids import transition_id
from topics.payloads import IbPort, Payload
from topics.time import NS_PER_S, NS_PER_US, parse_rfc3339

T0 = parse_rfc3339("2026-03-14T09:26:53Z")

TIMES = st.integers(0, 4_102_444_800 * 1_000_000 - 1).map(lambda us: us * NS_PER_US)
"""Whole microseconds, 1970 to 2100."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(0, 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
ANY_JSON = st.recursive(
    st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def port_event(
    state: str = "DOWN", *, at: float = 0.0, node: str = "node-07", **fields: Any
) -> Event[IbPort]:
    """A transition of mlx5_3/1, `at` seconds after T0; `fields` go into the payload."""
    time = T0 + round(at * NS_PER_S)
    payload = IbPort.model_validate(
        {"device": "mlx5_3", "port": 1, "link_layer": "InfiniBand", "state": state, "via": "sysfs", **fields}
    )
    return make(
        payload,
        id=transition_id("alps", node, "port/mlx5_3/1", "ib_port", time, state),
        source=f"/alps/{node}/ports",
        subject="port/mlx5_3/1",
        time=time,
        key=node,
    )


def payloads(model: type[Payload]) -> st.SearchStrategy[Payload]:
    """Payloads of a type, optional fields present or absent."""
    return typing.cast("st.SearchStrategy[Payload]", _instances(model))


def _instances(model: type[BaseModel]) -> st.SearchStrategy[BaseModel]:
    hints = typing.get_type_hints(model, include_extras=True)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, info in model.model_fields.items():
        (required if info.is_required() else optional)[name] = _values(hints[name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: model(**fields))


def _values(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        is_time = any(type(extra).__name__ == "PlainSerializer" for extra in args[1:])
        return TIMES if is_time else _values(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in {Union, types.UnionType}:
        return st.one_of([_values(arg) for arg in args])
    if origin is list:
        return st.lists(_values(args[0]), max_size=3)
    if origin in {dict, Mapping}:
        return st.dictionaries(TEXT, _values(args[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return _instances(hint)
    simple = {
        str: TEXT,
        int: INTEGERS,
        float: FLOATS,
        bool: st.booleans(),
        type(None): st.none(),
        Any: ANY_JSON,
    }
    return simple[hint]
