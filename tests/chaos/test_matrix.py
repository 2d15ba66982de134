"""The matrix on real processes and three real brokers: the representative rows always, all with the nightly.

What other folders prove already is not repeated here; docs/chaos.md has the whole table with its places.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faultwire.broker.errors import NoBrokerError
from tests.chaos.matrix import chosen, run
from tests.conftest import no_broker

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
