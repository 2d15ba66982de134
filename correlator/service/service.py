"""What the routes work with: the store, the live stream, how far Kafka has been read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from starlette.requests import Request

from correlator.service.live import Hub
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from correlator.service.views.overview import overview


class Feed(Protocol):
    """Where the store's events come from."""

    def problem(self) -> str | None:
        """Why replies may be out of date; None when everything that stood on the topics is in the store."""
        ...

    @property
    def lag(self) -> int | None:
        """Records that wait to be read; None while unknown."""
        ...

    @property
    def events(self) -> int:
        """Events so far that were new to the store."""
        ...

    @property
    def unreadable(self) -> int:
        """Records and events so far that do not follow the contract."""
        ...


class Service:
    """One a process. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        store: Store,
        settings: ServiceSettings,
        feed: Feed | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.store = store
        self.settings = settings
        self.feed = feed
        self.clock = clock
        self.hub = Hub(store)
        self._overview: tuple[int, dict[str, Any]] | None = None
        self._making = threading.Lock()

    def overview(self) -> dict[str, Any]:
        """Made once for all who ask while nothing changes; must not be changed."""
        with self._making:
            version = self.store.version
            if self._overview is None or self._overview[0] != version:
                with self.store.read() as db:
                    self._overview = (version, overview(db))
            return self._overview[1]

    def problem(self) -> str | None:
        return self.feed.problem() if self.feed is not None else None

    def close(self) -> None:
        """End what never ends by itself, so that the process can."""
        self.hub.close()


def service_of(request: Request) -> Service:
    """A dependency of routes."""
    service: Service = request.app.state.service
    return service
