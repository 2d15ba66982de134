"""JSON of foreign programs: what is not of the expected shape counts as empty, so that readers go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
