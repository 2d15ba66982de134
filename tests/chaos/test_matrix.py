"""The matrix on real processes and three real brokers: the representative rows always, all with the nightly.

What other folders prove already is not repeated here; docs/chaos.md has the whole table with its places.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faultwire.broker.cluster import Cluster
from faultwire.broker.errors import NoBrokerError
from tests.chaos.fleet import ShortFleet
from tests.chaos.line import Line, missing, surplus
from tests.chaos.matrix import chosen, run
from tests.conftest import no_broker
from tests.kafka import Kafka

NIGHTLY = os.environ.get("FAULTWIRE_NIGHTLY") == "1"
REPRESENTATIVE = ("kill -9 agent", "kill -9 correlator", "kill -9 controller", "one of three brokers killed")


@pytest.mark.broker
@pytest.mark.timeout(3600 if NIGHTLY else 420)
async def test_whatever_is_done_to_us_the_right_thing_is_said_once_and_done(tmp_path: Path) -> None:
    rows = chosen(nightly=True) if NIGHTLY else chosen(nightly=False, words=REPRESENTATIVE)
    try:
        outcomes = await run(rows, tmp_path)
    except NoBrokerError as exc:
        no_broker(str(exc))
    assert [outcome.row for outcome in outcomes] == [row.name for row in rows]


async def test_a_row_that_fails_says_what_is_missing_and_what_is_too_much(tmp_path: Path) -> None:
    """Else a failure that comes once in a hundred rows tells nothing."""
    line = Line(Kafka("127.0.0.1:1"), Cluster(tmp_path), "", tmp_path)
    down, up = (step(1_000_000_000)[0].event for step in (ShortFleet().goes_down, ShortFleet().comes_up))
    line.heard["actions"][up.id] = [up]
    wanted = {down.id: down}
    with pytest.raises(AssertionError, match=f"all actions: not within .* s\n.*{down.id} .*'DOWN'"):
        await line.until(
            lambda: wanted.keys() <= line.heard["actions"].keys(),
            "all actions", 0.01, lambda: str(missing(line, "actions", wanted)),
        )  # fmt: skip
    assert [up.id in words for words in surplus(line, "actions", wanted)] == [True]
