"""Which links changed: a payload per transition or growth of an error counter, levels for the rest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.levels import LevelBoard
from collectors.nvml.library import Gpu
from collectors.nvml.links import Links, Values, payload
from topics.payloads import Nvlink


@dataclass(slots=True)
class LinkTracker:
    """All links of a node. `board` gets their levels; a link that does not answer has none."""

    board: LevelBoard
    _rows: dict[str, Values] = field(default_factory=dict)
    """What was told last of `<gpu uuid>/<link>`."""
    _states: dict[str, str] = field(default_factory=dict)

    def changed(self, gpu: Gpu, known: Links, rows: list[Values]) -> list[Nvlink]:
        """What of a GPU's `rows` is worth an event; at first sight all of it."""
        quiet = known.quiet_columns()
        told = []
        for link, row in enumerate(rows):
            before = self._rows.get(f"{gpu.uuid}/{link}")
            seen = before is not None and f"{gpu.uuid}/{link}" in self.board.nvlinks
            if seen and before is not None and not _worth_telling(before, row, quiet):
                continue
            found = self._take(gpu, known, link, row)
            if found is not None and before != row:  # else: seen again after it could not be
                told.append(found)
        return told

    def forget(self, uuid: str) -> None:
        """This GPU can't be seen: its levels are unknown, what they were is kept to compare with."""
        for key in [key for key in self.board.nvlinks if key.startswith(f"{uuid}/")]:
            del self.board.nvlinks[key]

    def _take(self, gpu: Gpu, known: Links, link: int, row: Values) -> Nvlink | None:
        key = f"{gpu.uuid}/{link}"
        found = payload(gpu, known, link, row)
        if found is None:
            self.board.nvlinks.pop(key, None)
            return None
        before = self._states.get(key)
        self._rows[key] = row
        self._states[key] = self.board.nvlinks[key] = found.state
        if before is not None and before != found.state:
            return found.model_copy(update={"previous_state": before})
        return found


def _worth_telling(before: Values, now: Values, quiet: set[int]) -> bool:
    if before == now:
        return False
    return any(value != before[column] for column, value in enumerate(now) if column not in quiet)
