"""What the workers hold does not grow with the hours."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import pytest

from faultwire.broker.errors import NoBrokerError
from tests.chaos.soak import Soaked, soak, told
from tests.chaos.soak_agent import soak_agent
from tests.conftest import no_broker

NIGHTLY = os.environ.get("FAULTWIRE_NIGHTLY") == "1"
GROWS_MB = 12.0
"""From the second quarter to the last: the allocator's own unrest. In the first, what is kept fills up."""
FILES = 8
"""An agent has the logs of one job open, or those of two for a moment."""


@pytest.mark.broker
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not NIGHTLY, reason="a day of traffic takes minutes: FAULTWIRE_NIGHTLY=1")
@pytest.mark.parametrize(
    "run", [lambda: soak(nodes=32, hours=24.0), lambda: soak_agent(hours=24.0)], ids=["workers", "agent"]
)
async def test_a_day_of_traffic_leaves_memory_and_file_handles_as_they_were(
    run: Callable[[], Awaitable[Soaked]],
) -> None:
    try:
        soaked = await run()
    except NoBrokerError as exc:
        no_broker(str(exc))
    for name in soaked.looks:
        _, second, _, last = soaked.quarters(name)
        assert last.rss_mb - second.rss_mb < GROWS_MB, told(soaked)
        assert last.files <= second.files + FILES, told(soaked)
        assert last.threads <= second.threads + 1, told(soaked)
