"""Fixtures of this room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.kafka import Kafka


@pytest.fixture
def catalogue_sync(kafka: Kafka, topic_prefix: str) -> Iterator[str]:
    """As `catalogue`, for tests that run a command with an event loop of its own."""
    asyncio.run(kafka.create_catalogue(topic_prefix))
    yield topic_prefix
    asyncio.run(kafka.delete_prefix(topic_prefix))
