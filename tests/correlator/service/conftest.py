from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from correlator.service.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "service.db")
    yield found
    found.close()
