"""Field values as the binding's own structures would read them."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml
import pytest

from collectors.nvml.library import _FIELD_VALUE, _values

KINDS = [
    (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 0.25),
    (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", 2**32 - 1),
    (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", 2**63 + 1),
    (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", 2**64 - 1),
    (pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, "sllVal", -(2**63)),
    (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -7),
    (pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, "usVal", 65_535),
]


def answer(*entries: tuple[int, int, str | None, Any]) -> Any:
    """An array of nvmlFieldValue_t of (type, return code, member, value)."""
    array = (pynvml.c_nvmlFieldValue_t * len(entries))()
    for at, (kind, code, member, value) in enumerate(entries):
        ctypes.memset(ctypes.addressof(array[at]), 0xEE, _FIELD_VALUE.size)  # what NVML left there before
        array[at].valueType, array[at].nvmlReturn = kind, code
        if member is not None:
            setattr(array[at].value, member, value)
    return array


def test_the_structure_is_as_long_as_the_bindings() -> None:
    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == _FIELD_VALUE.size


@pytest.mark.parametrize(("kind", "member", "value"), KINDS)
def test_every_type_is_read_as_the_binding_reads_it(kind: int, member: str, value: float) -> None:
    array = answer((kind, 0, member, value))
    assert _values(array) == [value] == [getattr(array[0].value, member)]


def test_what_failed_and_types_of_a_later_library_have_no_value() -> None:
    last = max(kind for kind, _, _ in KINDS)
    array = answer(
        (1, pynvml.NVML_ERROR_NOT_SUPPORTED, "uiVal", 5), (last + 1, 0, "ullVal", 5), (1, 0, "uiVal", 5)
    )
    assert _values(array) == [None, None, 5]
