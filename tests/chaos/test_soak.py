"""What the workers hold does not grow with the hours."""

from __future__ import annotations

import os

import pytest

from faultwire.broker.errors import NoBrokerError
from tests.chaos.soak import soak, told
from tests.conftest import no_broker

NIGHTLY = os.environ.get("FAULTWIRE_NIGHTLY") == "1"
GROWS_MB = 12.0
"""From the second quarter to the last: the allocator's own unrest. In the first, what is kept fills up."""


@pytest.mark.broker
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not NIGHTLY, reason="a day of traffic takes minutes: FAULTWIRE_NIGHTLY=1")
async def test_a_day_of_traffic_leaves_memory_and_file_handles_as_they_were() -> None:
    try:
        soaked = await soak(nodes=32, hours=24.0)
    except NoBrokerError as exc:
        no_broker(str(exc))
    for name in soaked.looks:
        _, second, _, last = soaked.quarters(name)
        assert last.rss_mb - second.rss_mb < GROWS_MB, told(soaked)
        assert last.files <= second.files + 2, told(soaked)
        assert last.threads <= second.threads + 1, told(soaked)
