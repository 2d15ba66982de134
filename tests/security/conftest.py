"""One guarded broker for the tests of this folder, with the catalogue and exactly the rights of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultwire.broker.errors import NoBrokerError
from tests.conftest import no_broker
from tests.security import guarded
from tests.security.guarded import Guarded


@pytest.fixture(scope="session")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    try:
        running = guarded.start(tmp_path_factory.mktemp("guarded"))
    except NoBrokerError as exc:
        no_broker(str(exc))
    with running.cluster:
        yield running
