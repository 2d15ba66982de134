from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.harness import Fleet, fleet
from tests.kafka import Kafka


@pytest.fixture
async def workers(kafka: Kafka, catalogue: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Workers of the counting app over a fresh catalogue of topics (4 partitions)."""
    async with fleet(kafka, catalogue, tmp_path) as running:
        yield running
