"""Table recovery without losing input at its end.

Stock Faust resumes the source partitions, seeks, and then empties the streams' queues, with the fetcher
running: what was delivered in between is consumed, never acknowledged, and gone. Here nothing is delivered
until positions are set and queues are empty, and the core has its keys before the first record comes.
"""

from __future__ import annotations

from typing import Any, Protocol

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery


class Hooks(Protocol):
    """Who is told about recovery."""

    def caught_up(self, offsets: dict[Any, int | None]) -> None:
        """The changelog partitions have been read up to these offsets."""
        ...

    async def restore(self) -> None:
        """All state is there and no record has come yet. What it raises stops the worker."""
        ...

    def resumed(self) -> None:
        """Records may flow."""
        ...


class SafeRecovery(Recovery):  # type: ignore[misc]
    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        hooks: Hooks = self.tables.hooks
        self.app.consumer.stop_flow()
        hooks.caught_up(dict(self.active_offsets))
        await hooks.restore()
        await super().on_recovery_completed(generation_id)
        if self.app.consumer_generation_id == generation_id:
            hooks.resumed()


class SafeTableManager(TableManager):  # type: ignore[misc]
    hooks: Hooks
    _recovery: SafeRecovery | None = None

    @property
    def recovery(self) -> SafeRecovery:
        if self._recovery is None:
            self._recovery = SafeRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """As Faust's, without the second that it waits for tables to be declared: ours is there."""
        await self._update_channels()
        await self.recovery.start()
